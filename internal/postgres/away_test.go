package postgres

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// What is the server's trouble is never the caller's bare 500: it says that the
// same may work in a moment.
func TestTroubleOfTheServerSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code string // empty: passed on as it is
	}{
		"disk full":            {&pgconn.PgError{Code: "53100"}, "storage_full"},
		"too many clients":     {&pgconn.PgError{Code: "53300"}, "database_unavailable"},
		"an I/O error":         {&pgconn.PgError{Code: "58030"}, "database_unavailable"},
		"a session ended":      {&pgconn.PgError{Code: "22000", Severity: "FATAL"}, "database_unavailable"},
		"a fault of its own":   {&pgconn.PgError{Code: "XX001"}, "database_unavailable"},
		"shutting down":        {&pgconn.PgError{Code: "57P01"}, "database_unavailable"},
		"a statement too slow": {&pgconn.PgError{Code: "57014"}, "database_unavailable"},
		"a lock too slow":      {&pgconn.PgError{Code: "55P03"}, "database_unavailable"},
		"cut off":              {io.ErrUnexpectedEOF, "database_unavailable"},
		"a broken rule":        {&pgconn.PgError{Code: "23514"}, ""},
		"a statement of us":    {&pgconn.PgError{Code: "42703"}, ""},
	} {
		var e *cloud.Error
		got := away(t.Context(), fmt.Errorf("write: %w", c.err))
		switch {
		case c.code == "" && errors.As(got, &e):
			t.Errorf("%s: %v", name, got)
		case c.code != "" && (!errors.As(got, &e) || e.Code != c.code || e.Kind != cloud.KindUnavailable):
			t.Errorf("%s: %v", name, got)
		}
	}
}

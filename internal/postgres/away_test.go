package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

func TestALostServerIsUnavailableAndARefusalIsNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		away bool
	}{
		"starting up":        {&pgconn.PgError{Code: "57P03"}, true},
		"told to shut down":  {&pgconn.PgError{Code: "57P01"}, true},
		"connection lost":    {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		"too many clients":   {&pgconn.PgError{Code: "53300"}, true},
		"connection closed":  {errors.New("conn closed"), true},
		"a unique violation": {&pgconn.PgError{Code: "23505"}, false},
		"a mistake of ours":  {errors.New("scan: wrong type"), false},
	} {
		if got := cloud.KindOf(away(context.Background(), c.err)) == cloud.KindUnavailable; got != c.away {
			t.Errorf("%s: unavailable is %v, want %v", name, got, c.away)
		}
	}
}

func TestWhatIsNoTextIsItsSendersFault(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"22021", "22P05"} {
		if got := cloud.KindOf(noText(fmt.Errorf("find: %w", &pgconn.PgError{Code: code}))); got != cloud.KindInvalid {
			t.Errorf("%s is %s", code, got)
		}
	}
}

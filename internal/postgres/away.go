package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// away turns the loss of the server into an error that says so: the caller may
// try again in a moment. What was under way may have happened or not.
func away(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if Code(err) == "53100" {
		return cloud.E(cloud.KindUnavailable, "storage_full", "the control plane's storage is full: nothing can be changed now").
			WithHint("nothing was changed; try again when an operator has made room").Wrap(err)
	}
	if !isAway(err) {
		return err
	}
	return cloud.E(cloud.KindUnavailable, "database_unavailable", "the control plane's database does not answer just now").
		WithHint("try again in a few seconds; what was asked may have happened, so look first or use an Idempotency-Key").Wrap(err)
}

// isAway tells a server that is down, starting, stopping or cut off from one
// that refuses: classes 08 (connection), 53 (resources), 57P0x (operator
// intervention), 58 (the system under it) and XX (its own faults), a statement or a
// lock that took too long (57014, 55P03), whatever ends a session, and whatever the
// network says.
func isAway(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, &said) && (said.Severity == "FATAL" || said.Severity == "PANIC") {
		return true
	}
	if code := Code(err); code != "" {
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "57P0") || strings.HasPrefix(code, "58") || strings.HasPrefix(code, "XX") ||
			code == "57014" || code == "55P03"
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed")
}

// noText turns the refusal of a zero byte or of what is not UTF-8 into an error
// of who sent it: the doors look for it first, and this is the net below them.
func noText(err error) error {
	if code := Code(err); code == "22021" || code == "22P05" {
		return cloud.E(cloud.KindInvalid, "invalid", "a text holds a zero byte or is not UTF-8").Wrap(err)
	}
	return err
}

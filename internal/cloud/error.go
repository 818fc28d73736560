package cloud

import (
	"errors"
	"fmt"
)

// Kind says who must react to an error, and how. Only httpapi turns it into a
// status code.
type Kind string

const (
	KindMalformed       Kind = "malformed"       // could not be parsed: 400
	KindUnauthenticated Kind = "unauthenticated" // 401
	KindForbidden       Kind = "forbidden"       // inside one's own tenant: 403
	KindQuota           Kind = "quota_exceeded"  // inside one's own tenant: 403
	KindNotFound        Kind = "not_found"       // missing or another tenant's, told apart by nobody: 404
	KindConflict        Kind = "conflict"        // the state forbids it: 409
	KindPrecondition    Kind = "precondition"    // If-Match: 412
	KindTooLarge        Kind = "too_large"       // 413
	KindInvalid         Kind = "invalid"         // understood but wrong or impossible: 422
	KindRateLimited     Kind = "rate_limited"    // 429
	KindUnavailable     Kind = "unavailable"     // 503, try again
	KindNoCapacity      Kind = "no_capacity"     // 507
	KindInternal        Kind = "internal"        // 500
)

// Field is one thing wrong with a request; all are reported at once.
type Field struct {
	Location string // where, as a path into the request: body.name, path.project, query.limit
	Message  string // what is wrong and what is allowed
	Value    any    // what was sent; nil when it may be secret
}

// Error is what every floor returns to the one above. Message, Hint, Fields
// and Detail are for the user; the wrapped error is for the log and never
// leaves the process.
type Error struct {
	Kind    Kind
	Code    string // stable and specific, for programs: name_taken, quota_exceeded; defaults to the kind
	Message string // what was asked and why it can't be done
	Hint    string // how to get on: what is allowed, which command
	Fields  []Field
	Detail  map[string]any // machine-readable figures: limit, used, asked, reasons
	err     error
}

// E makes an error of a kind with a message for the user.
func E(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// NotFound is the one answer for what is missing and what is another tenant's.
func NotFound(what, ref string) *Error {
	return E(KindNotFound, "not_found", "%s %q does not exist, or is not yours to see", what, ref)
}

// Invalid gathers all that is wrong with a request.
func Invalid(fields ...Field) *Error {
	return &Error{Kind: KindInvalid, Code: "invalid", Message: "the request is understood but can't be carried out as asked", Fields: fields}
}

// WithHint adds the way out.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// With adds a machine-readable figure.
func (e *Error) With(key string, value any) *Error {
	if e.Detail == nil {
		e.Detail = map[string]any{}
	}
	e.Detail[key] = value
	return e
}

// Wrap keeps the cause for the log.
func (e *Error) Wrap(err error) *Error { e.err = err; return e }

// Error is for logs: it includes the cause.
func (e *Error) Error() string {
	if e.err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.err)
	}
	return e.Code + ": " + e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.err }

// KindOf gives the kind of an error; anything untyped is internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// statusOf is the one table from kinds of error to HTTP statuses.
var statusOf = map[cloud.Kind]int{
	cloud.KindMalformed:       http.StatusBadRequest,
	cloud.KindUnauthenticated: http.StatusUnauthorized,
	cloud.KindForbidden:       http.StatusForbidden,
	cloud.KindQuota:           http.StatusForbidden,
	cloud.KindNotFound:        http.StatusNotFound,
	cloud.KindConflict:        http.StatusConflict,
	cloud.KindPrecondition:    http.StatusPreconditionFailed,
	cloud.KindTooLarge:        http.StatusRequestEntityTooLarge,
	cloud.KindInvalid:         http.StatusUnprocessableEntity,
	cloud.KindRateLimited:     http.StatusTooManyRequests,
	cloud.KindUnavailable:     http.StatusServiceUnavailable,
	cloud.KindNoCapacity:      http.StatusInsufficientStorage,
	cloud.KindInternal:        http.StatusInternalServerError,
}

var titleOf = map[int]string{
	http.StatusBadRequest:            "The request can't be read",
	http.StatusUnauthorized:          "Not signed in",
	http.StatusForbidden:             "Not allowed",
	http.StatusNotFound:              "Not found",
	http.StatusMethodNotAllowed:      "Method not allowed",
	http.StatusConflict:              "Not possible in this state",
	http.StatusPreconditionFailed:    "Changed in the meantime",
	http.StatusRequestEntityTooLarge: "Too large",
	http.StatusUnsupportedMediaType:  "Wrong content type",
	http.StatusUnprocessableEntity:   "Can't be done as asked",
	http.StatusTooManyRequests:       "Too many requests",
	http.StatusInternalServerError:   "Internal error",
	http.StatusServiceUnavailable:    "Not available now",
	http.StatusInsufficientStorage:   "No capacity",
}

// answer is a Problem on its way out.
type answer struct {
	api.Problem
	challenge  string // WWW-Authenticate
	retryAfter string
	cause      error // for the log
}

// Error implements error.
func (a *answer) Error() string { return a.Problem.Error() }

// GetStatus implements huma.StatusError.
func (a *answer) GetStatus() int { return a.Status }

// ContentType implements huma.ContentTypeFilter.
func (a *answer) ContentType(string) string { return "application/problem+json" }

// GetHeaders implements huma.HeadersError.
func (a *answer) GetHeaders() http.Header {
	h := http.Header{}
	if a.challenge != "" {
		h.Set("WWW-Authenticate", a.challenge)
	}
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	return h
}

func newAnswer(status int, code, detail string) *answer {
	title := titleOf[status]
	if title == "" {
		title = http.StatusText(status)
	}
	return &answer{Problem: api.Problem{
		Type: "/docs/api#problem-" + code, Title: title, Status: status, Detail: detail, Code: code,
	}}
}

// answerOf turns any error into a Problem: a cloud.Error by the table, anything
// else into an internal error that says nothing of its cause but the request id.
func answerOf(ctx context.Context, err error) *answer {
	var done *answer
	if errors.As(err, &done) {
		done.RequestID = requestID(ctx)
		return done
	}
	var e *cloud.Error
	if !errors.As(err, &e) || e.Kind == cloud.KindInternal {
		a := internalError(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			a = newAnswer(http.StatusServiceUnavailable, "timeout", "the control plane took too long to answer")
			a.Hint, a.retryAfter = "try again; what was asked may have happened, so look first or use an Idempotency-Key", "2"
			a.RequestID = requestID(ctx)
		}
		a.cause = err
		return a
	}
	status := statusOf[e.Kind]
	code := e.Code
	if code == "" {
		code = string(e.Kind)
	}
	a := newAnswer(status, code, e.Message)
	a.Hint, a.RequestID = e.Hint, requestID(ctx)
	if status >= 500 {
		a.cause = err
	}
	for _, f := range e.Fields {
		a.Errors = append(a.Errors, api.ProblemField{Location: f.Location, Message: f.Message, Value: toldBack(f.Location, f.Value)})
	}
	a.figures(e.Detail)
	switch e.Kind {
	case cloud.KindUnauthenticated:
		a.challenge = fmt.Sprintf(`Bearer realm="tenon", error="invalid_token", error_description=%q`, code)
		if code == "token_missing" {
			a.challenge = `Bearer realm="tenon"`
		}
	case cloud.KindUnavailable, cloud.KindRateLimited:
		a.retryAfter = "2"
	}
	return a
}

// figures puts the well-known figures in their own members and the rest beside.
func (a *answer) figures(detail map[string]any) {
	for k, v := range detail {
		switch k {
		case "limit":
			a.Limit = intOf(v)
		case "used":
			a.Used = intOf(v)
		case "asked":
			a.Asked = intOf(v)
		case "resource":
			a.Resource = fmt.Sprint(v)
		case "reasons":
			a.Reasons = reasonsOf(v)
		default:
			if a.Figures == nil {
				a.Figures = map[string]any{}
			}
			a.Figures[k] = v
		}
	}
}

func intOf(v any) *int64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var n *int64
	if json.Unmarshal(raw, &n) != nil {
		return nil
	}
	return n
}

func internalError(ctx context.Context) *answer {
	a := newAnswer(http.StatusInternalServerError, "internal", "something went wrong on our side")
	a.Hint = "look whether it happened after all, then try again; if it fails again, give your operator the request id"
	a.RequestID = requestID(ctx)
	return a
}

// writeProblem answers outside of an operation: no route, no method, a panic.
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	a := answerOf(r.Context(), err)
	for k, v := range a.GetHeaders() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(a.Status)
	_ = json.NewEncoder(w).Encode(a.Problem)
}

// validationAnswer is what huma's own checks end in: everything that is wrong,
// with a suggestion for each unknown spelling.
func validationAnswer(hctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
	if status < 500 {
		if a := unreached(hctx); a != nil {
			return a
		}
	}
	code, detail := "invalid", "the request is understood but can't be carried out as asked"
	switch {
	case strings.Contains(msg, "body is required"):
		status, code, detail = http.StatusUnprocessableEntity, "body_missing", "this operation needs a JSON body"
	case status == http.StatusRequestEntityTooLarge:
		code, detail = "body_too_large", fmt.Sprintf("the body is larger than %d KiB", maxBodyBytes>>10)
	case status == http.StatusUnsupportedMediaType:
		code, detail = "wrong_content_type", "the body must be application/json"
	case status == http.StatusBadRequest && isMisread(errs):
		status = http.StatusUnprocessableEntity
	case status == http.StatusBadRequest:
		code, detail = "malformed_json", "the body is not valid JSON"
	case status == http.StatusRequestTimeout:
		code, detail = "body_timeout", "the body did not arrive in time"
	case status == http.StatusNotAcceptable:
		code, detail = "not_acceptable", "answers are application/json"
	case msg == "cannot read request body":
		status, code, detail = http.StatusBadRequest, "body_cut_off", "the body ended early"
	case status >= 500:
		var ctx context.Context = context.Background()
		if hctx != nil {
			ctx = hctx.Context()
		}
		slog.ErrorContext(ctx, "operation answered with an untyped error", "error", errors.Join(errs...), "request_id", requestID(ctx))
		return internalError(ctx)
	}
	a := newAnswer(status, code, detail)
	if hctx != nil {
		a.RequestID = requestID(hctx.Context())
	}
	for _, err := range errs {
		f := api.ProblemField{Message: err.Error()}
		var d huma.ErrorDetailer
		if errors.As(err, &d) {
			e := d.ErrorDetail()
			f = api.ProblemField{Location: e.Location, Message: e.Message, Value: e.Value}
		}
		if at, message, ok := misreadField(f.Message); ok {
			f = api.ProblemField{Location: at, Message: message}
		}
		if code == "invalid" && hctx != nil {
			explain(hctx.Operation(), &f)
		}
		if code != "invalid" {
			f.Value = nil
		}
		f.Value = toldBack(f.Location, f.Value)
		a.Errors = append(a.Errors, f)
	}
	if code == "malformed_json" && len(a.Errors) > 0 {
		a.Detail += ": " + a.Errors[0].Message
	}
	if len(a.Errors) == 1 && code == "invalid" {
		a.Detail = strings.TrimPrefix(a.Errors[0].Location, "body.") + ": " + a.Errors[0].Message
	}
	return a
}

// isSecret reports fields whose value must not come back or be logged.
func isSecret(location string) bool {
	l := strings.ToLower(location)
	return strings.Contains(l, "password") || strings.Contains(l, "token") || strings.Contains(l, "secret") || strings.Contains(l, "user_data") ||
		strings.Contains(l, "body.env") || strings.HasPrefix(l, "header.") || strings.HasPrefix(l, "cookie.")
}

// valueCharacters is how much of a wrong value is told back.
const valueCharacters = 200

// toldBack is what of a wrong value may come back: nothing of a secret, nor of
// what may hold one, and not all of what is long.
func toldBack(location string, v any) any {
	if v == nil || isSecret(location) {
		return nil
	}
	text, ok := v.(string)
	if !ok {
		raw, err := json.Marshal(v)
		if err != nil || strings.ContainsAny(string(raw[:1]), "{[") && holdsSecret(v) {
			return nil
		}
		if utf8.RuneCount(raw) <= valueCharacters {
			return v
		}
		text = string(raw)
	}
	if utf8.RuneCountInString(text) <= valueCharacters {
		return text
	}
	return string([]rune(text)[:valueCharacters]) + "…"
}

// holdsSecret reports a secret field anywhere within a value.
func holdsSecret(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if isSecret(k) || k == "env" || holdsSecret(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, holdsSecret)
	}
	return false
}

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

const (
	maxBodyBytes = 1 << 20
	metaRegistry = "registry"
	unknownQuery = "unknown query parameter"
)

// operation is one line of the API's table.
type operation struct {
	method, path string
	action       authz.Action // its id and its permission
	public       string       // instead of an action: the id of one that needs no sign-in
	why          string       // why it is public
	tag          string
	summary      string
	description  string
	status       int  // of success; 0: 200
	stream       bool // answers by a stream or an upgrade
}

func (o operation) id() string {
	if o.public != "" {
		return o.public
	}
	return string(o.action)
}

// out is an answer with a body.
type out[T any] struct {
	Body T
}

// tagged is an answer that carries the generation as an ETag.
type tagged[T any] struct {
	ETag string `header:"ETag" doc:"The generation or revision, for If-Match"`
	Body T
}

// none is an answer without a body.
type none struct{}

// Strict refuses query parameters that an operation doesn't know, or that are
// given twice, and an empty yes or no, which Huma takes for absent: a script's
// empty variable must not make a dry run a real one. Every input embeds it.
// Huma's own switch would hide the other errors.
type Strict struct{}

// Resolve implements huma.Resolver.
func (Strict) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	if u.RawQuery == "" {
		return nil
	}
	known := map[string]*huma.Param{}
	for _, p := range ctx.Operation().Parameters {
		if p.In == "query" {
			known[p.Name] = p
		}
	}
	var errs []error
	for key, values := range u.Query() {
		p := known[key]
		switch {
		case p == nil:
			errs = append(errs, &huma.ErrorDetail{Location: "query." + key, Message: unknownQuery})
		case len(values) > 1 && p.Schema.Type != huma.TypeArray:
			errs = append(errs, &huma.ErrorDetail{Location: "query." + key, Message: "is given more than once"})
		case p.Schema.Type == huma.TypeBoolean && values[0] == "":
			errs = append(errs, &huma.ErrorDetail{Location: "query." + key, Message: "must be true or false", Value: values[0]})
		}
	}
	return errs
}

// Paged is what every paged list takes.
type Paged struct {
	Strict
	Limit     int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"How many at most"`
	PageToken string `query:"page_token" maxLength:"1000" doc:"next_page_token of the page before"`
}

func (p Paged) page() app.Page { return app.Page{Limit: p.Limit, Token: p.PageToken} }

// Creating is what every POST that makes something takes.
type Creating struct {
	Strict
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"The same key and body again give the first answer; the same key with another body is refused"`
}

// Guarded is what every change of an existing thing takes.
type Guarded struct {
	Strict
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"The same key and body again give the first answer"`
	IfMatch        string `header:"If-Match" maxLength:"64" doc:"The ETag that it must still have; otherwise 412"`
}

// generation reads If-Match; 0: not asked for.
func (g Guarded) generation() (int64, error) {
	n, err := matched(g.IfMatch, 1)
	if n == nil {
		return 0, err
	}
	return *n, err
}

// matched reads If-Match, a number from the least on; nil: not asked for.
func matched(header string, least int64) (*int64, error) {
	v := strings.TrimPrefix(strings.TrimSpace(header), "W/")
	if v == "" || v == "*" {
		return nil, nil
	}
	n, err := strconv.ParseInt(strings.Trim(v, `"`), 10, 64)
	if err != nil || n < least {
		return nil, cloud.Invalid(cloud.Field{Location: "header.If-Match", Message: "must be the ETag of an earlier answer, such as \"3\"", Value: header})
	}
	return &n, nil
}

func etag(generation int64) string { return strconv.Quote(strconv.FormatInt(generation, 10)) }

// register declares an operation: its route, its permission, its place in the
// contract and its handler. Nothing else adds an API route.
func register[I, O any](s *server, o operation, handler func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		OperationID: o.id(), Method: o.method, Path: o.path, Summary: o.summary, Description: o.description,
		Tags: []string{o.tag}, DefaultStatus: o.status, MaxBodyBytes: maxBodyBytes + 1,
		BodyReadTimeout: 30 * time.Second,
		Metadata:        map[string]any{metaRegistry: s.huma.OpenAPI().Components.Schemas},
		Extensions:      map[string]any{},
	}
	if o.public == "" {
		op.Security = []map[string][]string{{"token": {}}}
		op.Extensions["x-permission"] = string(o.action)
		op.Metadata[metaReach] = s.reach(o)
		op.Middlewares = huma.Middlewares{s.authenticate(o)}
	} else {
		op.Extensions["x-public"] = o.why
	}
	s.operations = append(s.operations, o)
	s.named[o.method+" "+o.path] = o.id()
	huma.Register(s.huma, op, func(ctx context.Context, in *I) (*O, error) {
		answered, err := handler(ctx, in)
		if err != nil {
			a := answerOf(ctx, err)
			if ask, ok := op.Metadata[metaReach].(reachFunc); ok && (a.Status == http.StatusBadRequest || a.Status == http.StatusUnprocessableEntity) {
				if not := ask(ctx); not != nil {
					a = answerOf(ctx, not)
				}
			}
			if a.cause != nil {
				s.log.ErrorContext(ctx, "operation failed", "operation", o.id(), "error", a.cause, "request_id", a.RequestID)
			}
			return nil, a
		}
		return answered, nil
	})
}

// jsonFormat is encoding/json with the position of what can't be read.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		if a, ok := v.(*answer); ok {
			v = a.Problem
		}
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error {
		if _, first := v.(*any); first { // huma reads a body twice: for its checks, then for the handler
			if err := scan(data); err != nil {
				return err
			}
		}
		err := read(data, v)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line, column := position(data, syntax.Offset)
			return fmt.Errorf("line %d, column %d: %s", line, column, syntax.Error())
		}
		return err
	},
}

// position turns an offset into a line and column, both from 1.
func position(data []byte, offset int64) (line, column int) {
	before := data[:min(int64(len(data)), max(0, offset-1))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, len(before) - bytes.LastIndexByte(before, '\n')
}

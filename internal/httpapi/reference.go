package httpapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenon-cloud/tenon/internal/authz"
)

// The reference is one page without scripts, so that it works offline and under
// the strictest policy.
//
//go:embed reference.html
var referenceHTML string

var referenceTemplate = template.Must(template.New("reference").Funcs(template.FuncMap{"code": refCode}).Parse(referenceHTML))

// refCode sets what stands between backticks as code.
func refCode(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String()) //nolint:gosec // escaped above
}

type refPage struct {
	Title      string
	Paragraphs []string
	Tags       []refTag
	Problems   []refProblem
}

type refProblem struct {
	Code, Status, Text string
}

// refProblems tells of the codes that a caller meets most; each problem's type
// points at its own.
var refProblems = []refProblem{
	{"malformed_json", "400", "The body is not JSON; the detail names the line and column."},
	{"token_missing", "401", "Send `Authorization: Bearer <token>`."},
	{"token_malformed", "401", "A character of the token is missing or mistyped; it was not looked up."},
	{"token_expired", "401", "Refresh the session, or make a new token."},
	{"token_revoked", "401", "The token was revoked, or its session was ended."},
	{"token_unknown", "401", "This cloud does not know the token, or its owner has left the organisation."},
	{"sign_in_failed", "401", "The e-mail or the password is wrong; which, is not told."},
	{"forbidden", "403", "Your role does not allow it; the hint says whose does."},
	{"quota_exceeded", "403", "Above the project's limit; `limit`, `used` and `asked` say by how much."},
	{"cross_origin", "403", "Another site's page made the request."},
	{"not_found", "404", "It does not exist, or is not yours to see: the two are not told apart."},
	{"no_such_route", "404", "There is no such path."},
	{"method_not_allowed", "405", "The Allow header lists what is possible."},
	{"name_taken", "409", "Something of that name is there already."},
	{"state_conflict", "409", "Not possible in its present state, which the detail names."},
	{"job_member", "409", "It is a member of a job and comes and goes with it: act on the job."},
	{"not_running", "409", "It has no guest on a node now."},
	{"not_a_vm", "409", "Only a VM has a serial console and a screen."},
	{"port_closed", "409", "Nothing inside the instance answers on that port."},
	{"apps_off", "409", "This cloud has no domain for web servers of instances."},
	{"card_changing", "409", "Another change of the GPU is under way, which `wish` says; `If-Match` with its ETag replaces it."},
	{"card_changed", "412", "Somebody else said since you read it what the GPU is to be, which `wish` says: read it again, then decide."},
	{"generation_changed", "412", "It changed since you read it: read it again, then decide."},
	{"body_too_large", "413", "Bodies are at most 1 MiB."},
	{"wrong_content_type", "415", "Bodies are `application/json`."},
	{"invalid", "422", "Understood, but wrong or impossible; `errors` lists everything at once."},
	{"idempotency_key_reused", "422", "The key was used for another request."},
	{"websocket_needed", "426", "Terminals, consoles, screens and ports are WebSockets."},
	{"too_many_streams", "429", "Too many terminals, consoles, forwarded connections and followed logs at once."},
	{"internal", "500", "Our fault; quote the request id."},
	{"node_unreachable", "503", "Its node can't be reached now; what runs there goes on."},
	{"no_capacity", "507", "Nothing is free now and waiting was not wanted; `reasons` says what rules each place out."},
}

type refTag struct {
	Name, Anchor, Text string
	Operations         []refOperation
}

type refOperation struct {
	Anchor, Method, Path, Summary, Text string
	Permission, Public                  string
	Parameters, Body, Answer            []refField
	Status, AnswerType, BodyType        string
	Curl                                string
}

type refField struct {
	Name, In, Type, Text string
	Required             bool
	Depth                int
}

func referencePage(doc *huma.OpenAPI) ([]byte, error) {
	page := refPage{Title: doc.Info.Title, Problems: refProblems, Paragraphs: strings.Split(doc.Info.Description, "\n\n")}
	for _, t := range doc.Tags {
		page.Tags = append(page.Tags, refTag{Name: t.Name, Anchor: "tag-" + strings.ToLower(t.Name), Text: t.Description})
	}
	paths := make([]string, 0, len(doc.Paths))
	for p := range doc.Paths {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		item := doc.Paths[p]
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			i := slices.IndexFunc(page.Tags, func(t refTag) bool { return t.Name == op.Tags[0] })
			if i < 0 {
				return nil, fmt.Errorf("write the reference: %s has no known tag", op.OperationID)
			}
			page.Tags[i].Operations = append(page.Tags[i].Operations, refOperationOf(doc, op))
		}
	}
	var b bytes.Buffer
	if err := referenceTemplate.Execute(&b, page); err != nil {
		return nil, fmt.Errorf("write the reference: %w", err)
	}
	return b.Bytes(), nil
}

func refOperationOf(doc *huma.OpenAPI, op *huma.Operation) refOperation {
	reg := doc.Components.Schemas
	o := refOperation{
		Anchor: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, Text: op.Description,
	}
	o.Permission, _ = op.Extensions["x-permission"].(string)
	o.Public, _ = op.Extensions["x-public"].(string)
	for _, p := range op.Parameters {
		o.Parameters = append(o.Parameters, refField{Name: p.Name, In: p.In, Type: refType(p.Schema), Text: refText(p.Schema, p.Description), Required: p.Required})
	}
	if op.RequestBody != nil {
		s := op.RequestBody.Content["application/json"].Schema
		o.BodyType, o.Body = refType(s), refFields(reg, s, 0, nil)
	}
	for status, r := range op.Responses {
		if status == "default" {
			continue
		}
		o.Status = status
		if m := r.Content["application/json"]; m != nil {
			o.AnswerType, o.Answer = refType(m.Schema), refFields(reg, m.Schema, 0, nil)
		} else {
			for kind := range r.Content {
				o.AnswerType = kind
			}
		}
	}
	o.Curl = refCurl(op)
	return o
}

// refFields flattens a schema, two levels deep.
func refFields(reg huma.Registry, s *huma.Schema, depth int, above []string) []refField {
	s = deref(reg, s)
	if s != nil && s.Type == huma.TypeArray {
		s = deref(reg, s.Items)
	}
	if s == nil || depth > 2 {
		return nil
	}
	names := make([]string, 0, len(s.Properties))
	for n := range s.Properties {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if ra, rb := slices.Contains(s.Required, a), slices.Contains(s.Required, b); ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	var out []refField
	for _, n := range names {
		p := s.Properties[n]
		out = append(out, refField{Name: n, Type: refType(p), Text: refText(p, ""), Required: slices.Contains(s.Required, n), Depth: depth})
		inner := p
		if p.Type == huma.TypeArray {
			inner = p.Items
		}
		if inner != nil && inner.Ref != "" && !slices.Contains(above, inner.Ref) {
			out = append(out, refFields(reg, inner, depth+1, append(above, inner.Ref))...)
		}
	}
	return out
}

func refType(s *huma.Schema) string {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	case s.Type == huma.TypeArray:
		return "list of " + refType(s.Items)
	case s.Type == huma.TypeObject && s.AdditionalProperties != nil:
		return "map"
	case s.Format == "date-time":
		return "time"
	case s.Format == "date":
		return "date"
	case s.Nullable:
		return s.Type + " or null"
	}
	return s.Type
}

// refText joins what a field means with what it may be.
func refText(s *huma.Schema, text string) string {
	if s == nil {
		return text
	}
	if text == "" {
		text = s.Description
	}
	parts := []string{}
	if text != "" {
		parts = append(parts, text)
	}
	if len(s.Enum) > 0 {
		words := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			words[i] = fmt.Sprint(e)
		}
		parts = append(parts, "one of "+strings.Join(words, ", "))
	}
	if s.Minimum != nil && s.Maximum != nil {
		parts = append(parts, fmt.Sprintf("%g to %g", *s.Minimum, *s.Maximum))
	}
	if s.PatternDescription != "" {
		parts = append(parts, s.PatternDescription)
	}
	if s.Default != nil {
		parts = append(parts, fmt.Sprintf("default %v", s.Default))
	}
	return strings.Join(parts, "; ")
}

// refCurl is a command that can be pasted after `. ./var/tenon.env`.
func refCurl(op *huma.Operation) string {
	switch authz.Action(op.OperationID) { // curl speaks no WebSocket
	case authz.InstanceExec:
		return "tenon instance shell web-1 -- nproc"
	case authz.InstanceConsole:
		return "tenon instance console vm-1"
	case authz.InstanceScreen:
		return "the console's page of the VM, or any VNC program over this WebSocket"
	case authz.InstancePort:
		return "tenon instance forward web-1 8080:8888"
	}
	var b strings.Builder
	b.WriteString("curl")
	if op.OperationID == string(authz.ProjectEvents) || op.OperationID == string(authz.InstanceLogs) {
		b.WriteString(" -N")
	}
	if op.Method != "GET" {
		b.WriteString(" -X " + op.Method)
	}
	if len(op.Security) > 0 {
		b.WriteString(` -H "Authorization: Bearer $TENON_TOKEN"`)
	}
	if op.RequestBody != nil {
		b.WriteString(` --json '{…}'`)
	}
	path := strings.NewReplacer("{project}", "default", "{instance}", "web-1", "{job}", "train-1", "{org}", "default", "{", "", "}", "").Replace(op.Path)
	return b.String() + ` "$TENON_URL` + path + `"`
}

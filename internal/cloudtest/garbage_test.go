package cloudtest_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// schema is as much of a JSON schema as a test needs to fill a body.
type schema struct {
	Ref        string `yaml:"$ref"`
	Type       any
	Format     string
	Enum       []any
	Properties map[string]schema
	Required   []string
	Items      *schema
	Minimum    *float64
	MinLength  int `yaml:"minLength"`
	Additional any `yaml:"additionalProperties"`
}

type parameter struct{ Name, In string }

type wholeContract struct {
	Paths map[string]map[string]struct {
		OperationID string `yaml:"operationId"`
		Parameters  []parameter
		RequestBody struct {
			Content map[string]struct{ Schema schema }
		} `yaml:"requestBody"`
	}
	Components struct{ Schemas map[string]schema }
}

func (s schema) is(kind string) bool {
	if list, ok := s.Type.([]any); ok {
		return len(list) > 0 && list[0] == kind
	}
	return s.Type == kind
}

// holes writes a body for a schema with every string in it as a hole of its own,
// and counts them; %N% is the N-th.
func (c wholeContract) holes(s schema, n *int) string {
	if s.Ref != "" {
		s = c.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	switch {
	case s.is("string"):
		*n++
		return fmt.Sprintf(`"%%%d%%"`, *n)
	case s.is("boolean"):
		return "false"
	case s.is("integer"), s.is("number"):
		if s.Minimum != nil && *s.Minimum > 1 {
			return fmt.Sprint(*s.Minimum)
		}
		return "1"
	case s.is("array"):
		return "[" + c.holes(*s.Items, n) + "]"
	case s.is("object") && s.Properties == nil:
		*n++
		return fmt.Sprintf(`{"A": "%%%d%%"}`, *n)
	case s.is("object"):
		var parts []string
		for name, p := range s.Properties {
			if name != "$schema" {
				parts = append(parts, fmt.Sprintf("%q: %s", name, c.holes(p, n)))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "null"
}

// TestGarbageIsNeverOurFault sends what is no text to every place of every
// operation: each answer blames the sender.
func TestGarbageIsNeverOurFault(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	acme := c.Tenant("acme")
	img, flv := image(t, c), flavor(t, c, "small")
	if _, err := acme.InstanceCreate(t.Context(), "default", api.InstanceCreate{Name: "web-1", Image: img, Flavor: flv}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc wholeContract
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"project": "default", "instance": "web-1", "image": img, "flavor": flv, "org": "acme", "pool": "default", "member": acme.Email, "user": acme.Email}
	fill := func(path, bad, with string) string {
		for name, v := range known {
			if name != bad {
				path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(v))
			}
		}
		path = strings.ReplaceAll(path, "{"+bad+"}", with)
		return strings.NewReplacer("{", "", "}", "").Replace(path)
	}
	asked := 0
	try := func(method, path, body string, header ...string) {
		t.Helper()
		for _, token := range []string{c.Admin.Token, acme.Token, ""} {
			asked++
			a := request(t, c, token, method, path, body, header...)
			if a.status >= 500 && a.status != http.StatusInsufficientStorage {
				t.Errorf("%s %s %q %q: %d %s", method, path, body, header, a.status, a.body)
			}
		}
	}
	bad := []string{"%00", "a%00b", "%ff", "%ED%A0%80"}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			method = strings.ToUpper(method)
			body := ""
			n := 0
			if media, ok := o.RequestBody.Content["application/json"]; ok {
				body = doc.holes(media.Schema, &n)
			}
			for hole := 1; hole <= n; hole++ {
				for _, poison := range []string{`\u0000`, "\xff", `\ud800`} {
					b := strings.ReplaceAll(body, fmt.Sprintf("%%%d%%", hole), "x"+poison)
					for other := 1; other <= n; other++ {
						b = strings.ReplaceAll(b, fmt.Sprintf("%%%d%%", other), "default")
					}
					try(method, fill(path, "", ""), b)
				}
			}
			for _, p := range o.Parameters {
				for _, v := range bad {
					switch p.In {
					case "path":
						try(method, fill(path, p.Name, v), "")
					case "query":
						try(method, fill(path, "", "")+"?"+p.Name+"="+v, "")
					}
				}
				if p.Name == "page_token" {
					for _, v := range []string{"\x00", "\xff\xfe", "a\x00"} {
						try(method, fill(path, "", "")+"?page_token="+base64.RawURLEncoding.EncodeToString([]byte(v)), "")
					}
				}
			}
			plain := body
			for hole := 1; hole <= n; hole++ {
				plain = strings.ReplaceAll(plain, fmt.Sprintf("%%%d%%", hole), "default")
			}
			for _, name := range []string{"Idempotency-Key", "If-Match", "Last-Event-ID", "Tenon-Org", "User-Agent", "X-Request-Id", "Origin"} {
				if o.OperationID == "project.events" && name != "Last-Event-ID" {
					continue // it would stream
				}
				try(method, fill(path, "", ""), plain, name, "\xff\xfe")
			}
		}
	}
	if asked < 1000 {
		t.Errorf("only %d requests were sent", asked)
	}
	t.Logf("%d requests", asked)
}

// TestGarbageIsNamed says where it was.
func TestGarbageIsNamed(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	acme := c.Tenant("acme")
	const instances = "/v1/projects/default/instances"
	for _, bad := range []struct {
		method, path, body string
		header             []string
		status             int
		at                 string
	}{
		{"GET", "/v1/projects/a%00b", "", nil, 404, ""},
		{"GET", "/v1/images/%ff", "", nil, 404, ""},
		{"GET", instances + "?name=%00", "", nil, 422, "query.name"},
		{"GET", instances + "?limit=1&limit=2", "", nil, 422, "query.limit"},
		{"GET", instances + "?limit=1;limit=2", "", nil, 422, "query"},
		{"POST", instances, `{"name": "x", "image": "a\u0000", "flavor": "small"}`, nil, 422, "body.image"},
		{"POST", instances, `{"name": "x", "image": "a", "flavor": "small", "env": {"A": "1", "A": "2"}}`, nil, 422, "body.env.A"},
		{"POST", instances, `{"name": "x", "name": "y", "image": "a", "flavor": "small"}`, nil, 422, "body.name"},
		{"POST", instances, `{"NAME": "x", "image": "a", "flavor": "small"}`, nil, 422, "body.NAME"},
		{"POST", instances, "{\"name\": \"x\xff\"}", nil, 400, ""},
		{"POST", instances, `{"name": "x", "image": "a", "flavor": "small"}`, []string{"Idempotency-Key", "\xff\xfe"}, 400, "header.Idempotency-Key"},
		{"POST", "/v1/auth/login", `{"email": "a\u0000@b.test", "password": "x"}`, nil, 422, "body.email"},
		{"POST", "/v1/auth/login", `{"email": "owner@acme.test", "password": "a password for tests only"}`, []string{"User-Agent", "\xff"}, 200, ""},
	} {
		a := request(t, c, acme.Token, bad.method, bad.path, bad.body, bad.header...)
		found := bad.at == ""
		for _, e := range a.problem.Errors {
			found = found || e.Location == bad.at
		}
		if a.status != bad.status || !found {
			t.Errorf("%s %s %q: %d %s, want %d at %q", bad.method, bad.path, bad.body, a.status, a.body, bad.status, bad.at)
		}
	}
}

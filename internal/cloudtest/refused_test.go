package cloudtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// TestRefusals is the list of bad input: each gets its own status and code, a
// way out, and changes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	ctx := t.Context()
	acme := c.Tenant("acme")
	auditor := c.Member("acme", "books@acme.test", "auditor")
	image, flavor := image(t, c), flavor(t, c, "small")
	if _, err := c.Admin.QuotaUpdate(ctx, projectID(t, acme), api.QuotaUpdate{Items: []api.QuotaLimit{{Resource: "instances", Limit: ptr(int64(2))}}}); err != nil {
		t.Fatal(err)
	}
	one, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "web-1", Image: image, Flavor: flavor})
	if err != nil {
		t.Fatal(err)
	}
	before := facts(t, c)

	const instances = "/v1/projects/default/instances"
	create := func(fields string) string {
		return fmt.Sprintf(`{"name": "web-2", "image": %q, "flavor": %q%s}`, image, flavor, fields)
	}
	for _, bad := range []struct {
		name               string
		token              string
		method, path, body string
		header             []string
		status             int
		code, detail       string // detail: in the detail or in an error
		hint               bool
	}{
		{name: "unknown image", method: "POST", path: instances, body: strings.Replace(create(""), image, "nixos", 1), status: 422, code: "invalid", detail: "body.image"},
		{name: "unknown flavor", method: "POST", path: instances, body: strings.Replace(create(""), flavor, "huge", 1), status: 422, code: "invalid", detail: "body.flavor"},
		{name: "unknown pool", method: "POST", path: instances, body: create(`, "pool": "nowhere"`), status: 422, code: "invalid", detail: "body.pool"},
		{name: "all at once", method: "POST", path: instances, body: `{"name": "web-2", "image": "nixos", "flavor": "huge", "pool": "nowhere", "env": {"1": "x"}}`, status: 422, code: "invalid", detail: "body.env"},
		{name: "unknown project", method: "POST", path: "/v1/projects/nothing/instances", body: create(""), status: 404, code: "not_found", detail: "nothing"},
		{name: "unknown GPU model", token: c.Admin.Token, method: "POST", path: "/v1/flavors", body: `{"name": "x", "gpu_count": 1, "gpu_model": "h900", "gpu_mode": "whole", "vcpu": 1, "memory_mib": 1024, "disk_mib": 1024}`, status: 422, code: "invalid", detail: "gpu_model"},
		{name: "unknown profile", token: c.Admin.Token, method: "POST", path: "/v1/flavors", body: `{"name": "x", "gpu_count": 1, "gpu_model": "h100-80gb", "gpu_mode": "mig", "gpu_profile": "5g", "vcpu": 1, "memory_mib": 1024, "disk_mib": 1024}`, status: 422, code: "invalid", detail: "gpu_profile"},
		{name: "name taken", method: "POST", path: instances, body: strings.Replace(create(""), "web-2", "web-1", 1), status: 409, code: "name_taken", detail: "web-1"},
		{name: "bad name", method: "POST", path: instances, body: strings.Replace(create(""), "web-2", "Web_2", 1), status: 422, code: "invalid", detail: "lower-case"},
		{name: "unknown field", method: "POST", path: instances, body: create(`, "flavour": "x"`), status: 422, code: "invalid", detail: `did you mean "flavor"?`},
		{name: "unknown query", method: "GET", path: instances + "?limt=3", status: 422, code: "invalid", detail: `did you mean "limit"?`},
		{name: "limit too high", method: "GET", path: instances + "?limit=201", status: 422, code: "invalid", detail: "query.limit"},
		{name: "bad page token", method: "GET", path: instances + "?page_token=!!", status: 422, code: "invalid", detail: "query.page_token"},
		{name: "unknown state", method: "GET", path: instances + "?state=runing", status: 422, code: "invalid", detail: `did you mean "running"?`},
		{name: "body too large", method: "POST", path: instances, body: create(`, "env": {"A": "` + strings.Repeat("x", 1<<20) + `"}`), status: 413, code: "body_too_large"},
		{name: "malformed JSON", method: "POST", path: instances, body: "{\n  \"name\": web\n}", status: 400, code: "malformed_json", detail: "line 2, column 11"},
		{name: "wrong content type", method: "POST", path: instances, body: "name=web", header: []string{"Content-Type", "text/plain"}, status: 415, code: "wrong_content_type"},
		{name: "wrong type", method: "POST", path: instances, body: create(`, "command": "sh"`), status: 422, code: "invalid", detail: "body.command"},
		{name: "stale If-Match", method: "POST", path: instances + "/web-1/stop", header: []string{"If-Match", `"99"`}, status: 412, code: "generation_changed"},
		{name: "malformed If-Match", method: "POST", path: instances + "/web-1/stop", header: []string{"If-Match", "yes"}, status: 422, code: "invalid", detail: "header.If-Match"},
		{name: "wrong state", method: "POST", path: instances + "/web-1/start", status: 409, code: "state_conflict", detail: "queued"},
		{name: "a restart with a wish", method: "POST", path: instances + "/web-1/restart", body: `{"gpu": "hold"}`, status: 422, code: "invalid", detail: "body.gpu"},
		{name: "unknown instance", method: "GET", path: instances + "/web-9", status: 404, code: "not_found"},
		{name: "not for this role", token: auditor.Token, method: "POST", path: instances, body: create(""), status: 403, code: "forbidden", hint: true},
		{name: "for operators only", method: "GET", path: "/v1/nodes", status: 403, code: "forbidden", hint: true},
		{name: "no capacity and no wait", method: "POST", path: instances, body: create(`, "wait": false`), status: 507, code: "no_capacity"},
		{name: "a terminal without WebSocket", method: "GET", path: instances + "/web-1/exec", status: 426, code: "websocket_needed", hint: true},
		{name: "a terminal of one that waits", method: "GET", path: instances + "/web-1/exec", header: []string{"Upgrade", "websocket", "Connection", "Upgrade"}, status: 409, code: "not_running", hint: true},
		{name: "usage backwards", method: "GET", path: "/v1/projects/default/usage?from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", status: 422, code: "invalid", detail: "query.to"},
		{name: "a time that is none", method: "GET", path: "/v1/projects/default/usage?from=yesterday", status: 422, code: "invalid", detail: "query.from"},
		{name: "image that is in no registry", method: "POST", path: "/v1/images", body: `{"name": "x", "ref": "docker.io/library/missing:1"}`, status: 422, code: "invalid", detail: "body.ref"},
		{name: "price in the past", token: c.Admin.Token, method: "POST", path: "/v1/prices", body: `{"sku": "vcpu", "micros_per_hour": 1, "starts_at": "2020-01-01T00:00:00Z"}`, status: 422, code: "invalid", detail: "starts_at"},
		{name: "an organisation of another name", method: "GET", path: "/v1/organisations/default", status: 404, code: "not_found"},
		{name: "wrong password", token: "-", method: "POST", path: "/v1/auth/login", body: `{"email": "owner@acme.test", "password": "wrong"}`, status: 401, code: "sign_in_failed"},
	} {
		token := bad.token
		switch token {
		case "":
			token = acme.Token
		case "-":
			token = ""
		}
		a := request(t, c, token, bad.method, bad.path, bad.body, bad.header...)
		said := a.problem.Detail
		for _, e := range a.problem.Errors {
			said += "; " + e.Location + ": " + e.Message
		}
		if a.status != bad.status || a.problem.Code != bad.code || !strings.Contains(said, bad.detail) || bad.hint && a.problem.Hint == "" {
			t.Errorf("%s: %d %s, want %d %s with %q\n%s", bad.name, a.status, a.problem.Code, bad.status, bad.code, bad.detail, a.body)
		}
		if after := facts(t, c); after != before {
			t.Fatalf("%s changed something:\n%s", bad.name, cmp.Diff(before, after))
		}
	}

	// Above the limit: the figures say how far.
	if _, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "web-2", Image: image, Flavor: flavor}); err != nil {
		t.Fatal(err)
	}
	before = facts(t, c)
	a := request(t, c, acme.Token, "POST", instances, strings.Replace(create(""), "web-2", "web-3", 1))
	p := a.problem
	if a.status != 403 || p.Code != "quota_exceeded" || p.Limit == nil || *p.Limit != 2 || p.Used == nil || *p.Used != 2 || p.Asked == nil || *p.Asked != 1 {
		t.Errorf("above the limit: %s", a.body)
	}
	if facts(t, c) != before {
		t.Error("a refused create changed something")
	}
	_ = one
}

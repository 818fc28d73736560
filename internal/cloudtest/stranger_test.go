package cloudtest_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// TestAStrangerIsRefusedBeforeTheirRequestIsJudged: whatever is wrong with a request,
// who may not make it hears only that.
func TestAStrangerIsRefusedBeforeTheirRequestIsJudged(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	ctx := within(t, 2*time.Minute)
	acme, globex := c.Tenant("acme"), c.Tenant("globex")
	auditor := c.Member("acme", "books@acme.test", "auditor")
	img, flv := image(t, c), flavor(t, c, "small")
	theirs, err := globex.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "web-1", Image: img, Flavor: flv})
	if err != nil {
		t.Fatal(err)
	}
	own, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "web-1", Image: img, Flavor: flv})
	if err != nil {
		t.Fatal(err)
	}
	before := facts(t, c)
	place := regexp.MustCompile(`\{(\w+)\}`)
	fill := func(path string, with map[string]string) string {
		return place.ReplaceAllStringFunc(path, func(m string) string {
			if v, ok := with[strings.Trim(m, "{}")]; ok {
				return v
			}
			return "8888" // a port, and what nothing is called
		})
	}
	foreign := map[string]string{"project": theirs.ProjectID, "instance": theirs.ID, "org": "globex"}
	mixed := map[string]string{"project": "default", "instance": theirs.ID, "org": "acme"}
	home := map[string]string{"project": "default", "instance": own.ID, "org": "acme"}
	const owner, books = cloud.RoleOwner, cloud.RoleAuditor
	may := func(role cloud.OrgRole, o contractOperation) bool {
		org := cloud.OrgID{1}
		return authz.Can(cloud.Actor{UserID: cloud.UserID{1}, OrgID: org, Role: role}, authz.Action(o.Permission), org)
	}
	asked := 0
	for _, o := range contract(t) {
		if o.Permission == "" {
			continue // it needs no sign-in
		}
		garbage := []string{"?nonsense=1&limit=many "}
		if o.Method == "POST" || o.Method == "PUT" || o.Method == "PATCH" {
			garbage = append(garbage, " ", " {", " []", ` {"nonsense": 1}`, " 2", ` {"items": []}`, ` {"name": 1, "xid": "x", "mode": 7, "items": {}, "gpus": 3}`)
		}
		for _, g := range garbage {
			query, body, _ := strings.Cut(g, " ")
			refused := func(who, token string, with map[string]string) {
				t.Helper()
				asked++
				a := request(t, c, token, o.Method, fill(o.Path, with)+query, body)
				if a.status != 401 && a.status != 403 && a.status != 404 || token == "" && a.status != 401 {
					t.Errorf("%s asks for %s with %q: %d %s", who, o.ID, g, a.status, a.body)
				}
			}
			refused("nobody", "", foreign)
			if !may(owner, o) || strings.Contains(o.Path, "{project}") || strings.Contains(o.Path, "{org}") {
				refused("another organisation's owner", acme.Token, foreign)
			}
			if strings.Contains(o.Path, "{instance}") {
				refused("an owner, of another's instance in their own project,", acme.Token, mixed)
			}
			if !may(books, o) {
				refused("an auditor", auditor.Token, home)
			}
		}
	}
	if asked < 500 {
		t.Errorf("only %d requests were made", asked)
	}
	if after := facts(t, c); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
	// Who may do it is told everything that is wrong.
	if a := request(t, c, c.Admin.Token, "PATCH", "/v1/gpus/none", `{"nonsense": 1}`); a.status != 422 || !strings.Contains(string(a.body), "body.nonsense") {
		t.Errorf("an operator: %d %s", a.status, a.body)
	}
}

// TestNumbersAreReadAsAPersonMeansThem: a whole number however it is written; what is
// none, or too big, is told by its field without a program's words.
func TestNumbersAreReadAsAPersonMeansThem(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	create := func(vcpu string) answer {
		return request(t, c, c.Admin.Token, "POST", "/v1/flavors", `{"name": "n", "gpu_count": 0, "vcpu": `+vcpu+`, "memory_mib": 1.024e3, "disk_mib": 2048.0}`)
	}
	for vcpu, want := range map[string]string{
		"2.5": "must be a whole number", `"2"`: "must be a whole number", "true": "must be a whole number", "null": "must be a whole number", "[2]": "must be a whole number",
		"99999999999999999999999": "must be at most ", "1e999": "is too large", "-1": "must be at least ",
	} {
		a := create(vcpu)
		text := string(a.body)
		if a.status != 422 || !strings.Contains(text, `"location":"body.vcpu","message":"`+want) {
			t.Errorf("%s: %d %s", vcpu, a.status, text)
		}
		for _, word := range []string{"json:", "unmarshal", "struct", "int64", "float64", "api."} {
			if strings.Contains(text, word) {
				t.Errorf("%s: %q is a program's word: %s", vcpu, word, text)
			}
		}
	}
	if a := create("2.0"); a.status != 201 || !strings.Contains(string(a.body), `"vcpu":2,`) || !strings.Contains(string(a.body), `"memory_mib":1024,`) {
		t.Errorf("2.0: %d %s", a.status, a.body)
	}
	if a := request(t, c, c.Admin.Token, "GET", "/v1/nodes?limit=many", ""); a.status != 422 || !strings.Contains(string(a.body), "must be a whole number") {
		t.Errorf("limit=many: %d %s", a.status, a.body)
	}
}

package cloudtest_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"gopkg.in/yaml.v3"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

type contractOperation struct {
	Method, Path string
	ID           string `yaml:"operationId"`
	Permission   string `yaml:"x-permission"`
}

// contract lists the operations of the committed contract.
func contract(t *testing.T) []contractOperation {
	t.Helper()
	raw, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]contractOperation
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var out []contractOperation
	for path, methods := range doc.Paths {
		for method, o := range methods {
			o.Method, o.Path = strings.ToUpper(method), path
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b contractOperation) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// bodies are what operations that need one are sent.
func bodies(image, flavor string) map[string]string {
	create := `{"name": "web-7", "image": "` + image + `", "flavor": "` + flavor + `"}`
	return map[string]string{
		"instance.create": create, "instance.dry_run": create,
		"instance.update":            `{"on_node_loss": "wait"}`,
		"registry_credential.create": `{"host": "registry.acme.test", "username": "x", "password": "y"}`,
		"project.update":             `{"display_name": "Taken over"}`,
		"quota.update":               `{"items": [{"resource": "vcpu", "limit": null}]}`,
		"member.create":              `{"email": "thief@acme.test", "role": "owner", "password": "a password for tests"}`,
	}
}

// TestForeignIsMissing asks every operation about another organisation's
// resource and about one that does not exist: the answers are the same bytes,
// and nothing changes.
func TestForeignIsMissing(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	acme, globex := c.Tenant("acme"), c.Tenant("globex")
	ctx := within(t, 60*time.Second)
	img, flv := image(t, c), flavor(t, c, "small")
	hidden, err := globex.ProjectCreate(ctx, api.ProjectCreate{Name: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	theirs := c.Running(globex.Client, api.InstanceCreate{Name: "web-1", Image: img, Flavor: flv})
	own, err := globex.ImageCreate(ctx, api.ImageCreate{Name: "private", Ref: "globex/default/private:1"})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := globex.TokenList(ctx, api.PageOptions{})
	if err != nil || len(tokens.Items) == 0 {
		t.Fatal(err)
	}
	org, err := globex.OrganisationGet(ctx, "globex")
	if err != nil {
		t.Fatal(err)
	}
	people, err := globex.MemberList(ctx, "globex", api.PageOptions{})
	if err != nil || len(people.Items) != 1 {
		t.Fatal(err)
	}
	project := theirs.ProjectID
	before := facts(t, c)

	// Each place in a path, as another organisation's and as nobody's.
	foreign := map[string]string{"project": project, "instance": theirs.ID, "image": own.ID, "token": tokens.Items[0].ID, "org": org.ID, "member": people.Items[0].UserID}
	nobody := map[string]string{
		"project": "prj_01k3zq8h2mfw4v8y0c6d9r2t5x", "instance": "inst_01k3zq8h2mfw4v8y0c6d9r2t5x", "image": "img_01k3zq8h2mfw4v8y0c6d9r2t5x",
		"token": "tok_01k3zq8h2mfw4v8y0c6d9r2t5x", "org": "org_01k3zq8h2mfw4v8y0c6d9r2t5x", "member": "user_01k3zq8h2mfw4v8y0c6d9r2t5x",
	}
	place := regexp.MustCompile(`\{(\w+)\}`)
	fill := func(path string, with map[string]string) (string, bool) {
		all := true
		return place.ReplaceAllStringFunc(path, func(m string) string {
			v, ok := with[strings.Trim(m, "{}")]
			all = all && ok
			return v
		}), all
	}
	masked := func(s string, names map[string]string) string {
		for what, id := range names {
			s = strings.ReplaceAll(s, id, "<"+what+">")
		}
		return s
	}
	asked := 0
	for _, o := range contract(t) {
		path, tenants := fill(o.Path, foreign)
		if o.Permission == "" || path == o.Path || !tenants {
			continue // nothing of a tenant's is named
		}
		asked++
		want := http.StatusNotFound
		if o.ID == "quota.update" {
			want = http.StatusForbidden // operators' alone, whoever's the project is
		}
		body := bodies(img, flv)[o.ID]
		a := request(t, c, acme.Token, o.Method, path, body)
		gone, _ := fill(o.Path, nobody)
		b := request(t, c, acme.Token, o.Method, gone, body)
		if a.status != http.StatusNotFound && a.status != want {
			t.Errorf("%s: %d for another organisation's: %s", o.ID, a.status, a.body)
		}
		if x, y := masked(a.withoutID(), foreign), masked(b.withoutID(), nobody); a.status != b.status || x != y {
			t.Errorf("%s tells the foreign from the missing:\n%d %s\n%d %s", o.ID, a.status, x, b.status, y)
		}
		// The same below a project of one's own: an id alone opens nothing.
		if strings.Contains(o.Path, "{instance}") {
			mixed := map[string]string{"project": "default", "instance": theirs.ID}
			path, _ := fill(o.Path, mixed)
			if a := request(t, c, acme.Token, o.Method, path, body); a.status != http.StatusNotFound {
				t.Errorf("%s: %d for another's instance in one's own project: %s", o.ID, a.status, a.body)
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d operations were asked", asked)
	}

	// By name, too.
	for _, path := range []string{"/v1/projects/" + hidden.Name, "/v1/organisations/globex", "/v1/images/private", "/v1/projects/default/instances/web-1"} {
		if a := request(t, c, acme.Token, "GET", path, ""); a.status != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, a.status)
		}
	}
	// Through the header that names an organisation.
	session, err := c.Client("").Login(ctx, acme.Email, acme.Password)
	if err != nil {
		t.Fatal(err)
	}
	if a := request(t, c, session.AccessToken, "GET", "/v1/projects", "", "Tenon-Org", "globex"); a.status != http.StatusNotFound {
		t.Errorf("Tenon-Org: %d %s", a.status, a.body)
	}
	if after := facts(t, c); after != before {
		t.Error("asking changed something")
	}
	terminalIsMissing(ctx, t, c, acme, globex, theirs)
}

// terminalIsMissing tries the doors of another organisation's terminal.
func terminalIsMissing(ctx context.Context, t *testing.T, c *cloudtest.Cloud, acme, globex *cloudtest.Tenant, theirs *api.Instance) {
	t.Helper()
	dial := func(path, token string) int {
		header := http.Header{}
		if token != "" {
			header.Set("Authorization", "Bearer "+token)
		}
		ws, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.URL, "http")+path, &websocket.DialOptions{HTTPHeader: header})
		if err == nil {
			_ = ws.CloseNow()
			return http.StatusSwitchingProtocols
		}
		if res == nil {
			t.Fatal(err)
		}
		return res.StatusCode
	}
	path := "/v1/projects/" + theirs.ProjectID + "/instances/" + theirs.ID
	if got := dial(path+"/exec", acme.Token); got != http.StatusNotFound {
		t.Errorf("terminal: %d", got)
	}
	// A ticket is good for its own instance and for nothing else.
	other := c.Running(globex.Client, api.InstanceCreate{Name: "web-2", Image: theirs.Image, Flavor: theirs.Flavor})
	ticket, err := globex.ExecTicket(ctx, "default", other.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := dial(path+"/exec?ticket="+ticket.Ticket, ""); got != http.StatusNotFound {
		t.Errorf("another instance's ticket: %d", got)
	}
}

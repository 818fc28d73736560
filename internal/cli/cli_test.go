package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
)

func TestErrorsSayWhatToDoAndHowToFindThem(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t, map[string]any{
		"GET /v1/gpus": &api.Problem{Status: 401, Code: "token_expired", Detail: "the token has expired"},
		"POST /v1/projects/default/instances": &api.Problem{Status: 422, Code: "invalid", Detail: "the request can't be carried out as asked", RequestID: "req-7",
			Hint: "tenon flavor list shows what can be had", Errors: []api.ProblemField{{Location: "body.flavor", Message: `no flavor "h1000"; did you mean "h100-1g"?`, Value: "h1000"}, {Location: "body.name", Message: "is taken"}}},
		"POST /v1/projects/default/instances/web-1/start": &api.Problem{Status: 403, Code: "quota_exceeded", Detail: "the project's limit is reached", Resource: "gpu_milli", Limit: ptr(int64(1000)), Used: ptr(int64(1000)), Asked: ptr(int64(125))},
		"GET /v1/nodes": &api.Problem{Status: 503, Code: "unavailable", Detail: "the database does not answer"},
	})
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"instance create a --image debian-12 --flavor h1000", exitRefused, []string{"body.flavor", "did you mean", "body.name: is taken", "tenon flavor list", "request req-7"}},
		{"instance start web-1", exitRefused, []string{"gpu_milli: limit 1000, used 1000, asked 125"}},
		{"instance show nothing", exitNotFound, []string{"not yours to see"}},
		{"gpu list", exitSignIn, []string{"expired", "tenon login"}},
		{"node list", exitUnreachable, []string{"database"}},
		{"instance show", exitUsage, []string{"Usage: tenon instance show NAME"}},
		{"instance create a --image b", exitUsage, []string{"flavor"}},
		{"instance create a --image b --flavor c --env NOVALUE", exitUsage, []string{"NAME=VALUE"}},
		{"instance create a b --image c --flavor d", exitUsage, []string{"only after --"}},
		{"instance list -o xml", exitUsage, []string{"table, json or yaml"}},
		{"usage --from yesterday", exitUsage, []string{"2026-11-01"}},
		{"insance list", exitUsage, []string{"unknown command"}},
	} {
		r := tenon(t, cloud.URL, strings.Fields(c.args)...)
		if r.code != c.code {
			t.Errorf("tenon %s: exit code %d, want %d\n%s", c.args, r.code, c.code, r.err)
		}
		for _, want := range c.want {
			if !strings.Contains(r.err, want) {
				t.Errorf("tenon %s says\n%swithout %q", c.args, r.err, want)
			}
		}
		if r.out != "" {
			t.Errorf("tenon %s wrote to standard output: %s", c.args, r.out)
		}
	}
}

func TestNothingAnswers(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t, nil)
	url := cloud.URL
	cloud.Close()
	if r := tenon(t, url, "instance", "list"); r.code != exitUnreachable || !strings.Contains(r.err, "make run") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	if r := tenonWith(t, nil, filepath.Join(t.TempDir(), "none.json"), "", "instance", "list"); r.code != exitSignIn || !strings.Contains(r.err, "tenon login URL") {
		t.Errorf("with no cloud chosen: exit code %d: %s", r.code, r.err)
	}
}

func TestLoginKeepsATokenAndLogoutRevokesIt(t *testing.T) {
	t.Parallel()
	me := api.Me{User: api.User{Email: "ada@example.org"}, Organisation: api.MyOrganisation{Name: "default"}}
	cloud := newFakeCloud(t, map[string]any{
		"POST /v1/auth/login":  api.Session{AccessToken: "short-lived"},
		"POST /v1/auth/logout": nil,
		"POST /v1/tokens":      api.TokenCreated{Token: api.Token{Name: "ignored"}, Secret: "tenon_long"},
		"GET /v1/me":           me,
		"GET /v1/tokens":       page[api.Token](),
	})
	path := filepath.Join(t.TempDir(), "tenon", "config.json")
	r := tenonWith(t, nil, path, "right horse\n", "login", cloud.URL, "--email", "ada@example.org", "--password-stdin")
	if r.code != 0 || !strings.Contains(r.out, "Signed in") {
		t.Fatalf("login: exit code %d: %s%s", r.code, r.out, r.err)
	}
	if body := cloud.bodies["POST /v1/auth/login"]; !strings.Contains(body, `"right horse"`) {
		t.Errorf("sent %s", body)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("configuration file: %v, mode %v, want 0600", err, info.Mode())
	}
	saved, err := readConfig(path)
	if err != nil || saved.Token != "tenon_long" || !strings.HasPrefix(saved.TokenName, "cli-") {
		t.Fatalf("saved %+v, %v", saved, err)
	}
	text, _ := os.ReadFile(path)
	if strings.Contains(string(text), "right horse") {
		t.Error("the password is in the configuration file")
	}
	if r := tenonWith(t, nil, path, "", "token", "list"); r.code != 0 || cloud.tokens[len(cloud.tokens)-1] != "Bearer tenon_long" {
		t.Errorf("the next command sent %q (%s)", cloud.tokens[len(cloud.tokens)-1], r.err)
	}
	// A saved token goes only to the cloud that gave it.
	other := newFakeCloud(t, nil)
	if r := tenonWith(t, map[string]string{"TENON_URL": other.URL}, path, "", "token", "list"); r.code != exitSignIn || len(other.tokens) != 0 {
		t.Errorf("another cloud: exit code %d, it was sent %q", r.code, other.tokens)
	}
	cloud.answers["DELETE /v1/tokens/"+saved.TokenName] = nil
	if r := tenonWith(t, nil, path, "", "logout"); r.code != 0 {
		t.Errorf("logout: exit code %d: %s", r.code, r.err)
	}
	if _, revoked := cloud.bodies["DELETE /v1/tokens/"+saved.TokenName]; !revoked {
		t.Error("logout did not revoke the token")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the configuration file is still there: %v", err)
	}
}

func TestWaitShowsEachChangeAndTheEnd(t *testing.T) {
	t.Parallel()
	step := 0
	states := []string{api.StateQueued, api.StateStarting, api.StateRunning}
	cloud := newFakeCloud(t, map[string]any{
		"POST /v1/projects/default/instances": webOne(api.StateQueued),
		"GET /v1/projects/prj_1/instances/inst_01k3zq8h2mfw4v8y0c6d9r2t5x": func() any {
			i := webOne(states[min(step, 2)])
			if step == 1 {
				i.Message, i.Progress = "pulling image", ptr(43)
			}
			step++
			return i
		},
	})
	r := tenon(t, cloud.URL, "instance", "create", "web-1", "--image", "debian-12", "--flavor", "h100-1g", "--env", "A=b=c", "--wait", "-o", "json", "--", "sh", "-c", "echo $A")
	if r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, r.err)
	}
	for _, want := range []string{"web-1 queued", "web-1 starting 43 %: pulling image", "web-1 running"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("progress %q lacks %q", r.err, want)
		}
	}
	var got api.Instance
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.State != api.StateRunning {
		t.Errorf("printed %s (%v), want the running instance as JSON", r.out, err)
	}
	var sent api.InstanceCreate
	if err := json.Unmarshal([]byte(cloud.bodies["POST /v1/projects/default/instances"]), &sent); err != nil || sent.Env["A"] != "b=c" || len(sent.Command) != 3 {
		t.Errorf("sent %+v (%v)", sent, err)
	}
}

func TestWaitReportsFailureAndTimeout(t *testing.T) {
	t.Parallel()
	failed := webOne(api.StateFailed)
	failed.Message, failed.ExitCode, failed.LastLines = "its command ended with exit code 3", ptr(3), "no such dataset\n"
	cloud := newFakeCloud(t, map[string]any{
		"POST /v1/projects/default/instances":                              webOne(api.StateQueued),
		"GET /v1/projects/prj_1/instances/inst_01k3zq8h2mfw4v8y0c6d9r2t5x": failed,
	})
	create := []string{"instance", "create", "web-1", "--image", "debian-12", "--flavor", "h100-1g", "--wait"}
	if r := tenon(t, cloud.URL, create...); r.code != exitFailed || !strings.Contains(r.err, "no such dataset") {
		t.Errorf("failed: exit code %d: %s", r.code, r.err)
	}
	cloud.answers["GET /v1/projects/prj_1/instances/inst_01k3zq8h2mfw4v8y0c6d9r2t5x"] = webOne(api.StateQueued)
	if r := tenon(t, cloud.URL, append(create, "--timeout", "50ms")...); r.code != exitTimeout || !strings.Contains(r.err, "still queued") {
		t.Errorf("timeout: exit code %d: %s", r.code, r.err)
	}
}

func TestDeleteOfSeveralTriesAll(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t, map[string]any{"DELETE /v1/projects/default/instances/web-1": webOne(api.StateDeleting)})
	r := tenon(t, cloud.URL, "instance", "delete", "gone", "web-1")
	if r.code != exitNotFound || !strings.Contains(r.out, "deleting") {
		t.Errorf("exit code %d, printed %q, %q", r.code, r.out, r.err)
	}
}

func TestMoneyAndDurations(t *testing.T) {
	t.Parallel()
	for micros, want := range map[int64]string{0: "0.00 USD", 12: "<0.0001 USD", 9_999: "0.0100 USD", 412_500: "0.41 USD", 1_005_000: "1.01 USD", -2_500_000: "-2.50 USD"} {
		if got := money(micros, "USD"); got != want {
			t.Errorf("money(%d) = %q, want %q", micros, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 25 * time.Hour: "1d01h"} {
		if got := short(d); got != want {
			t.Errorf("short(%s) = %q, want %q", d, got, want)
		}
	}
}

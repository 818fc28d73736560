package cloudtest_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
)

// jupyter is a notebook server that says what a test wants.
type jupyter struct {
	busy   atomic.Bool
	silent atomic.Bool  // it answers nothing
	quiet  atomic.Int64 // since when its kernel has done nothing, in Unix nanoseconds
}

func (j *jupyter) serve(t *testing.T) func(string, int) (net.Conn, error) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if j.silent.Load() {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		kernel := map[string]any{"execution_state": "idle", "last_activity": time.Unix(0, j.quiet.Load()), "connections": 1} // a tab is open
		if j.busy.Load() {
			kernel["execution_state"], kernel["last_activity"] = "busy", time.Now()
		}
		answer := []any{kernel}
		if strings.HasSuffix(r.URL.Path, "/api/terminals") {
			answer = []any{}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return func(string, int) (net.Conn, error) { return net.Dial("tcp", s.Listener.Addr().String()) }
}

// notebook starts one in a project that stops idle ones after two hours.
func notebook(t *testing.T, j *jupyter) (*cloudtest.Cloud, *cloudtest.Tenant, *api.Instance) {
	t.Helper()
	j.quiet.Store(time.Now().UnixNano())
	c := cloudtest.StartWith(t, cloudtest.Options{Guests: fake.Options{Port: j.serve(t)}})
	acme := c.Tenant("acme")
	img, err := c.Admin.ImageCreate(t.Context(), api.ImageCreate{Name: "jupyter", Kind: "notebook", Ref: "tenon/jupyter:latest", Offered: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := acme.ProjectUpdate(t.Context(), "default", api.ProjectUpdate{IdleStopSeconds: ptr(7200), IdleWarnSeconds: ptr(600)})
	if err != nil || p.IdleStopSeconds == nil || *p.IdleStopSeconds != 7200 {
		t.Fatalf("%v %+v", err, p)
	}
	return c, acme, c.Running(acme.Client, api.InstanceCreate{Name: "book-1", Image: img.Name, Flavor: flavor(t, c, "small")})
}

// hurry makes the project's policy quicker than anybody may ask for.
func hurry(t *testing.T, c *cloudtest.Cloud, stop, warn int) {
	t.Helper()
	for _, sql := range []string{`ALTER TABLE project DROP CONSTRAINT IF EXISTS project_idle_stop_seconds_check`,
		fmt.Sprintf(`UPDATE project SET idle_stop_seconds = %d, idle_warn_seconds = %d`, stop, warn)} {
		if _, err := c.DB.Owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func hasEvent(t *testing.T, tenant *cloudtest.Tenant, id, verb string) bool {
	t.Helper()
	events, err := tenant.InstanceEvents(t.Context(), "default", id, api.PageOptions{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Verb == verb {
			return true
		}
	}
	return false
}

// TestIdleNotebookIsWarnedThenStopped: an open tab, an idle kernel, nothing else:
// a warning that the tenant sees, then the stop (case C27). Activity after the
// warning clears it.
func TestIdleNotebookIsWarnedThenStopped(t *testing.T) {
	t.Parallel()
	j := &jupyter{}
	c, acme, i := notebook(t, j)
	get := func() *api.Instance {
		now, err := acme.InstanceGet(t.Context(), "default", i.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	eventually(t, "it is idle, and says when it stops", func() bool {
		now := get()
		return now.IdleSince != nil && now.IdleStopAt != nil && now.IdleStopAt.Sub(*now.IdleSince) == 2*time.Hour
	})
	hurry(t, c, 3600, 3599)
	eventually(t, "it is warned", func() bool { return hasEvent(t, acme, i.ID, "idle_warning") })
	if now := get(); now.State != api.StateRunning || now.IdleStopAt == nil || time.Until(*now.IdleStopAt) < 50*time.Minute {
		t.Errorf("warned: %+v", now)
	}
	j.busy.Store(true)
	eventually(t, "activity clears the warning", func() bool { return get().IdleSince == nil && hasEvent(t, acme, i.ID, "idle_over") })
	j.quiet.Store(time.Now().UnixNano())
	j.busy.Store(false)
	eventually(t, "it is idle again", func() bool { return get().IdleSince != nil })
	hurry(t, c, 4, 2)
	eventually(t, "it is stopped for idleness", func() bool { return get().State == api.StateStopped })
	if now := get(); now.Reason != "idle" || !strings.Contains(now.Message, "idleness") || now.IdleSince != nil {
		t.Errorf("stopped: %+v", now)
	}
}

// TestBusyOrUnknownIsNotIdle: a busy kernel without GPU use, and a server that
// doesn't answer, are never stopped (case C27).
func TestBusyOrUnknownIsNotIdle(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*jupyter){
		"busy":    func(j *jupyter) { j.busy.Store(true) },
		"unknown": func(j *jupyter) { j.silent.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &jupyter{}
			c, acme, i := notebook(t, j)
			idleSince := func() *time.Time {
				now, err := acme.InstanceGet(t.Context(), "default", i.ID)
				if err != nil || now.State != api.StateRunning {
					t.Fatalf("%v %+v", err, now)
				}
				return now.IdleSince
			}
			eventually(t, "it is idle", func() bool { return idleSince() != nil })
			set(j)
			if name == "unknown" { // what was answered is good for a while: play that it is over
				if _, err := c.DB.Owner.Exec(t.Context(), `CREATE FUNCTION forget_activity() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.activity := NULL; RETURN NEW; END $$`); err != nil {
					t.Fatal(err)
				}
				if _, err := c.DB.Owner.Exec(t.Context(), `CREATE TRIGGER forget_activity BEFORE UPDATE ON observation FOR EACH ROW EXECUTE FUNCTION forget_activity()`); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "it is not idle any more", func() bool { return idleSince() == nil })
			if hasEvent(t, acme, i.ID, "idle_warning") {
				t.Error("it was warned")
			}
		})
	}
}

// TestIdlePolicyOfAProject: absent stays, null is never, nonsense is refused.
func TestIdlePolicyOfAProject(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	token := c.Admin.Token
	for _, step := range []struct {
		body   string
		status int
		stop   any
		warn   float64
	}{
		{`{"display_name": "Main"}`, 200, nil, 600},
		{`{"idle_stop_seconds": 7200, "idle_warn_seconds": 300}`, 200, 7200.0, 300},
		{`{"display_name": "Other"}`, 200, 7200.0, 300},
		{`{"idle_stop_seconds": 59}`, 422, 7200.0, 300},
		{`{"idle_warn_seconds": 7200}`, 422, 7200.0, 300},
		{`{"idle_stop_seconds": 300}`, 422, 7200.0, 300},
		{`{"idle_stop_seconds": -1}`, 422, 7200.0, 300},
		{`{"idle_stop_seconds": "2h"}`, 422, 7200.0, 300},
		{`{"idle_warn_seconds": 100000}`, 422, 7200.0, 300},
		{`{}`, 422, 7200.0, 300},
		{`{"idle_stop_seconds": null}`, 200, nil, 300},
	} {
		if a := request(t, c, token, "PATCH", "/v1/projects/default", step.body); a.status != step.status {
			t.Errorf("%s: %d %s", step.body, a.status, a.body)
		}
		var p map[string]any
		if err := json.Unmarshal(request(t, c, token, "GET", "/v1/projects/default", "").body, &p); err != nil {
			t.Fatal(err)
		}
		if p["idle_stop_seconds"] != step.stop || p["idle_warn_seconds"] != step.warn {
			t.Errorf("after %s: %v, warned %v", step.body, p["idle_stop_seconds"], p["idle_warn_seconds"])
		}
	}
}

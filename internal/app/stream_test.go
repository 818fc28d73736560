package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

func next(t *testing.T, s *app.EventStream, want int) (out []app.StreamEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for len(out) < want {
		got, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(out), want, err)
		}
		out = append(out, got...)
	}
	return out
}

func TestStreamGivesEveryEventOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	s, err := h.EventStream(ctx, h.admin, "default", "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ok, errs := twenty(func(i int) (cloud.Instance, error) {
		return h.InstanceCreate(ctx, h.admin, "default", web("web-"+string(rune('a'+i))))
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	got := next(t, s, 20)
	seen := map[string]bool{}
	for _, e := range got {
		seen[e.ResourceID] = true
	}
	for _, i := range ok {
		if !seen[i.ID.String()] {
			t.Errorf("no event of %s", i.Name)
		}
	}
	if len(got) != 20 || len(seen) != 20 {
		t.Fatalf("%d events of %d instances", len(got), len(seen))
	}
	// A reader that comes back goes on after what it saw last.
	again, err := h.EventStream(ctx, h.admin, "default", got[11].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	rest := next(t, again, 8)
	if diff := cmp.Diff(got[12:], rest); diff != "" {
		t.Error(diff)
	}
	_, err = h.EventStream(ctx, h.admin, "default", "nonsense")
	wantCode(t, "a strange id", err, cloud.KindInvalid, "invalid")
}

// A transaction that began earlier and commits later is not passed over.
func TestStreamWaitsForOlderTransactions(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	first := must(h.InstanceCreate(ctx, h.admin, "default", web("web-1")))
	s := must(h.EventStream(ctx, h.admin, "default", ""))
	defer s.Close()
	tx, err := h.pg.Owner.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(ctx, `INSERT INTO event (id, org_id, project_id, resource, resource_id, seq, verb, at) VALUES (gen_random_uuid(), $1, $2, 'instance', $3, 2, 'older', now())`,
		first.OrgID, first.ProjectID, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	second := must(h.InstanceCreate(ctx, h.admin, "default", web("web-2")))
	// Other tests' transactions count as older too, so the first instance's event
	// may still come; the second's may not.
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	for got, err := s.Next(short); err == nil; got, err = s.Next(short) {
		for _, e := range got {
			if e.ResourceID == second.ID.String() || e.Verb == "older" {
				t.Fatalf("event %q of %s while an older transaction runs", e.Verb, e.ResourceID)
			}
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for len(verbs) < 2 {
		for _, e := range next(t, s, 1) {
			if e.ResourceID == second.ID.String() || e.Verb == "older" {
				verbs = append(verbs, e.Verb)
			}
		}
	}
	if diff := cmp.Diff([]string{"older", "created"}, verbs); diff != "" {
		t.Error(diff)
	}
}

func TestTicketsAreUsedOnceForWhatTheyAre(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	node := h.node(t, 0, cloud.ModeMIG)
	must(h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: "web-1", Image: "debian-12", Flavor: "cpu-small"}))
	_, err := h.TicketCreate(ctx, h.admin, "default", "web-1", "", 0)
	wantCode(t, "not placed", err, cloud.KindConflict, "not_running")
	exec(t, h, `UPDATE instance SET state = 'starting', node_id = $1, epoch = 1`, node)
	tok := must(h.TicketCreate(ctx, h.admin, "default", "web-1", "", 0))
	_, err = h.TicketUse(ctx, tok.Ticket, app.TicketPort)
	wantCode(t, "for something else", err, cloud.KindUnauthenticated, "ticket_other")
	used, err := h.TicketUse(ctx, tok.Ticket, app.TicketExec)
	i := must(h.InstanceGet(ctx, h.admin, "default", "web-1"))
	if err != nil || used.Actor.UserID != h.admin.Actor.UserID || used.InstanceID != i.ID {
		t.Fatalf("%+v, %v", used, err)
	}
	_, err = h.TicketUse(ctx, tok.Ticket, app.TicketExec)
	wantCode(t, "twice", err, cloud.KindUnauthenticated, "ticket_used")
	_, err = h.TicketUse(ctx, "junk", app.TicketExec)
	wantCode(t, "junk", err, cloud.KindUnauthenticated, "token_malformed")

	_, err = h.TicketCreate(ctx, h.admin, "default", "web-1", app.TicketScreen, 0)
	wantCode(t, "a container's screen", err, cloud.KindConflict, "not_a_vm")
	for what, in := range map[string]struct {
		opens string
		port  int
	}{"no port": {app.TicketPort, 0}, "a port that is none": {app.TicketPort, 65536}, "a terminal's port": {app.TicketExec, 22}, "a visit": {"open", 80}, "nothing known": {"door", 0}} {
		_, err = h.TicketCreate(ctx, h.admin, "default", "web-1", in.opens, in.port)
		wantCode(t, what, err, cloud.KindInvalid, "invalid")
	}
	tok = must(h.TicketCreate(ctx, h.admin, "default", "web-1", app.TicketPort, 22))
	if used = must(h.TicketUse(ctx, tok.Ticket, app.TicketPort)); used.Port != 22 {
		t.Errorf("a ticket for port 22 is for port %d", used.Port)
	}
}

func TestVisitsBeginOnceAndOnlyWhereTheyAreFor(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	one := must(h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: "web-1", Image: "debian-12", Flavor: "cpu-small"}))
	two := must(h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: "web-2", Image: "debian-12", Flavor: "cpu-small"}))
	o := must(h.Open(ctx, h.admin, "default", "web-1", 8888))
	_, _, err := h.VisitBegin(ctx, o.Ticket, two.ID, 8888)
	wantCode(t, "at another instance", err, cloud.KindNotFound, "not_found")
	_, _, err = h.VisitBegin(ctx, o.Ticket, one.ID, 8080)
	wantCode(t, "at another port", err, cloud.KindNotFound, "not_found")
	_, err = h.VisitGoesOn(ctx, o.Ticket, one.ID, 8888)
	wantCode(t, "a ticket is no pass", err, cloud.KindUnauthenticated, "token_malformed")
	_, err = h.TicketUse(ctx, o.Ticket, app.TicketPort)
	wantCode(t, "nor a stream's", err, cloud.KindUnauthenticated, "ticket_other")
	pass, _, err := h.VisitBegin(ctx, o.Ticket, one.ID, 8888)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = h.VisitBegin(ctx, o.Ticket, one.ID, 8888)
	wantCode(t, "twice", err, cloud.KindUnauthenticated, "ticket_used")
	if v := must(h.VisitGoesOn(ctx, pass, one.ID, 8888)); v.Instance.Name != "web-1" {
		t.Errorf("the visit is to %+v", v.Instance)
	}
	_, err = h.VisitGoesOn(ctx, pass, two.ID, 8888)
	wantCode(t, "a pass of another instance", err, cloud.KindNotFound, "not_found")
	_, err = h.VisitGoesOn(ctx, pass, one.ID, 80)
	wantCode(t, "a pass of another port", err, cloud.KindNotFound, "not_found")
	_, err = h.Authenticate(ctx, pass, "")
	wantCode(t, "a pass is no access token", err, cloud.KindUnauthenticated, "token_malformed")

	must(h.InstanceDelete(ctx, h.admin, "default", "web-1", 0))
	_, err = h.VisitGoesOn(ctx, pass, one.ID, 8888)
	wantCode(t, "a pass of what was deleted", err, cloud.KindNotFound, "not_found")
	_, err = h.Open(ctx, h.admin, "default", one.ID.String(), 8888)
	wantCode(t, "opening what was deleted", err, cloud.KindNotFound, "not_found")
}

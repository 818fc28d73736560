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

func TestExecTicketsAreUsedOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	node := h.node(t, 0, cloud.ModeMIG)
	must(h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: "web-1", Image: "debian-12", Flavor: "cpu-small"}))
	_, err := h.ExecTicketCreate(ctx, h.admin, "default", "web-1")
	wantCode(t, "not placed", err, cloud.KindConflict, "not_running")
	exec(t, h, `UPDATE instance SET state = 'starting', node_id = $1, epoch = 1`, node)
	tok := must(h.ExecTicketCreate(ctx, h.admin, "default", "web-1"))
	who, i, err := h.ExecTicketUse(ctx, tok.Ticket)
	if err != nil || who.UserID != h.admin.Actor.UserID || i.Name != "web-1" || i.NodeID != node {
		t.Fatalf("%+v, %v", i, err)
	}
	_, _, err = h.ExecTicketUse(ctx, tok.Ticket)
	wantCode(t, "twice", err, cloud.KindUnauthenticated, "ticket_used")
	_, _, err = h.ExecTicketUse(ctx, "junk")
	wantCode(t, "junk", err, cloud.KindUnauthenticated, "token_malformed")
}

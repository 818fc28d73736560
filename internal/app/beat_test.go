package app_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestUnchangedReportsAreBeats: a report without news is noted and writes nothing
// else, and whatever the database has come to hold otherwise is put right by the
// next one.
func TestUnchangedReportsAreBeats(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	id := h.enroll(t, "beats")
	say := func(r nodewire.Report) nodewire.ReportAnswer {
		t.Helper()
		a, err := h.NodeReport(t.Context(), id, r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := h.pg.Owner.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	read := func(sql string, args ...any) (out string) {
		t.Helper()
		if err := h.pg.Owner.QueryRow(t.Context(), sql, args...).Scan(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	const version = `SELECT agent_version FROM node WHERE id = $1`
	r := report(card("1"), card("2"))
	say(r)
	exec(`UPDATE node SET state = 'ready', agent_version = 'untouched', last_seen_at = now() - interval '20 seconds' WHERE id = $1`, id)
	r.Sequence++
	if a := say(r); a.Sequence != r.Sequence || a.NextSeconds != 5 {
		t.Errorf("a beat is answered with %+v", a)
	}
	if got := read(version, id); got != "untouched" {
		t.Errorf("a report without news was written whole (agent version %q)", got)
	}
	if got := read(`SELECT (now() - last_seen_at < interval '5 seconds')::text FROM node WHERE id = $1`, id); got != "true" {
		t.Error("a beat is no sign of life")
	}

	// The node moves a card and another replica keeps that: what this one
	// remembers is no longer so.
	exec(`UPDATE node SET report_digest = '\x00' WHERE id = $1`, id)
	say(r)
	if got := read(version, id); got != "test" {
		t.Errorf("another replica's report stands in the way of this one's (agent version %q)", got)
	}

	// A node that is late has something to be done about: its report is looked at.
	exec(`UPDATE node SET state = 'late', agent_version = 'untouched' WHERE id = $1`, id)
	say(r)
	if got := read(version, id); got != "test" {
		t.Error("a late node's report was taken for a beat")
	}
	exec(`UPDATE node SET state = 'ready' WHERE id = $1`, id)

	// News is kept at once, and going back to what was said before is news too.
	bad := report(card("1"), card("2"))
	bad.GPUs[1].State = "unhealthy"
	say(bad)
	say(r)
	if got := read(`SELECT string_agg(state, ',' ORDER BY pci_address) FROM gpu WHERE node_id = $1`, id); got != "ready,ready" {
		t.Errorf("cards: %s", got)
	}
	// Durations are no news.
	r.Instances = []nodewire.InstanceReport{{ID: "inst_01m8pj962ge4vsb7dtjjhew63h", State: nodewire.GuestRunning, RanForSeconds: 1}}
	say(r)
	exec(`UPDATE node SET agent_version = 'untouched' WHERE id = $1`, id)
	r.Instances = []nodewire.InstanceReport{{ID: "inst_01m8pj962ge4vsb7dtjjhew63h", State: nodewire.GuestRunning, RanForSeconds: 6}}
	say(r)
	if got := read(version, id); got != "untouched" {
		t.Error("a run that goes on is news")
	}
	// A notebook's idleness is.
	r.Instances[0].Activity = &nodewire.Activity{QuietSeconds: 5}
	say(r)
	if got := read(version, id); got != "test" {
		t.Error("a notebook's activity was taken for a beat")
	}
}

// TestBeatsTellOfANewAssignment: the answer to a beat tells a node that it is
// behind.
func TestBeatsTellOfANewAssignment(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	id := h.enroll(t, "behind")
	as, err := h.NodeAssignment(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r := report(card("1"))
	r.Version = as.Version
	for range 2 {
		a, err := h.NodeReport(t.Context(), id, r)
		if err != nil || a.WantsAssignment {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if _, err := h.pg.Owner.Exec(t.Context(), `UPDATE node SET state = 'ready', generation = generation + 1 WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	a, err := h.NodeReport(t.Context(), id, r)
	if err != nil || !a.WantsAssignment {
		t.Errorf("%+v, %v", a, err)
	}
}

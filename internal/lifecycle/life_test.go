package lifecycle_test

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/lifecycle"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// running makes a world with one machine and one running instance.
func running(t *testing.T) (*looptest.World, looptest.Loops, *looptest.Machine, cloud.InstanceID) {
	t.Helper()
	w := looptest.New(t)
	m := looptest.NewMachine(w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 2))
	l := w.Loops()
	id := w.MustCreate(t, looptest.Slices(1, "3g"))
	l.Until(t, "it runs", func() bool { return w.State(t, id) == cloud.StateRunning }, m)
	return w, l, m, id
}

func verbs(t *testing.T, w *looptest.World, id cloud.InstanceID) string {
	t.Helper()
	return looptest.One[string](t, w, `SELECT string_agg(verb, ' ' ORDER BY seq) FROM event WHERE resource_id = $1`, id)
}

func claims(t *testing.T, w *looptest.World) int {
	t.Helper()
	return looptest.One[int](t, w, `SELECT count(*) FROM gpu_claim`)
}

func used(t *testing.T, w *looptest.World, r cloud.QuotaResource) int64 {
	t.Helper()
	return looptest.One[int64](t, w, `SELECT used FROM project_quota WHERE resource = $1`, r)
}

func TestALifeFromCreateToDelete(t *testing.T) {
	t.Parallel()
	w, l, m, id := running(t)
	if claims(t, w) != 1 || used(t, w, cloud.QuotaGPUMilli) != 500 || used(t, w, cloud.QuotaInstances) != 1 {
		t.Errorf("%d claims, %d thousandths of a GPU, %d instances", claims(t, w), used(t, w, cloud.QuotaGPUMilli), used(t, w, cloud.QuotaInstances))
	}
	if err := w.Want(t.Context(), id, cloud.DesiredStopped); err != nil {
		t.Fatal(err)
	}
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Asked to stop, it holds everything until its node has spoken.
	if w.State(t, id) != cloud.StateStopping || claims(t, w) != 1 {
		t.Errorf("%s with %d claims, want stopping with its claim", w.State(t, id), claims(t, w))
	}
	l.Until(t, "it stops", func() bool { return w.State(t, id) == cloud.StateStopped }, m)
	if claims(t, w) != 0 || used(t, w, cloud.QuotaGPUMilli) != 0 || used(t, w, cloud.QuotaInstances) != 1 {
		t.Errorf("stopped: %d claims, %d thousandths of a GPU, %d instances", claims(t, w), used(t, w, cloud.QuotaGPUMilli), used(t, w, cloud.QuotaInstances))
	}
	if ok, err := w.Start(t.Context(), id); err != nil || !ok {
		t.Fatalf("start again: %v, %v", ok, err)
	}
	l.Until(t, "it runs again", func() bool { return w.State(t, id) == cloud.StateRunning }, m)
	if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
		t.Fatal(err)
	}
	l.Until(t, "it is deleted", func() bool { return w.State(t, id) == cloud.StateDeleted }, m)
	l.Turn(t, m)
	if used(t, w, cloud.QuotaInstances) != 0 || len(m.Guests) != 0 {
		t.Errorf("deleted: %d instances counted, %d guests on the node", used(t, w, cloud.QuotaInstances), len(m.Guests))
	}
	want := "created placed running stopping stopped queued placed running deleting deleted"
	if got := verbs(t, w, id); got != want {
		t.Errorf("events %s\nwant   %s", got, want)
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment WHERE ended_at IS NOT NULL`); n != 2 {
		t.Errorf("%d closed segments for two runs", n)
	}
	w.Check(t)
}

func TestAContainerThatEndsGivesEverythingBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code  int
		state cloud.InstanceState
	}{"with 0": {0, cloud.StateStopped}, "with 3": {3, cloud.StateFailed}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, l, m, id := running(t)
			m.Guests[id].Ends, m.Guests[id].Code = true, c.code
			l.Until(t, "it ends", func() bool { return w.State(t, id) == c.state }, m)
			if got := looptest.One[string](t, w, `SELECT format('%s %s %s', reason, exit_code, last_lines) FROM instance`); got != map[int]string{0: "exited 0 the last line", 3: "exited 3 the last line"}[c.code] {
				t.Errorf("it says %s", got)
			}
			if claims(t, w) != 0 || used(t, w, cloud.QuotaVCPU) != 0 {
				t.Errorf("%d claims, %d vCPU held", claims(t, w), used(t, w, cloud.QuotaVCPU))
			}
			w.Check(t)
		})
	}
}

// What a node says of an earlier placement, or of one that is not its own, frees
// nothing and changes nothing.
func TestReportsOfOtherPlacementsChangeNothing(t *testing.T) {
	t.Parallel()
	w, l, m, id := running(t)
	other := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	before := verbs(t, w, id)
	old := postgres.Observation{InstanceID: id, Epoch: 0, Generation: 1, State: nodewire.GuestGone}
	current := old
	current.Epoch = 1
	if err := m.Say(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := other.Say(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.State(t, id) != cloud.StateRunning || claims(t, w) != 1 || verbs(t, w, id) != before {
		t.Errorf("it is %s with %d claims and events %s", w.State(t, id), claims(t, w), verbs(t, w, id))
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM observation WHERE handled_seq < seq`); n != 0 {
		t.Errorf("%d observations are never dealt with", n)
	}
}

// An observation that is handled twice, as after a kill between the transition
// and its mark, is handled once.
func TestTheSameNewsTwice(t *testing.T) {
	t.Parallel()
	w, l, _, id := running(t)
	before := verbs(t, w, id)
	w.Exec(t, `UPDATE observation SET handled_seq = 0`)
	for range 2 {
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := verbs(t, w, id); got != before {
		t.Errorf("events became %s", got)
	}
	w.Check(t)
}

func TestProgressIsShownWithoutEventsAndNotTooOften(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	l := w.Loops()
	id := w.MustCreate(t, looptest.Slices(1, "1g"))
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	writes := 0
	last := ""
	for percent := range 21 {
		p := percent * 5
		if err := n.Say(t.Context(), postgres.Observation{InstanceID: id, Epoch: 1, Generation: 1, State: nodewire.GuestPulling, Progress: &p}); err != nil {
			t.Fatal(err)
		}
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if row := looptest.One[string](t, w, `SELECT format('%s %s', reason, progress) FROM instance`); row != last {
			writes, last = writes+1, row
		}
	}
	if writes > 6 {
		t.Errorf("%d writes for 21 reports at once, want at most about two a second", writes)
	}
	pgtest.Eventually(t, "the last word is shown", func() bool {
		if err := l.Lifecycle.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		return looptest.One[string](t, w, `SELECT format('%s %s', reason, progress) FROM instance`) == "pulling 100"
	})
	if got := verbs(t, w, id); got != "created placed" {
		t.Errorf("events %s: progress is no event", got)
	}
}

func TestDeadlinesNeverFree(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	m := looptest.NewMachine(n)
	l := w.Loops()
	id := w.MustCreate(t, looptest.Slices(1, "1g"))
	turn := func() {
		t.Helper()
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	late := func() {
		w.Exec(t, `UPDATE instance SET deadline_at = now() - interval '1 s' WHERE deadline_at IS NOT NULL`)
	}
	turn() // placed; the node says nothing
	late()
	turn()
	if w.State(t, id) != cloud.StateStopping || claims(t, w) != 1 {
		t.Fatalf("a start that is stuck is %s with %d claims, want stopping, held", w.State(t, id), claims(t, w))
	}
	for range 3 {
		late()
		turn()
	}
	if a := looptest.One[int](t, w, `SELECT count(*) FROM alarm WHERE cleared_at IS NULL`); a != 1 || claims(t, w) != 1 {
		t.Errorf("%d alarms, %d claims, want one alarm and the claim held", a, claims(t, w))
	}
	l.Until(t, "the node confirms", func() bool { return w.State(t, id) == cloud.StateFailed }, m)
	if got := looptest.One[string](t, w, `SELECT reason FROM instance`); got != "start_timeout" {
		t.Errorf("it failed for %s", got)
	}
	if a := looptest.One[int](t, w, `SELECT count(*) FROM alarm WHERE cleared_at IS NULL`); a != 0 || claims(t, w) != 0 {
		t.Errorf("%d alarms open and %d claims held after the end", a, claims(t, w))
	}
	w.Check(t)
}

func TestASlowPullThatMovesIsNotKilled(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	l := w.Loops()
	id := w.MustCreate(t, looptest.Slices(1, "1g"))
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Exec(t, `UPDATE instance SET deadline_at = now() - interval '1 s'`)
	p := 7
	if err := n.Say(t.Context(), postgres.Observation{InstanceID: id, Epoch: 1, Generation: 1, State: nodewire.GuestPulling, Progress: &p}); err != nil {
		t.Fatal(err)
	}
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := looptest.One[float64](t, w, `SELECT extract(epoch FROM deadline_at - now())::float8 FROM instance`)
	if w.State(t, id) != cloud.StateStarting || left < cloud.StartWithin.Seconds()-60 {
		t.Errorf("it is %s with %.0f s left", w.State(t, id), left)
	}
}

func TestNodesGoLateThenLostAndComeBack(t *testing.T) {
	t.Parallel()
	w, l, m, id := running(t)
	life := l.Lifecycle
	see := func(ago time.Duration) string {
		t.Helper()
		w.Exec(t, `UPDATE node SET last_seen_at = now() - $1::interval`, ago)
		for range 2 {
			if err := life.Liveness(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return looptest.One[string](t, w, `SELECT state FROM node`)
	}
	open := func() int { return looptest.One[int](t, w, `SELECT count(*) FROM alarm WHERE cleared_at IS NULL`) }
	if got := see(5 * time.Second); got != "ready" {
		t.Errorf("heard of 5 s ago: %s", got)
	}
	if got := see(20 * time.Second); got != "late" || open() != 0 {
		t.Errorf("20 s ago: %s, %d alarms", got, open())
	}
	if got := see(2 * time.Second); got != "ready" {
		t.Errorf("back: %s", got)
	}
	w.Exec(t, `UPDATE instance SET state_at = now() - interval '1 hour', started_at = now() - interval '1 hour'`)
	if got := see(6 * time.Minute); got != "lost" || open() != 1 || claims(t, w) != 1 {
		t.Errorf("6 min ago: %s, %d alarms, %d claims held", got, open(), claims(t, w))
	}
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.State(t, id) != cloud.StateRunning || looptest.One[string](t, w, `SELECT reason FROM instance`) != "node_lost" {
		t.Error("what ran there is not marked")
	}
	if err := m.Act(t.Context()); err != nil { // it still runs
		t.Fatal(err)
	}
	if got := see(0); got != "ready" || open() != 0 {
		t.Errorf("back: %s, %d alarms open", got, open())
	}
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := verbs(t, w, id); got != "created placed running node_lost node_back running" {
		t.Errorf("events %s", got)
	}
	if got := looptest.One[string](t, w, `SELECT reason FROM instance`); got != "" {
		t.Errorf("it is still marked %s", got)
	}
	w.Check(t)
}

// An instance that the database lets nobody move holds up nobody else.
func TestABrokenInstanceHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w, l, m, broken := running(t)
	other := w.MustCreate(t, looptest.Slices(1, "1g"))
	l.Until(t, "both run", func() bool { return w.State(t, other) == cloud.StateRunning }, m)
	// A claim that no release of this epoch will take.
	w.Exec(t, `INSERT INTO gpu_claim SELECT gen_random_uuid(), g.id, i.org_id, i.project_id, i.id, 99, 'mig', 'mig8', '1g', '[0,1)'
		FROM gpu g, instance i WHERE i.id = $1 AND NOT EXISTS (SELECT FROM gpu_claim WHERE gpu_id = g.id AND slots && '[0,1)') LIMIT 1`, broken)
	for _, id := range []cloud.InstanceID{broken, other} {
		if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
			t.Fatal(err)
		}
	}
	l.Until(t, "the other is deleted", func() bool { return w.State(t, other) == cloud.StateDeleted }, m)
	if got := w.State(t, broken); got != cloud.StateDeleting {
		t.Errorf("the broken one is %s", got)
	}
}

// newborn leads since this moment: it has listened to nobody yet.
type newborn struct{ looptest.Leader }

func (newborn) Since() time.Time { return time.Now() }

func TestANewLeaderJudgesNobodyForSilenceItDidNotHear(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	w.Exec(t, `UPDATE node SET last_seen_at = now() - interval '1 hour'`)
	life := lifecycle.New(lifecycle.Config{DB: w.DB, Leader: newborn{looptest.Leader{DB: w.DB}}})
	if err := life.Liveness(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := looptest.One[string](t, w, `SELECT state || (SELECT count(*) FROM alarm) FROM node`); got != "ready0" {
		t.Errorf("after an hour without a control plane the node is %s, want ready and no alarm", got)
	}
}

// Only a sign of life makes a node ready: not a clock that was set back, by which
// it seems to have spoken in an hour from now.
func TestAClockSetBackIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	l := w.Loops()
	for _, was := range []string{"ready", "late", "lost"} {
		w.Exec(t, `UPDATE node SET state = $1, last_seen_at = now() + interval '1 hour'`, was)
		if err := l.Lifecycle.Liveness(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"ready": "late", "late": "late", "lost": "lost"}[was]
		if got := looptest.One[string](t, w, `SELECT state FROM node`); got != want {
			t.Errorf("a node that was %s is %s, want %s", was, got, want)
		}
	}
	w.Exec(t, `UPDATE node SET last_seen_at = now()`)
	if err := l.Lifecycle.Liveness(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := looptest.One[string](t, w, `SELECT state FROM node`); got != "ready" {
		t.Errorf("it spoke, and is %s", got)
	}
}

func TestCleanupDeletesOnlyWhatHasExpired(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	for _, age := range []string{"1 hour", "25 hours"} {
		w.Exec(t, `INSERT INTO idempotency (org_id, actor_id, key, operation, request_hash, status, response, created_at)
			SELECT id, gen_random_uuid(), 'k', 'op', '', 201, '', now() - $1::text::interval FROM organisation WHERE name = 'acme'`, age)
		w.Exec(t, `INSERT INTO session (id, user_id, refresh_hash, expires_at)
			SELECT gen_random_uuid(), id, sha256($1::text::bytea), now() + interval '2 hours' - $1::text::interval FROM app_user`, age)
	}
	if err := w.Loops().Lifecycle.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := looptest.One[string](t, w, `SELECT format('%s %s', (SELECT count(*) FROM idempotency), (SELECT count(*) FROM session))`); got != "1 1" {
		t.Errorf("left: %s, want one of each", got)
	}
}

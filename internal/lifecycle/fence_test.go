package lifecycle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const era = "01900000-0000-7000-8000-000000000001"

// island is a node with a watchdog that may be cut off: while it is, nothing
// goes in or out, and after its guests' time-out it ends them by itself.
type island struct {
	looptest.Node
	w      *looptest.World
	cut    bool
	silent time.Duration // since it last had contact
	held   int64         // generation of the assignment that it holds
	guests map[cloud.InstanceID]*islander
	placed []looptest.Assigned // by that assignment
	dead   bool                // switched off: nothing runs, and it never acts
}

type islander struct {
	epoch   int64
	running bool
	fenced  bool // it was ended for want of contact
	ran     time.Duration
}

func newIsland(t *testing.T, w *looptest.World, cards int) *island {
	n := w.Node(t, 64, 65536, "h100-80gb", cloud.ModeMIG, cards)
	w.Exec(t, `UPDATE node SET watchdog = true WHERE id = $1`, n.ID)
	return &island{Node: n, w: w, guests: map[cloud.InstanceID]*islander{}}
}

// pull takes the assignment that there is now.
func (n *island) pull(t *testing.T) {
	t.Helper()
	if n.cut || n.dead {
		return
	}
	var err error
	n.held = looptest.One[int64](t, n.w, `SELECT generation FROM node WHERE id = $1`, n.ID)
	if n.placed, err = n.Assignment(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// work makes the assignment so: what is absent ends first, what is new starts.
func (n *island) work() {
	if n.dead {
		return
	}
	for id, g := range n.guests {
		if !slices.ContainsFunc(n.placed, func(a looptest.Assigned) bool { return a.ID == id && a.Epoch == g.epoch }) {
			if g.running {
				g.running = false // still shown once, as ended
			} else {
				delete(n.guests, id)
			}
		}
	}
	for _, a := range n.placed {
		switch g := n.guests[a.ID]; {
		case a.State == cloud.StateStarting || a.State == cloud.StateRunning:
			if g == nil && !(n.cut && n.silent >= cloud.FenceAfter) {
				n.guests[a.ID] = &islander{epoch: a.Epoch, running: true}
			}
		case g != nil:
			g.running = false
		}
	}
}

// report says what is so, unless nobody would hear it.
func (n *island) report(t *testing.T) {
	t.Helper()
	if n.cut || n.dead {
		return
	}
	var said []postgres.Observation
	var left []postgres.Leftover
	for id, g := range n.guests {
		o := postgres.Observation{InstanceID: id, Epoch: g.epoch, Generation: 1, State: nodewire.GuestRunning, RanFor: g.ran}
		if !g.running {
			o.State, o.Reason = nodewire.GuestStopped, nodewire.ReasonAsked
			if g.fenced {
				o.Reason = nodewire.ReasonFenced
			}
			if slices.ContainsFunc(n.placed, func(a looptest.Assigned) bool { return a.ID == id && a.State == cloud.StateDeleting }) {
				o.State = nodewire.GuestGone
			}
		}
		said = append(said, o)
		left = append(left, postgres.Leftover{ID: id.UUID(), Epoch: g.epoch, Over: !g.running, RanFor: g.ran.Seconds()})
	}
	err := n.w.DB.InNode(t.Context(), n.ID, func(tx *postgres.Tx) error {
		if _, err := tx.Exec(t.Context(), `UPDATE node SET last_seen_at = clock_timestamp(), ack_era = $2, ack_generation = $3 WHERE id = $1`, n.ID, era, n.held); err != nil {
			return err
		}
		if _, err := postgres.ObservationPut(t.Context(), tx, n.ID, said); err != nil {
			return err
		}
		return postgres.LeftoversPut(t.Context(), tx, n.ID, era, n.held, left)
	})
	if err != nil {
		t.Fatal(err)
	}
	n.silent = 0
}

// archipelago is a world of islands with its loops.
type archipelago struct {
	*looptest.World
	l       looptest.Loops
	islands []*island
	unread  bool // the meter has not looked yet
}

func newArchipelago(t *testing.T, islands, cards int) *archipelago {
	w := looptest.New(t)
	w.Exec(t, `UPDATE cloud_state SET era = $1`, era)
	a := &archipelago{World: w, l: w.Loops()}
	for range islands {
		n := newIsland(t, w, cards)
		n.report(t)
		a.islands = append(a.islands, n)
	}
	return a
}

// restarting makes an instance that restarts elsewhere.
func (a *archipelago) restarting(t *testing.T) cloud.InstanceID {
	t.Helper()
	id := a.MustCreate(t, looptest.Slices(1, "3g"))
	a.Exec(t, `UPDATE instance SET on_node_loss = 'restart' WHERE id = $1`, id)
	return id
}

// pass lets time pass, for the database and for who is cut off.
func (a *archipelago) pass(t *testing.T, d time.Duration) {
	t.Helper()
	a.Exec(t, `UPDATE node SET last_seen_at = last_seen_at - $1::interval, tried_at = tried_at - $1::interval, created_at = created_at - $1::interval`, d)
	for _, n := range a.islands {
		if n.cut {
			n.silent += d
		}
		for _, g := range n.guests {
			if g.running && n.cut && n.silent >= cloud.FenceAfter {
				g.running, g.fenced = false, true
				g.ran += d - (n.silent - cloud.FenceAfter)
			} else if g.running {
				g.ran += d
			}
		}
		n.report(t)
	}
}

// turn lets everybody do a step and looks for what must never be.
func (a *archipelago) turn(t *testing.T) {
	t.Helper()
	steps := []func(context.Context) error{a.l.Lifecycle.Liveness, a.l.Scheduler.Tick, a.l.Lifecycle.Step, a.l.Lifecycle.Alarms}
	if !a.unread {
		steps = append(steps, a.l.Metering.Tick)
	}
	for _, step := range steps {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.look(t)
	}
	for _, n := range a.islands {
		n.pull(t)
		n.work()
		a.look(t)
		n.report(t)
	}
	a.look(t)
}

func (a *archipelago) look(t *testing.T) {
	t.Helper()
	at := map[cloud.InstanceID]string{}
	for _, n := range a.islands {
		for id, g := range n.guests {
			if !g.running {
				continue
			}
			if other, twice := at[id]; twice {
				t.Fatalf("%s runs twice: on %s and %s", id, other, n.ID)
			}
			at[id] = n.ID.String()
		}
	}
	a.Check(t)
}

func (a *archipelago) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 30 {
		if ok() {
			return
		}
		a.turn(t)
	}
	t.Fatalf("not within 30 turns: %s: %s", what, looptest.One[string](t, a.World,
		`SELECT COALESCE(string_agg(format('%s %s %s %s', i.name, i.state, i.reason, n.name), ', '), '') FROM instance i LEFT JOIN node n ON n.id = i.node_id`))
}

func (a *archipelago) fenced(t *testing.T) int {
	t.Helper()
	return looptest.One[int](t, a.World, `SELECT count(*) FROM gpu_claim WHERE fenced`)
}

func (a *archipelago) of(t *testing.T, id cloud.InstanceID) *island {
	t.Helper()
	node := looptest.One[cloud.NodeID](t, a.World, `SELECT node_id FROM instance WHERE id = $1`, id)
	for _, n := range a.islands {
		if n.ID == node {
			return n
		}
	}
	return nil
}

// What runs on a silent node starts elsewhere once the node must have ended it;
// what the node held stays held until it has said so, and then it is ready.
func TestASilentNodeIsFencedAndItsInstancesRestartElsewhere(t *testing.T) {
	t.Parallel()
	a := newArchipelago(t, 2, 1)
	a.unread = true
	id := a.restarting(t)
	waits := a.MustCreate(t, looptest.Slices(1, "1g"))
	a.until(t, "both run", func() bool {
		return a.State(t, id) == cloud.StateRunning && a.State(t, waits) == cloud.StateRunning
	})
	a.pass(t, 10*time.Minute)
	a.Exec(t, `UPDATE event SET at = at - interval '10 minutes'`)
	a.Exec(t, `UPDATE instance SET state_at = state_at - interval '10 minutes', started_at = started_at - interval '10 minutes'`)
	a.unread = false
	home := a.of(t, id)
	home.cut = true
	a.pass(t, 120*time.Second)
	a.turn(t)
	if got := a.State(t, id); got != cloud.StateRunning || a.of(t, id) != home {
		t.Fatalf("after 120 s of silence it is %s: it may not have ended there yet", got)
	}
	a.pass(t, 20*time.Second)
	a.until(t, "it runs elsewhere", func() bool { return a.State(t, id) == cloud.StateRunning && a.of(t, id) != home })
	if a.fenced(t) != 1 {
		t.Errorf("%d claims are fenced, want the one of the old run", a.fenced(t))
	}
	if got := verbs(t, a.World, id); got != "created placed running restarting placed running" {
		t.Errorf("events %s", got)
	}
	if got := looptest.One[int](t, a.World, `SELECT count(*) FROM alarm WHERE cleared_at IS NULL AND key LIKE 'node:%:fenced'`); got != 1 {
		t.Errorf("%d alarms say that it is fenced", got)
	}
	// Nothing is charged after the last proof of life.
	charged := func() float64 {
		return looptest.One[float64](t, a.World, `SELECT extract(epoch FROM ended_at - started_at)::float8 + COALESCE((SELECT sum(seconds)::float8 FROM usage_correction c WHERE c.segment_id = s.id), 0)
			FROM segment s WHERE instance_id = $1 ORDER BY started_at LIMIT 1`, id)
	}
	before := charged()
	if a.of(t, waits) == home {
		if got := looptest.One[string](t, a.World, `SELECT reason || ' ' || (message LIKE '%on_node_loss is wait%') FROM instance WHERE id = $1`, waits); got != "node_lost true" {
			t.Errorf("what waits says %s", got)
		}
	}
	// It comes back, with its last word on the old assignment first.
	home.cut = false
	home.report(t)
	if err := a.l.Lifecycle.Liveness(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.fenced(t) != 1 {
		t.Fatal("a report on an older assignment released what is fenced")
	}
	a.until(t, "the cards are free and the node is ready", func() bool {
		return a.fenced(t) == 0 && looptest.One[string](t, a.World, `SELECT state || (fenced_at IS NULL) FROM node WHERE id = $1`, home.ID) == "readytrue"
	})
	a.turn(t)
	if got := looptest.One[int](t, a.World, `SELECT count(*) FROM alarm WHERE cleared_at IS NULL`); got != 0 {
		t.Errorf("%d alarms are open after it is back", got)
	}
	if after := charged(); after < before+60 {
		t.Errorf("charged %.0f s before and %.0f s after the node said how long it ran", before, after)
	}
}

// However a node is cut off and comes back, nothing ever runs twice, and when all
// is well again everything runs and nothing is held for nobody.
func TestNothingRunsTwiceHoweverNodesComeAndGo(t *testing.T) {
	t.Parallel()
	rounds := 6
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			seed := uint64(round)
			r := rand.New(rand.NewPCG(seed, 7))
			a := newArchipelago(t, 3, 2)
			var ids []cloud.InstanceID
			for range 4 {
				ids = append(ids, a.restarting(t))
			}
			for range 40 {
				n := a.islands[r.IntN(len(a.islands))]
				switch r.IntN(6) {
				case 0:
					n.cut = true
				case 1:
					if n.cut = false; r.IntN(2) == 0 {
						n.report(t) // before it has the new assignment
					}
				case 2:
					if id := ids[r.IntN(len(ids))]; r.IntN(3) == 0 {
						_ = a.Want(t.Context(), id, cloud.DesiredStopped)
					} else if _, err := a.Start(t.Context(), id); err != nil {
						t.Fatal(err)
					}
				default:
					a.pass(t, time.Duration(r.IntN(90))*time.Second)
				}
				a.turn(t)
			}
			for _, n := range a.islands {
				n.cut = false
			}
			for _, id := range ids {
				if a.State(t, id) == cloud.StateStopped || a.State(t, id) == cloud.StateFailed {
					if _, err := a.Start(t.Context(), id); err != nil {
						t.Fatal(err)
					}
				}
			}
			a.until(t, fmt.Sprintf("seed %d: all is well", seed), func() bool {
				for _, id := range ids {
					if s := a.State(t, id); s == cloud.StateStopped {
						if _, err := a.Start(t.Context(), id); err != nil {
							t.Fatal(err)
						}
					} else if s != cloud.StateRunning {
						return false
					}
				}
				return a.fenced(t) == 0 && looptest.One[int](t, a.World, `SELECT count(*) FROM node WHERE state <> 'ready' OR fenced_at IS NOT NULL`) == 0
			})
		})
	}
}

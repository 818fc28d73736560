package looptest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/lifecycle"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/scheduler"
)

const password = "correct horse battery"

// teller watches what nodes are told: the same version never says two things.
type teller struct {
	*app.App
	pg     *pgtest.Database
	admin  app.Call
	nodes  []cloud.NodeID
	told   map[cloud.NodeID]nodewire.Assignment
	doing  string // for the message
	others int    // how often a node was told something else
	cards  map[cloud.NodeID][]nodewire.GPU
	answer nodewire.ReportAnswer // to the last report
	after  map[string]int        // what had it told so
}

func newTeller(t *testing.T) *teller {
	t.Helper()
	ctx := t.Context()
	w := &teller{pg: pgtest.New(t), told: map[cloud.NodeID]nodewire.Assignment{}, cards: map[cloud.NodeID][]nodewire.GPU{}, after: map[string]int{}}
	keys, err := authn.KeysLoad(ctx, authn.MasterNew(), app.KeyStore(w.pg.DB), time.Now())
	must(t, err)
	w.App = app.New(app.Config{DB: w.pg.DB, Keys: keys, Resolve: func(context.Context, string, bool, *app.RegistryLogin) (app.Resolved, error) {
		return app.Resolved{Digest: "sha256:" + strings.Repeat("a", 64)}, nil
	}})
	_, err = w.Setup(ctx, app.SetupInput{AdminEmail: "ada@tenon.test", AdminName: "Ada", AdminPassword: password})
	must(t, err)
	g, err := w.Login(ctx, app.LoginInput{Email: "ada@tenon.test", Password: password, Address: "127.0.0.1"})
	must(t, err)
	w.admin.Actor, err = w.Authenticate(ctx, g.AccessToken, "")
	must(t, err)
	for _, kind := range []cloud.InstanceKind{cloud.KindContainer, cloud.KindNotebook, cloud.KindVM} {
		_, err := w.ImageCreate(ctx, w.admin, app.ImageInput{Name: string(kind), Kind: kind, Ref: "tenon/" + string(kind) + ":latest", Offered: true})
		must(t, err)
	}
	for i := range 3 {
		id := cloud.NodeID{}.New()
		w.exec(t, `INSERT INTO node (id, name, pool_id, vcpu, memory_mib) SELECT $1, $2, id, 64, 65536 FROM pool WHERE name = 'default'`, id, fmt.Sprintf("told-%d", i))
		whole := card(2*i + 1)
		whole.Mode, whole.Modes = "whole", []string{"whole", "mig"}
		w.nodes, w.cards[id] = append(w.nodes, id), []nodewire.GPU{whole, card(2*i + 2)}
		w.say(t, id, func(*nodewire.Report) {})
	}
	w.look(t)
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func card(n int) nodewire.GPU {
	return nodewire.GPU{UUID: fmt.Sprintf("GPU-%d", n), PCIAddress: fmt.Sprintf("0000:%02x:00.0", n), Model: "h100-80gb", Geometry: "mig8", Mode: "mig", State: "ready",
		MemoryMiB: 81559, NUMANode: -1, Simulated: true}
}

func vm(name string) app.InstanceInput {
	return app.InstanceInput{Name: name, Image: "vm", Flavor: "vm-small"}
}

func (w *teller) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := w.pg.Owner.Exec(t.Context(), sql, args...)
	must(t, err)
}

// wanted reads what a node is told.
func (w *teller) wanted(t *testing.T, id cloud.NodeID) nodewire.Assignment {
	t.Helper()
	a, err := w.NodeAssignment(t.Context(), id)
	must(t, err)
	return a
}

// look compares what each node would be told now with what it was.
func (w *teller) look(t *testing.T) {
	t.Helper()
	for _, id := range w.nodes {
		was, now := w.told[id], w.wanted(t, id)
		w.told[id] = now
		before, after := content(t, was), content(t, now)
		if before != after {
			w.others++
			w.after[w.doing]++
		}
		if was.Version == now.Version && before != after {
			t.Fatalf("after %s, generation %d of a node's assignment says\n%s\nand said\n%s", w.doing, now.Generation, after, before)
		}
	}
}

func content(t *testing.T, a nodewire.Assignment) string {
	t.Helper()
	a.Version = nodewire.Version{}
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// do takes one step and looks. What is refused changes nothing.
func (w *teller) do(t *testing.T, what string, f func() error) {
	t.Helper()
	w.doing = what
	_ = f()
	w.look(t)
}

// say reports what the node is told, as far as change leaves it so.
func (w *teller) say(t *testing.T, id cloud.NodeID, change func(r *nodewire.Report)) {
	t.Helper()
	a := w.wanted(t, id)
	r := nodewire.Report{Sequence: 1, Agent: "test", ProbeOK: true, GPUs: slices.Clone(w.cards[id]),
		VCPU: 64, MemoryMiB: 65536, Watchdog: true, Kinds: []string{"container", "notebook", "vm"}}
	r.Version = a.Version
	for _, i := range a.Instances {
		state := nodewire.GuestRunning
		switch i.Desired {
		case nodewire.DesiredStopped:
			state = nodewire.GuestStopped
		case nodewire.DesiredGone:
			state = nodewire.GuestGone
		}
		r.Instances = append(r.Instances, nodewire.InstanceReport{ID: i.ID, Epoch: i.Epoch, Generation: i.Generation, State: state})
	}
	for _, v := range a.Volumes {
		r.Volumes = append(r.Volumes, nodewire.VolumeReport{ID: v.ID, State: v.Desired})
	}
	change(&r)
	var err error
	w.answer, err = w.NodeReport(t.Context(), id, r)
	must(t, err)
}

func (w *teller) loops(t *testing.T) (schedule, live func(context.Context) error) {
	leader := looptest.Leader{DB: w.pg.DB, After: func(context.Context) error {
		w.look(t)
		return nil
	}}
	quiet := slog.New(slog.DiscardHandler)
	l := lifecycle.New(lifecycle.Config{DB: w.pg.DB, Leader: leader, Log: quiet, ByDatabaseClock: true})
	return scheduler.New(scheduler.Config{DB: w.pg.DB, Leader: leader, Log: quiet}).Tick,
		func(ctx context.Context) error {
			for _, f := range []func(context.Context) error{l.Step, l.Liveness, l.Alarms} {
				if err := f(ctx); err != nil {
					return err
				}
			}
			return nil
		}
}

// TestAVMThatIsBoundToItsNodeIsToldSoAtOnce: once its disk is there it can't run
// elsewhere, and its node must not end it for being alone.
func TestAVMThatIsBoundToItsNodeIsToldSoAtOnce(t *testing.T) {
	t.Parallel()
	w := newTeller(t)
	in := vm("bound")
	in.OnNodeLoss = cloud.LossRestarts
	if _, err := w.InstanceCreate(t.Context(), w.admin, "default", in); err != nil {
		t.Fatal(err)
	}
	schedule, live := w.loops(t)
	w.doing = "its start"
	for _, f := range []func(context.Context) error{live, schedule} {
		must(t, f(t.Context()))
	}
	for _, id := range w.nodes {
		a := w.wanted(t, id)
		if len(a.Instances) == 0 {
			continue
		}
		if a.Instances[0].StopAfterSeconds != 90 {
			t.Errorf("before its disk is there, its node ends it after %d s without contact", a.Instances[0].StopAfterSeconds)
		}
		w.doing = "the disk's word"
		w.say(t, id, func(*nodewire.Report) {})
		w.look(t)
		then := w.wanted(t, id)
		if then.Generation != a.Generation+1 || then.Instances[0].StopAfterSeconds != 0 || !w.answer.WantsAssignment {
			t.Errorf("generation %d after %d, ends after %d s, told to wait for it: %v", then.Generation, a.Generation, then.Instances[0].StopAfterSeconds, w.answer.WantsAssignment)
		}
		return
	}
	t.Fatal("it was placed nowhere")
}

// TestTheSameGenerationNeverSaysTwoThings: whatever tenants, operators, nodes and
// the loops do, in any order. Each transaction is looked at by itself.
func TestTheSameGenerationNeverSaysTwoThings(t *testing.T) {
	t.Parallel()
	w := newTeller(t)
	schedule, live := w.loops(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 6))
	ctx, n := t.Context(), 0
	var names []string
	anyOf := func(list []string) string { return list[r.IntN(len(list))] }
	node := func() cloud.NodeID { return w.nodes[r.IntN(len(w.nodes))] }
	address := func(id cloud.NodeID) *nodewire.GPU { return &w.cards[id][r.IntN(2)] }
	words := []string{nodewire.GuestPending, nodewire.GuestStarting, nodewire.GuestRunning, nodewire.GuestStopped, nodewire.GuestFailed, nodewire.GuestGone}
	type act struct {
		what string
		do   func() error
	}
	acts := []act{
		{"a create", func() error {
			n++
			in := []app.InstanceInput{vm(""), {Image: "container", Flavor: "h100-1g-10gb"}, {Image: "notebook", Flavor: "cpu-medium"}, {Image: "vm", Flavor: "h100-1x"}}[r.IntN(4)]
			in.Name = fmt.Sprintf("i-%d", n)
			in.OnNodeLoss = []cloud.LossPolicy{cloud.LossRestarts, cloud.LossWaits}[r.IntN(2)]
			names = append(names, in.Name)
			_, err := w.InstanceCreate(ctx, w.admin, "default", in)
			return err
		}},
		{"a stop", func() error {
			_, err := w.InstanceStop(ctx, w.admin, "default", anyOf(names), app.StopInput{GPU: []cloud.StopPolicy{"", cloud.StopHolds, cloud.StopReleases}[r.IntN(3)]}, 0)
			return err
		}},
		{"a start", func() error {
			_, err := w.InstanceStart(ctx, w.admin, "default", anyOf(names), app.StartInput{WithoutGPU: r.IntN(4) == 0}, 0)
			return err
		}},
		{"a restart", func() error {
			_, err := w.InstanceRestart(ctx, w.admin, "default", anyOf(names), 0)
			return err
		}},
		{"a delete", func() error {
			if r.IntN(3) > 0 {
				return nil
			}
			_, err := w.InstanceDelete(ctx, w.admin, "default", anyOf(names), 0)
			return err
		}},
		{"another policy", func() error {
			loss := []cloud.LossPolicy{cloud.LossRestarts, cloud.LossWaits}[r.IntN(2)]
			_, err := w.InstanceUpdate(ctx, w.admin, "default", anyOf(names), app.InstanceChange{OnNodeLoss: &loss}, 0)
			return err
		}},
		{"a report", func() error { w.say(t, node(), func(*nodewire.Report) {}); return nil }},
		{"a report of guests", func() error {
			w.say(t, node(), func(rep *nodewire.Report) {
				for i := range rep.Instances {
					if r.IntN(3) == 0 {
						rep.Instances[i].State, rep.Instances[i].RanForSeconds = anyOf(words), r.Float64()*600
						rep.Instances[i].Reason = anyOf([]string{"", nodewire.ReasonExited, nodewire.ReasonRebooted, nodewire.ReasonPowerOff, nodewire.ReasonFenced})
					}
				}
			})
			return nil
		}},
		{"a report of volumes", func() error {
			w.say(t, node(), func(rep *nodewire.Report) {
				for i := range rep.Volumes {
					rep.Volumes[i].State = anyOf([]string{nodewire.VolumePresent, nodewire.VolumeGone, nodewire.VolumeFailed})
				}
			})
			return nil
		}},
		{"a report of cards", func() error {
			id := node()
			c := address(id)
			switch r.IntN(3) {
			case 0:
				c.Mode = anyOf([]string{"whole", "mig"})
			case 1:
				c.UUID = anyOf([]string{"GPU-other-", "GPU-same-"}) + c.PCIAddress
			default:
				c.State = anyOf([]string{"ready", "quarantined"})
			}
			w.say(t, id, func(*nodewire.Report) {})
			return nil
		}},
		{"a card's check", func() error { _, err := w.CardRecover(ctx, w.admin, address(node()).UUID); return err }},
		{"a card's fault", func() error {
			if r.IntN(4) > 0 {
				return nil
			}
			_, err := w.CardFault(ctx, w.admin, address(node()).UUID, 79)
			return err
		}},
		{"an orphan's end", func() error {
			id := node()
			w.say(t, id, func(rep *nodewire.Report) {
				if r.IntN(2) == 0 {
					rep.Orphans = []nodewire.Orphan{{ID: "stray", Driver: "fake", What: "guest"}}
				}
			})
			w.look(t)
			return w.OrphanRemove(ctx, w.admin, id.String(), "stray")
		}},
		{"a silent node's fence", func() error {
			if r.IntN(4) > 0 {
				return nil
			}
			id := node()
			w.exec(t, `UPDATE node SET last_seen_at = now() - interval '20 minutes', tried_at = NULL WHERE id = $1`, id)
			if err := live(ctx); err != nil || r.IntN(2) == 0 {
				return err
			}
			_, err := w.NodeFence(ctx, w.admin, id.String())
			return err
		}},
		{"a restore", func() error {
			if r.IntN(10) > 0 {
				return nil
			}
			w.exec(t, `UPDATE cloud_state SET restored_at = clock_timestamp()`)
			w.exec(t, `UPDATE node SET generation = generation + 1`)
			return nil
		}},
		{"the scheduler", func() error { return schedule(ctx) }},
		{"the lifecycle", func() error { return live(ctx) }},
	}
	w.do(t, acts[0].what, acts[0].do)
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
		a := acts[r.IntN(len(acts))]
		if r.IntN(3) == 0 { // the loops do most
			a = acts[len(acts)-1-r.IntN(2)]
		}
		w.do(t, a.what, a.do)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("seed %d: nodes were told something else %d times: %v", seed, w.others, w.after)
	if w.others < 20 {
		t.Errorf("only %d times was a node told something else", w.others)
	}
}

// TestANodeIsToldThatItNoLongerHasToMakeADisk, which is made elsewhere now.
func TestANodeIsToldThatItNoLongerHasToMakeADisk(t *testing.T) {
	t.Parallel()
	w := newTeller(t)
	schedule, live := w.loops(t)
	place := func() (on cloud.NodeID) {
		t.Helper()
		for _, f := range []func(context.Context) error{live, schedule} {
			must(t, f(t.Context()))
		}
		for _, id := range w.nodes {
			if len(w.wanted(t, id).Instances) > 0 {
				return id
			}
		}
		t.Fatal("it was placed nowhere")
		return on
	}
	w.doing = "its start"
	if _, err := w.InstanceCreate(t.Context(), w.admin, "default", vm("moves")); err != nil {
		t.Fatal(err)
	}
	first := place()
	w.doing = "its failure"
	w.say(t, first, func(r *nodewire.Report) {
		r.Instances[0].State, r.Volumes[0].State = nodewire.GuestFailed, nodewire.VolumeFailed
	})
	must(t, live(t.Context()))
	if _, err := w.NodeDrain(t.Context(), w.admin, first.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.InstanceStart(t.Context(), w.admin, "default", "moves", app.StartInput{}, 0); err != nil {
		t.Fatal(err)
	}
	before := w.wanted(t, first)
	w.doing = "its start elsewhere"
	if second := place(); second == first {
		t.Fatal("it was placed on a drained node")
	}
	after := w.wanted(t, first)
	if len(before.Volumes) != 1 || len(after.Volumes) != 0 || after.Generation != before.Generation+1 {
		t.Errorf("%d volumes of generation %d, then %d of %d", len(before.Volumes), before.Generation, len(after.Volumes), after.Generation)
	}
}

package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// killedHere is how a test's agent dies.
type killedHere struct{}

// fleet is what an agent does on one host, whatever kills it: guests that outlive
// it, and its own memory of what they are to have.
type fleet struct {
	*world
	guests  map[string]*guest
	wishes  map[string]nodewire.Card
	recover int64
	epochs  map[string]int64
	first   string // drivers, overrides and vGPU types as they were at the start
	kills   int
	ran     int             // guests that had what they asked for
	again   int             // kills in the life after a kill
	pending int             // kills that left a card's mode to come with a reset
	turned  map[string]bool // cards that are repartitioned
}

type guest struct {
	want     device.Request
	grants   []device.Grant
	attached bool
	ending   bool
}

// place is something that a guest can ask for: the mode that its cards have to be
// in, and where.
type place struct {
	cards   []string
	mode    string // whole, vgpu, mig, shared
	kind    string
	profile string
	start   int
	end     int
}

type scene struct {
	name, tree string
	driver     bool
	slices     bool              // a vGPU driver, whose vGPUs MIG slices can back
	wishes     []nodewire.Card   // at the start
	turns      [][]nodewire.Card // repartitions
	places     []place
}

var scenes = []scene{
	{name: "four functions", tree: "workstation", places: []place{{cards: quadro[:1], mode: "whole", kind: "vm"}}},
	{name: "a bundle", tree: "shared-gpus", places: []place{{cards: []string{"0000:01:00.0", "0000:02:00.0"}, mode: "whole", kind: "vm"}}},
	{name: "no reset, and mediated devices", tree: "lab", wishes: []nodewire.Card{{PCIAddress: mtty, Mode: "vgpu", VGPUType: "mtty-2"}},
		places: []place{{cards: []string{"0000:00:02.0"}, mode: "whole", kind: "vm"}, {cards: []string{"0000:00:03.0", "0000:00:04.0"}, mode: "whole", kind: "vm"},
			{cards: []string{mtty}, mode: "vgpu", kind: "vm", profile: "vgpu", start: 3, end: 4}, {cards: []string{mtty}, mode: "vgpu", kind: "vm", profile: "vgpu", start: 7, end: 8}}},
	{name: "virtual functions", tree: "a100-vgpu", wishes: []nodewire.Card{{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"}}, turns: turns,
		places: append(cuts, place{cards: []string{parted}, mode: "vgpu", kind: "vm", profile: "vgpu", start: 0, end: 1}, place{cards: []string{parted}, mode: "vgpu", kind: "vm", profile: "vgpu", start: 1, end: 2})},
	{name: "mediated on virtual functions", tree: "a100-mdev", wishes: []nodewire.Card{{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"}}, turns: turns,
		places: append(cuts, place{cards: []string{parted}, mode: "vgpu", kind: "vm", profile: "vgpu", start: 0, end: 1}, place{cards: []string{parted}, mode: "vgpu", kind: "vm", profile: "vgpu", start: 1, end: 2})},
	{name: "MIG", tree: "a100", driver: true, turns: [][]nodewire.Card{
		{{PCIAddress: other, Mode: "mig"}}, {{PCIAddress: other, Mode: "whole"}},
		{{PCIAddress: other, Mode: "mig", Layout: []nodewire.Place{{Profile: "3g", SlotStart: 0, SlotEnd: 4}, {Profile: "1g", SlotStart: 4, SlotEnd: 5}}}}},
		places: []place{{cards: []string{other}, mode: "whole", kind: "vm"}, {cards: []string{other}, mode: "whole", kind: "container"}, {cards: []string{parted}, mode: "whole", kind: "vm"},
			{cards: []string{other}, mode: "mig", kind: "container", profile: "3g", start: 0, end: 4}, {cards: []string{other}, mode: "mig", kind: "container", profile: "1g", start: 4, end: 5}}},
	{name: "MIG whose modes wait for a reset", tree: "a100", driver: true, turns: [][]nodewire.Card{
		{{PCIAddress: parted, Mode: "mig"}}, {{PCIAddress: parted, Mode: "whole"}},
		{{PCIAddress: parted, Mode: "mig", Layout: []nodewire.Place{{Profile: "2g", SlotStart: 0, SlotEnd: 2}, {Profile: "1g", SlotStart: 6, SlotEnd: 7}}}}},
		places: []place{{cards: []string{parted}, mode: "whole", kind: "vm"}, {cards: []string{parted}, mode: "whole", kind: "container"},
			{cards: []string{parted}, mode: "mig", kind: "container", profile: "2g", start: 0, end: 2}, {cards: []string{parted}, mode: "mig", kind: "container", profile: "1g", start: 6, end: 7}}},
	{name: "shares", tree: "a100", driver: true, wishes: []nodewire.Card{{PCIAddress: other, Mode: "shared", Shares: 4}},
		turns:  [][]nodewire.Card{{{PCIAddress: other, Mode: "shared", Shares: 4}}, {{PCIAddress: other, Mode: "whole"}}, {{PCIAddress: other, Mode: "shared", Shares: 2}}},
		places: []place{share(other, 0), share(other, 1), share(other, 3), {cards: []string{other}, mode: "whole", kind: "container"}, {cards: []string{other}, mode: "whole", kind: "vm"}}},
	{name: "one card in every mode in turn", tree: "a100", driver: true, turns: [][]nodewire.Card{
		{{PCIAddress: parted, Mode: "mig"}}, {{PCIAddress: parted, Mode: "shared", Shares: 3}}, {{PCIAddress: parted, Mode: "whole"}}},
		places: []place{{cards: []string{parted}, mode: "whole", kind: "vm"}, share(parted, 0), share(parted, 2),
			{cards: []string{parted}, mode: "mig", kind: "container", profile: "1g", start: 0, end: 1}, {cards: []string{parted, other}, mode: "whole", kind: "vm"}}},
}

func share(card string, n int) place {
	return place{cards: []string{card}, mode: "shared", kind: "container", profile: "share", start: n, end: n + 1}
}

const other = "0000:65:00.0"

var (
	turns = [][]nodewire.Card{{{PCIAddress: other, Mode: "vgpu", VGPUType: "GRID A100D-10C"}}, {{PCIAddress: other, Mode: "whole"}}}
	cuts  = slices.Clip([]place{{cards: []string{other}, mode: "whole", kind: "vm"}, {cards: []string{other}, mode: "vgpu", kind: "vm", profile: "vgpu", start: 4, end: 5}})
)

func newFleet(t fataler, s scene) *fleet {
	var change []func(*world)
	if s.driver {
		change = append(change, twoA100())
	}
	if s.slices {
		change = append(change, vgpuHost())
	}
	f := &fleet{world: newWorld(t, s.tree, change...), guests: map[string]*guest{}, wishes: map[string]nodewire.Card{}, epochs: map[string]int64{}, turned: map[string]bool{}}
	for _, turn := range s.turns {
		for _, c := range turn {
			f.turned[c.PCIAddress] = true
		}
	}
	f.inventory()
	f.first = f.look()
	for _, c := range s.wishes {
		f.wishes[c.PCIAddress] = c
	}
	f.wish(slices.Collect(maps.Values(f.wishes))...)
	return f
}

// look is all of the host that a guest's stay must leave as it was.
func (f *fleet) look() string {
	var out []string
	inv, err := pci.Scan(f.m, f.cfg.Options)
	if err != nil {
		f.tb.Fatal(err)
	}
	for _, fn := range inv.Functions {
		if fn.PF == nil {
			out = append(out, fmt.Sprintf("%s %q %q", fn.Address, fn.Driver, fn.Override))
		}
	}
	for _, c := range inv.Cards {
		for _, p := range c.Parents {
			if p.Current != "" {
				out = append(out, p.Name+" "+p.Current)
			}
		}
	}
	for _, m := range inv.Mediated {
		out = append(out, m.UUID)
	}
	return strings.Join(out, "\n")
}

// dies runs a piece of the agent that is killed at its n-th change; 0: it isn't.
func (f *fleet) dies(n int, piece func()) (killed bool) {
	if n > 0 {
		f.kill = func() {
			if n--; n == 0 {
				panic(killedHere{})
			}
		}
	}
	defer func() {
		f.kill = nil
		if r := recover(); r != nil {
			if _, ours := r.(killedHere); !ours {
				panic(r)
			}
			killed = true
			f.kills++
			f.lookForPending()
		}
	}()
	piece()
	return false
}

// lookForPending counts kills that came between the asking for a mode and the
// reset that it waits for.
func (f *fleet) lookForPending() {
	d, ok := f.cfg.Driver.(boundDriver)
	if !ok {
		return
	}
	f.kill = nil
	list, err := d.Cards(context.Background())
	if err != nil {
		f.tb.Fatal(err)
	}
	if slices.ContainsFunc(list, func(c host.DriverCard) bool { return c.MIG.Current != c.MIG.Pending }) {
		f.pending++
	}
}

// restart is the agent's next life, which may be killed as well.
func (f *fleet) restart(at int) {
	f.tb.Helper()
	for f.dies(at, f.open) {
		at = 0
		f.again++
	}
	f.check()
}

func (f *fleet) start(id string, p place, at int) {
	f.tb.Helper()
	if f.guests[id] != nil {
		return
	}
	f.epochs[id]++
	var devices []nodewire.Device
	for _, c := range p.cards {
		d := nodewire.Device{GPUUUID: f.mustGPU(c).UUID, Mode: p.mode, Profile: p.profile, SlotStart: p.start, SlotEnd: p.end}
		if p.mode == "whole" {
			d.Profile, d.SlotEnd = "whole", 8
		}
		devices = append(devices, d)
	}
	g := &guest{want: device.Request{InstanceID: id, Epoch: f.epochs[id], Kind: p.kind, Devices: devices}}
	var err error
	if f.dies(at, func() { g.grants, err = f.b.Prepare(context.Background(), g.want) }) {
		f.restart(0)
		// Its assignment may still stand, or not.
		if at%2 == 0 {
			g.grants, err = f.b.Prepare(context.Background(), g.want)
		} else {
			f.guests[id] = g
			f.stop(id, 0)
			return
		}
	}
	if err != nil {
		if rel := f.b.Release(context.Background(), id, g.want.Epoch); rel != nil {
			f.tb.Fatalf("a start that failed (%v) can't be taken back: %v", err, rel)
		}
		f.check()
		return
	}
	f.guests[id] = g
	f.attach(id, g)
	f.check()
}

// attach is the guest itself: it opens what it was given.
func (f *fleet) attach(id string, g *guest) {
	f.tb.Helper()
	var functions []pci.Address
	for _, grant := range g.grants {
		for _, fn := range grant.Pass {
			functions = append(functions, address(f.tb, fn.Address))
		}
		if grant.Virtual != nil {
			functions = append(functions, address(f.tb, grant.Virtual.Address))
		}
		if grant.Mediated != "" {
			if err := f.m.AttachMediated(id, grant.Mediated); err != nil {
				f.tb.Fatalf("%s can't open its device: %v", id, err)
			}
		}
	}
	if err := f.m.Attach(id, functions...); err != nil {
		f.tb.Fatalf("%s can't open its devices: %v", id, err)
	}
	g.attached = true
	f.ran++
}

func (f *fleet) stop(id string, at int) {
	f.tb.Helper()
	g := f.guests[id]
	if g == nil {
		return
	}
	f.m.Detach(id)
	g.attached, g.ending = false, true
	var err error
	if f.dies(at, func() { err = f.b.Release(context.Background(), id, g.want.Epoch) }) {
		f.restart(at / 2)
		err = f.b.Release(context.Background(), id, g.want.Epoch)
	}
	if err != nil {
		f.tb.Fatalf("release of %s: %v", id, err)
	}
	delete(f.guests, id)
	held, err := f.b.Held(context.Background())
	if err != nil || len(held[id]) > 0 {
		f.tb.Fatalf("%s is released and holds %v (%v)", id, held[id], err)
	}
	f.check()
}

func (f *fleet) turn(cards []nodewire.Card, at int) {
	f.tb.Helper()
	for _, c := range cards {
		f.wishes[c.PCIAddress] = c
	}
	all := slices.Collect(maps.Values(f.wishes))
	if f.dies(at, func() { f.wish(all...) }) {
		f.restart(at / 3)
		f.wish(all...)
	}
	f.check()
}

// pardon is an operator's word for every card that waits for one.
func (f *fleet) pardon(at int) {
	f.tb.Helper()
	f.recover++
	for _, g := range f.inventory().GPUs {
		if g.State == nodewire.GPUQuarantined {
			w, known := f.wishes[g.PCIAddress]
			if !known {
				w = nodewire.Card{PCIAddress: g.PCIAddress, Mode: g.Mode}
			}
			w.Recover = f.recover
			f.wishes[g.PCIAddress] = w
		}
	}
	f.turn(nil, at)
}

// check holds at every moment at which an agent lives.
func (f *fleet) check() {
	f.tb.Helper()
	held, err := f.b.Held(context.Background())
	if err != nil {
		f.tb.Fatal(err)
	}
	var state recorded.State
	if err := json.Unmarshal([]byte(f.m.Dump()), &state); err != nil {
		f.tb.Fatal(err)
	}
	for a, d := range state.Devices {
		if d.Owner != "" && len(held[d.Owner]) == 0 {
			f.tb.Fatalf("%s is open in %s and free here", a, d.Owner)
		}
	}
	for id, d := range state.Mediated {
		if d.Owner != "" && len(held[d.Owner]) == 0 {
			f.tb.Fatalf("mediated device %s is open in %s and free here", id, d.Owner)
		}
	}
	owners := map[string]string{}
	for id, devices := range held {
		for _, d := range devices {
			for slot := d.SlotStart; slot < d.SlotEnd; slot++ {
				key := fmt.Sprint(d.GPUUUID, slot)
				if owners[key] != "" {
					f.tb.Fatalf("%s has two owners: %s and %s", key, owners[key], id)
				}
				owners[key] = id
			}
		}
	}
	for id, g := range f.guests {
		if !g.attached {
			continue
		}
		if !slices.Equal(held[id], g.want.Devices) {
			f.tb.Fatalf("%s runs with %v and holds %v", id, g.want.Devices, held[id])
		}
		again, err := f.b.Prepare(context.Background(), g.want)
		if err != nil {
			f.tb.Fatalf("%s runs, and its devices can't be had again: %v", id, err)
		}
		if len(again) != len(g.grants) || again[0].Mediated != g.grants[0].Mediated || len(again[0].Pass) != len(g.grants[0].Pass) {
			f.tb.Fatalf("%s runs with %+v and would get %+v", id, g.grants, again)
		}
		thief := g.want
		thief.InstanceID = "inst-thief"
		if _, err := f.b.Prepare(context.Background(), thief); err == nil {
			f.tb.Fatalf("what %s runs with was given away again", id)
		}
	}
}

// end takes everything back, and looks whether the host is as it was.
func (f *fleet) end() {
	f.tb.Helper()
	for _, id := range slices.Sorted(maps.Keys(f.guests)) {
		f.stop(id, 0)
	}
	f.pardon(0)
	back := slices.Collect(maps.Values(f.wishes))
	for i := range back {
		if f.turned[back[i].PCIAddress] {
			back[i].Mode, back[i].VGPUType, back[i].Layout, back[i].Shares = "whole", "", nil, 0
		}
	}
	f.turn(back, 0)
	for _, g := range f.inventory().GPUs {
		if g.State != nodewire.GPUReady {
			f.tb.Errorf("%s ends %s: %s", g.PCIAddress, g.State, g.Reason)
		}
		if f.turned[g.PCIAddress] && (g.Mode != "whole" || g.Wish != "") {
			f.tb.Errorf("%s ends in mode %s: %s", g.PCIAddress, g.Mode, g.Wish)
		}
	}
	if now := f.look(); now != f.first {
		f.tb.Errorf("the host ends as\n%s\nand was\n%s", now, f.first)
	}
	f.cdi.mu.Lock()
	defer f.cdi.mu.Unlock()
	if len(f.cdi.of) > 0 {
		f.tb.Errorf("left for containers: %v", f.cdi.of)
	}
}

// kindOfStep names what step does.
func kindOfStep(s scene, what int) string {
	switch {
	case what < 4:
		return "start"
	case what < 7:
		return "stop"
	case (what == 7 || what > 9) && len(s.turns) > 0:
		return "repartition"
	case what == 8:
		return "recovery that an operator asked for"
	}
	return "restart"
}

func counted(of map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%d in a %s", of[k], k))
	}
	return strings.Join(out, ", ")
}

// step does one thing, killed at a change of it.
func (f *fleet) step(s scene, what, which, at int) {
	f.tb.Helper()
	p := s.places[which%len(s.places)]
	id := fmt.Sprintf("inst-%d", which%len(s.places))
	switch {
	case what < 4:
		f.start(id, p, at)
	case what < 7:
		f.stop(id, at)
	case (what == 7 || what > 9) && len(s.turns) > 0:
		f.turn(s.turns[which%len(s.turns)], at)
	case what == 8:
		f.pardon(at)
	default:
		f.restart(at)
	}
}

// TestTwoHundredKills (C15 a to d): at random changes of starts, stops and
// repartitions, in the middle of recovery too.
func TestTwoHundredKills(t *testing.T) {
	t.Parallel()
	const wanted = 200
	total, steps, ran, pending := 0, 0, 0, 0
	at := map[string]int{}
	random := rand.New(rand.NewPCG(4, 15))
	for i, s := range scenes {
		f := newFleet(t, s)
		share := (wanted*(i+1))/len(scenes) - (wanted*i)/len(scenes)
		for f.kills < share {
			steps++
			before, again, what := f.kills, f.again, random.IntN(13)
			f.step(s, what, random.IntN(60), 1+random.IntN(24))
			at["restart"] += f.again - again
			at[kindOfStep(s, what)] += f.kills - before - (f.again - again)
			if steps > 20_000 {
				t.Fatalf("%s: only %d kills", s.name, f.kills)
			}
		}
		f.end()
		total, ran, pending = total+f.kills, ran+f.ran, pending+f.pending
		if t.Failed() {
			t.Fatalf("in the scene of %s", s.name)
		}
	}
	if pending == 0 {
		t.Error("none left a mode pending")
	}
	t.Logf("%d kills (%s; %d left a MIG mode pending) in %d steps on %d hosts, %d guests ran: 0 double owners, 0 devices free while held, every host as it was",
		total, counted(at), pending, steps, len(scenes), ran)
}

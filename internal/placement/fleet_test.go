package placement

import (
	"slices"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/fairshare"
	"github.com/tenon-cloud/tenon/internal/queue"
)

// The queue over real cards: a gang is whole or waits, what is short goes before a
// start that is reserved for a larger one and delays it not, and spot work makes room.
func TestTheQueueOverABoard(t *testing.T) {
	t.Parallel()
	card := h100(cloud.ModeWhole)
	b := NewBoard(Snapshot{Nodes: []Node{newNode(1, card, card), newNode(2, card, card)}}, Policy{})
	one, pair := b.Class(whole(1, 1)), b.Class(whole(2, 2))
	work := func(id string, class, members int, gpus int64, lasts time.Duration) queue.Workload {
		return queue.Workload{ID: id, Queue: 1, Class: class, Min: members, Max: members, Resources: []int64{gpus}, Expected: lasts, Preemptible: true}
	}
	decide := func(s queue.State) queue.Plan {
		t.Helper()
		tree, err := fairshare.New([]fairshare.Node{{Name: "cloud", Parent: fairshare.None}, {Name: "acme", Parent: 0, Weight: 1}}, []int64{4})
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := queue.Decide(s, tree, b, queue.Policy{Reservations: 5})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	starts := func(p queue.Plan) (out []string) {
		for _, s := range p.Start {
			out = append(out, s.ID)
		}
		slices.Sort(out)
		return out
	}
	// Something runs on node 1 for an hour. A gang of two pairs waits for it; a short
	// one may run beside it meanwhile, and a long one on the gang's cards may not.
	held, _ := b.Place(one, 1, 1)
	long := work("long", one, 1, 1, 2*time.Hour)
	long.QueuedAt = 3
	short := work("short", one, 1, 1, 10*time.Minute)
	short.QueuedAt = 2
	gang := work("gang", pair, 2, 2, time.Hour)
	gang.QueuedAt = 1
	running := queue.Running{Workload: work("first", one, 1, 1, time.Hour), Members: 1, Booking: held}
	p := decide(queue.State{Now: time.Minute, Running: []queue.Running{running}, Waiting: []queue.Workload{gang, short, long}})
	if got := starts(p); !slices.Equal(got, []string{"short"}) {
		t.Fatalf("%v start beside a gang that waits", got)
	}
	if i := slices.IndexFunc(p.Reserve, func(r queue.Reserve) bool { return r.ID == "gang" }); i < 0 || p.Reserve[i].At != time.Hour {
		t.Errorf("reserved: %+v", p.Reserve)
	}
	b.Release(held)
	b.Release(p.Start[0].Booking)
	p = decide(queue.State{Now: time.Hour, Waiting: []queue.Workload{gang, long}})
	if got := starts(p); !slices.Equal(got, []string{"gang"}) || len(b.Members(p.Start[0].Booking)) != 2 {
		t.Fatalf("%v start on an empty board", got)
	}
	b.Release(p.Start[0].Booking)
	// Spot work has all; a gang takes what it needs of it and no more.
	var spots []queue.Running
	for _, id := range []string{"a", "b", "c", "d"} {
		w := work(id, one, 1, 1, 0)
		w.Spot = true
		booked, _ := b.Place(one, 1, 1)
		spots = append(spots, queue.Running{Workload: w, Members: 1, Booking: booked})
	}
	p = decide(queue.State{Now: 2 * time.Hour, Running: spots, Waiting: []queue.Workload{work("pair", pair, 1, 2, time.Hour)}})
	if got := starts(p); !slices.Equal(got, []string{"pair"}) || len(p.Preempt) != 2 {
		t.Errorf("%v start, %+v make room", got, p.Preempt)
	}
}

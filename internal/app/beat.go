package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	beatGather = 50 * time.Millisecond // reports that say nothing new share a commit
	beatBatch  = 500
	beatWithin = 10 * time.Second
	// reportWhole is how often a report is kept whole although it says nothing new:
	// whatever else came to differ is put right by then.
	reportWhole = 30 * time.Second
)

// beats gather the reports that say what the node's last one said: of a fleet at
// rest that is nearly all. They are noted in one statement, which the database
// refuses for a node of which it holds something else by now.
type beats struct {
	mu      sync.Mutex
	waiting []*beat
	whole   map[cloud.NodeID]whole
}

// whole is the last report of a node that this process kept whole.
type whole struct {
	digest [sha256.Size]byte
	at     time.Time
}

type beat struct {
	postgres.Beat
	done chan beaten
}

type beaten struct {
	noted      bool
	era        string
	generation int64
}

// reportDigest stands for everything that a report says but for what always
// moves: its number and its durations. ok is false for one that must be kept
// whole.
func reportDigest(r nodewire.Report) (digest [sha256.Size]byte, ok bool) {
	r.Sequence, r.Instances, r.Incidents = 0, slices.Clone(r.Instances), ageless(r.Incidents)
	for i := range r.Instances {
		in := &r.Instances[i]
		if in.Activity != nil { // how long it has been quiet is news each time
			return digest, false
		}
		in.StateForSeconds, in.RanForSeconds = 0, 0
	}
	raw, err := json.Marshal(r)
	return sha256.Sum256(raw), err == nil
}

// noted takes a report that says nothing new; false: it must be kept whole.
func (a *App) noted(ctx context.Context, id cloud.NodeID, digest [sha256.Size]byte) (beaten, bool) {
	a.beats.mu.Lock()
	last, known := a.beats.whole[id]
	if !known || last.digest != digest || a.now().Sub(last.at) > reportWhole {
		a.beats.mu.Unlock()
		return beaten{}, false
	}
	b := &beat{Beat: postgres.Beat{NodeID: id, Digest: digest[:]}, done: make(chan beaten, 1)}
	a.beats.waiting = append(a.beats.waiting, b)
	first := len(a.beats.waiting) == 1
	a.beats.mu.Unlock()
	if first {
		time.AfterFunc(beatGather, func() { a.beatAll(context.WithoutCancel(ctx)) })
	}
	select {
	case out := <-b.done:
		return out, out.noted
	case <-ctx.Done():
		return beaten{}, false
	}
}

func (a *App) beatAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatWithin)
	defer cancel()
	a.beats.mu.Lock()
	all := a.beats.waiting
	a.beats.waiting = nil
	a.beats.mu.Unlock()
	for batch := range slices.Chunk(all, beatBatch) {
		list := make([]postgres.Beat, len(batch))
		for i, b := range batch {
			list[i] = b.Beat
		}
		var era string
		var generations map[cloud.NodeID]int64
		err := a.db.InSystem(ctx, func(tx *postgres.Tx) (err error) {
			era, generations, err = postgres.NodesBeat(ctx, tx, list)
			return err
		})
		if err != nil { // each tries by itself, and answers for itself
			a.log.WarnContext(ctx, "reports without news could not be noted together", "reports", len(list), "error", err)
		}
		for _, b := range batch {
			generation, noted := generations[b.NodeID]
			b.done <- beaten{noted: noted && err == nil, era: era, generation: generation}
		}
	}
}

// kept remembers that the database holds all of a report.
func (a *App) kept(id cloud.NodeID, digest [sha256.Size]byte, at time.Time) {
	a.beats.mu.Lock()
	defer a.beats.mu.Unlock()
	if a.beats.whole == nil {
		a.beats.whole = map[cloud.NodeID]whole{}
	}
	a.beats.whole[id] = whole{digest: digest, at: at}
}

// NodeGenerations is what each of some nodes should hold.
func (a *App) NodeGenerations(ctx context.Context, nodes []cloud.NodeID) (map[cloud.NodeID]nodewire.Version, error) {
	out := make(map[cloud.NodeID]nodewire.Version, len(nodes))
	err := a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		era, generations, err := postgres.NodeGenerations(ctx, tx, nodes)
		for id, g := range generations {
			out[id] = nodewire.Version{Era: era, Generation: g}
		}
		return err
	})
	return out, err
}

// NodeCertificatesLive gives those of some certificates that are still good, with
// their nodes.
func (a *App) NodeCertificatesLive(ctx context.Context, serials []string) (live map[string]cloud.NodeID, err error) {
	err = a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		live, err = postgres.CertificatesLive(ctx, tx, serials)
		return err
	})
	return live, err
}

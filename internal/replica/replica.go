package replica

import (
	"context"
	"log/slog"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// Config is what a Replica needs.
type Config struct {
	App     *app.App
	Keys    *authn.Keys
	Pool    *tunnel.Pool // with its Notify set; New adds to it, and sets Remote
	ID      string       // differs between processes
	Address string       // of the door, as the others reach it; empty: there is none
	Version string
	Log     *slog.Logger
	Timing  Timing
}

// Timing is how often; zeros take the defaults.
type Timing struct {
	Beat   time.Duration // says that it lives: 1 s
	Stale  time.Duration // another that was not heard of for so long isn't asked: 5 s
	Forget time.Duration // and after so long it is gone: 30 s
	Dial   time.Duration // to another's door: 2 s
}

// Replica is this process among the others.
type Replica struct {
	cfg     Config
	log     *slog.Logger
	began   time.Time
	changed chan struct{} // a node came or went
}

// New makes it and joins it to the pool; Run and Serve start it.
func New(cfg Config) *Replica {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&cfg.Timing.Beat, time.Second)
	set(&cfg.Timing.Stale, app.ReplicaStale)
	set(&cfg.Timing.Forget, 30*time.Second)
	set(&cfg.Timing.Dial, 2*time.Second)
	r := &Replica{cfg: cfg, log: cfg.Log, began: time.Now(), changed: make(chan struct{}, 1)}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	before := cfg.Pool.Notify
	cfg.Pool.Notify = func(node string, connected bool) {
		if before != nil {
			before(node, connected)
		}
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	cfg.Pool.Remote = r.dial
	return r
}

// wholeEvery is after how many beats what is connected is written again, in case
// a node was forgotten and came back.
const wholeEvery = 15

// Run says that this process lives, and what is connected to it, until ctx ends;
// then it says that too. It is level-triggered: any number of changes are one
// write of what is so.
func (r *Replica) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Timing.Beat)
	defer tick.Stop()
	whole := true
	for beat := 1; ; beat++ {
		fresh, err := r.beat(ctx, whole || beat%wholeEvery == 0)
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "say that this replica lives", "error", err)
		}
		whole = err != nil || fresh && !whole
		if !whole {
			select {
			case <-ctx.Done():
			case <-r.changed:
				whole = true
			case <-tick.C:
			}
		} else {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := r.cfg.App.ReplicaEnd(ending, r.cfg.ID); err != nil {
		r.log.WarnContext(ending, "say that this replica ends", "error", err)
	}
	return nil
}

func (r *Replica) beat(ctx context.Context, whole bool) (fresh bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var nodes *[]cloud.NodeID
	if whole {
		list := r.nodes()
		nodes = &list
	}
	return r.cfg.App.ReplicaBeat(ctx, app.Replica{ID: r.cfg.ID, Address: r.cfg.Address, Version: r.cfg.Version, StartedAt: r.began}, nodes, r.cfg.Timing.Forget)
}

func (r *Replica) nodes() []cloud.NodeID {
	var out []cloud.NodeID
	for _, text := range r.cfg.Pool.Nodes() {
		var id cloud.NodeID
		if id.UnmarshalText([]byte(text)) == nil {
			out = append(out, id)
		}
	}
	return out
}

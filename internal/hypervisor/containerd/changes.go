package containerd

import (
	"context"
	"time"

	eventtypes "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/typeurl/v2"
)

// resubscribeDelay is short, since an exit that happens while nobody listens is
// only seen at the next look.
const resubscribeDelay = 200 * time.Millisecond

// Changes implements hypervisor.Driver. After the daemon comes back every guest
// is named once, since anything may have happened meanwhile.
func (d *Driver) Changes(ctx context.Context) <-chan string {
	ids := make(chan string, 256)
	go func() {
		defer close(ids)
		for first := true; ctx.Err() == nil; first = false {
			if !first {
				select {
				case <-ctx.Done():
					return
				case <-time.After(resubscribeDelay):
				}
				d.nameAll(ctx, ids)
			}
			d.subscribe(ctx, ids)
		}
	}()
	return ids
}

func (d *Driver) nameAll(ctx context.Context, ids chan<- string) {
	guests, err := d.List(ctx)
	if err != nil {
		return // still down: the next round tries again
	}
	for _, g := range guests {
		send(ids, g.ID)
	}
}

// subscribe passes on events until the stream breaks.
func (d *Driver) subscribe(ctx context.Context, ids chan<- string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, errs := d.client.EventService().Subscribe(ctx, `topic~="/tasks/(exit|oom|start|delete)"`)
	for {
		select {
		case <-errs:
			return
		case <-ctx.Done():
			return
		case e := <-stream:
			if e != nil && e.Namespace == Namespace(d.cfg.CloudID) {
				if id := d.changed(e); id != "" {
					send(ids, id)
				}
			}
		}
	}
}

// changed is the guest of an event, or nothing for a process that Exec made.
func (d *Driver) changed(e *events.Envelope) string {
	v, err := typeurl.UnmarshalAny(e.Event)
	if err != nil {
		return ""
	}
	switch v := v.(type) {
	case *eventtypes.TaskExit:
		if v.ID == v.ContainerID {
			return v.ContainerID
		}
	case *eventtypes.TaskOOM:
		return v.ContainerID
	case *eventtypes.TaskStart:
		return v.ContainerID
	case *eventtypes.TaskDelete:
		if v.ID == "" || v.ID == v.ContainerID {
			return v.ContainerID
		}
	}
	return ""
}

// send never blocks: a hint that finds no room is one of many, and the reader
// looks at everything now and then anyway.
func send(ids chan<- string, id string) {
	select {
	case ids <- id:
	default:
	}
}

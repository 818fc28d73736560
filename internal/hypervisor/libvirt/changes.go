package libvirt

import (
	"context"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// resubscribeDelay is short, since an end that happens while nobody listens is
// only seen at the next look.
const resubscribeDelay = 200 * time.Millisecond

// Changes implements hypervisor.Driver. After the daemon comes back every machine
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
			}
			d.subscribe(ctx, ids, !first)
		}
	}()
	return ids
}

// subscribe passes on events until the line breaks.
func (d *Driver) subscribe(ctx context.Context, ids chan<- string, again bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lv, err := d.conn.get(ctx)
	if err != nil {
		return
	}
	events, err := call(ctx, d.conn, "listen for events", func(lv *golibvirt.Libvirt) (<-chan golibvirt.DomainEventLifecycleMsg, error) {
		return lv.LifecycleEvents(ctx)
	})
	if err != nil {
		return
	}
	if again {
		if guests, err := d.List(ctx); err == nil {
			for _, g := range guests {
				send(ids, g.ID)
			}
		}
	}
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			if id, ours := strings.CutPrefix(e.Dom.Name, domainPrefix(d.cfg.CloudID)); ours {
				send(ids, id)
			}
		case <-lv.Disconnected():
			return
		case <-ctx.Done():
			return
		}
	}
}

// send never blocks: a hint that finds no room is one of many, and the reader
// looks at everything now and then anyway.
func send(ids chan<- string, id string) {
	select {
	case ids <- id:
	default:
	}
}

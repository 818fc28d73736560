package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

const (
	// askAgain is how often the power button is pressed: a system that is still
	// booting does not notice the first time.
	askAgain     = 3 * time.Second
	pollInterval = 50 * time.Millisecond
	killWithin   = 20 * time.Second
)

// Stop implements hypervisor.Driver: the power button, then the plug.
func (d *Driver) Stop(ctx context.Context, id string, grace time.Duration) (hypervisor.Guest, error) {
	h, err := d.lookup(ctx, id)
	if err != nil && !isNoGuest(err) {
		return hypervisor.Guest{ID: id}, err
	}
	if isNoGuest(err) {
		// A process without a domain is one that libvirt lost: it goes as well.
		if err := Kill(d.cfg.CloudID, id, killWithin); err != nil {
			return hypervisor.Guest{ID: id}, err
		}
		g, err := d.find(ctx, id)
		if isNoGuest(err) {
			return hypervisor.Guest{ID: id, State: hypervisor.Exited}, nil
		}
		return g, err
	}
	if h.active() && grace > 0 && golibvirt.DomainState(h.state) == golibvirt.DomainRunning {
		if err := d.askToEnd(ctx, id, h.dom, grace); err != nil {
			return hypervisor.Guest{ID: id}, err
		}
	}
	if err := d.unplug(ctx, id); err != nil {
		return hypervisor.Guest{ID: id}, err
	}
	return d.find(ctx, id)
}

// askToEnd presses the power button until the machine is off or the grace is over.
func (d *Driver) askToEnd(ctx context.Context, id string, dom golibvirt.Domain, grace time.Duration) error {
	limit := time.NewTimer(grace)
	defer limit.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	gone := watchProcess(d.pid(id))
	var asked time.Time
	for {
		if time.Since(asked) >= askAgain {
			asked = time.Now()
			err := do(ctx, d.conn, "press the power button", func(lv *golibvirt.Libvirt) error {
				return lv.DomainShutdownFlags(dom, golibvirt.DomainShutdownAcpiPowerBtn)
			})
			if errors.Is(err, errNoDaemon) || ctx.Err() != nil {
				return err
			}
			if err != nil { // it has ended meanwhile, or will not hear
				return nil //nolint:nilerr // the plug follows
			}
		}
		select {
		case <-gone:
			return d.awaitEnd(ctx, id)
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// watchProcess is closed when the process is gone.
func watchProcess(pid int) <-chan struct{} {
	done := make(chan struct{})
	fd := -1
	if pid != 0 {
		fd, _ = unix.PidfdOpen(pid, 0)
	}
	if fd <= 0 {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		defer func() { _ = unix.Close(fd) }()
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if err == nil || !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return done
}

// awaitEnd lets libvirt find out how a machine ended whose process is gone.
func (d *Driver) awaitEnd(ctx context.Context, id string) error {
	deadline := time.Now().Add(killWithin)
	for {
		h, err := d.lookup(ctx, id)
		if isNoGuest(err) || (err == nil && !h.active()) {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return nil // the plug is pulled next
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollInterval):
		}
	}
}

// unplug returns when no process of the machine is left.
func (d *Driver) unplug(ctx context.Context, id string) error {
	h, err := d.lookup(ctx, id)
	if err != nil && !isNoGuest(err) {
		return err
	}
	if err == nil && h.active() {
		err := do(ctx, d.conn, "end domain", func(lv *golibvirt.Libvirt) error { return lv.DomainDestroyFlags(h.dom, 0) })
		if errors.Is(err, errNoDaemon) || ctx.Err() != nil {
			return err
		}
	}
	if err := Kill(d.cfg.CloudID, id, killWithin); err != nil {
		return err
	}
	if err := d.awaitEnd(ctx, id); err != nil {
		return err
	}
	return d.takeGroups(id)
}

func (d *Driver) undefine(ctx context.Context, dom golibvirt.Domain) error {
	err := do(ctx, d.conn, "undefine domain", func(lv *golibvirt.Libvirt) error {
		return lv.DomainUndefineFlags(dom, golibvirt.DomainUndefineManagedSave|golibvirt.DomainUndefineSnapshotsMetadata|golibvirt.DomainUndefineNvram)
	})
	if golibvirt.IsNotFound(err) {
		return nil
	}
	return err
}

// Remove implements hypervisor.Driver. No part is given back while a process could
// use it, and the record goes last, so that a crash on the way leaves a machine
// that List shows. The volume's folder is its keeper's.
func (d *Driver) Remove(ctx context.Context, id string, keepLogs bool) error {
	if err := d.unplug(ctx, id); err != nil {
		return err
	}
	d.consoles.close(id)
	if h, err := d.lookup(ctx, id); err == nil {
		if err := d.undefine(ctx, h.dom); err != nil {
			return err
		}
	} else if !isNoGuest(err) {
		return err
	}
	if err := d.net.DetachVM(ctx, id); err != nil {
		return err
	}
	for _, path := range []string{d.diskPath(id), d.basePath(id)} {
		if err := unbindFile(path); err != nil {
			return err
		}
	}
	gone := []string{d.seedWork(id), d.machineDir(id)}
	if !keepLogs {
		gone = append(gone, d.logDir(id))
	}
	for _, path := range append(gone, d.recordPath(id)) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove machine folder: %w", err)
		}
	}
	return nil
}

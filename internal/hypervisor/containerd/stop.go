package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/moby/sys/signal"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

const (
	killTimeout  = 20 * time.Second
	pollInterval = 20 * time.Millisecond
)

// Stop implements hypervisor.Driver.
func (d *Driver) Stop(ctx context.Context, id string, grace time.Duration) (hypervisor.Guest, error) {
	c, t, err := d.task(ctx, id)
	if isNoGuest(err) {
		return hypervisor.Guest{ID: id, State: hypervisor.Exited}, nil
	}
	if err != nil {
		return hypervisor.Guest{ID: id}, err
	}
	if t != nil {
		labels, err := c.Labels(ctx)
		if err != nil {
			return hypervisor.Guest{ID: id}, fmt.Errorf("read labels: %w", err)
		}
		if err := d.endTask(ctx, t, stopSignal(labels[labelSignal]), grace); err != nil {
			return hypervisor.Guest{ID: id}, err
		}
	}
	if err := d.waitEmpty(ctx, id); err != nil {
		return hypervisor.Guest{ID: id}, err
	}
	return d.find(ctx, id)
}

func stopSignal(name string) syscall.Signal {
	if s, err := signal.ParseSignal(name); name != "" && err == nil {
		return s
	}
	return syscall.SIGTERM
}

// endTask asks, waits, then kills every process of the guest.
func (d *Driver) endTask(ctx context.Context, t client.Task, ask syscall.Signal, grace time.Duration) error {
	exited, err := t.Wait(ctx)
	if err != nil {
		return fmt.Errorf("wait for task: %w", err)
	}
	if grace > 0 {
		if err := t.Kill(ctx, ask); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("signal task: %w", err)
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case s := <-exited:
			return s.Error()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
	kill, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	if err := t.Kill(kill, syscall.SIGKILL, client.WithKillAll); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("kill task: %w", err)
	}
	select {
	case s := <-exited:
		return s.Error()
	case <-kill.Done():
		return fmt.Errorf("kill task: still there after %s", killTimeout)
	}
}

// waitEmpty proves that no process is left; what lingers is killed.
func (d *Driver) waitEmpty(ctx context.Context, id string) error {
	deadline := time.Now().Add(killTimeout)
	for {
		left := processes(d.cgroupPath(id))
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of %s are still there", len(left), id)
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollInterval):
		}
	}
}

// Remove implements hypervisor.Driver. The order matters: no part is given back
// while a process could use it, and the record goes last, so that a crash on the
// way leaves a guest that List shows.
func (d *Driver) Remove(ctx context.Context, id string, keepLogs bool) error {
	c, t, err := d.task(ctx, id)
	if err != nil && !isNoGuest(err) {
		return err
	}
	if c != nil {
		if err := d.dropTask(ctx, id, t); err != nil {
			return err
		}
	}
	if err := d.waitEmpty(ctx, id); err != nil {
		return err
	}
	d.dropCounters(id)
	if c != nil {
		if err := c.Delete(ctx); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("delete container: %w", err)
		}
	}
	removeCgroup(d.cgroupPath(id))
	if err := d.dropViews(id); err != nil {
		return err
	}
	if err := unmountRootfs(d.rootfsPath(id)); err != nil {
		return err
	}
	network := make(chan error, 1)
	go func() { network <- d.net.Detach(ctx, id) }()
	err = d.disks.remove(ctx, id)
	if err := errors.Join(err, <-network); err != nil {
		return err
	}
	gone := []string{filepath.Join(devicesDir(d.cfg), id), d.guestDir(id)}
	if !keepLogs {
		gone = append(gone, d.logDir(id))
	}
	for _, dir := range gone {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove guest folder: %w", err)
		}
	}
	return nil
}

// dropTask ends and deletes a task. A daemon that was killed while it made one may
// hold a task that it can't show, or wait for a shim that never answers; then the
// shim is ended, which makes the daemon clean up.
func (d *Driver) dropTask(ctx context.Context, id string, t client.Task) error {
	if t != nil {
		asked, cancel := context.WithTimeout(ctx, killTimeout)
		defer cancel()
		_, err := t.Delete(asked, client.WithProcessKill)
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if asked.Err() == nil {
			return fmt.Errorf("delete task: %w", err)
		}
	}
	if err := killShims(ctx, d.cfg.CloudID, id); err != nil {
		return err
	}
	if err := d.waitEmpty(ctx, id); err != nil {
		return err
	}
	asked, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	for {
		_, err := d.client.TaskService().Delete(asked, &tasks.DeleteTaskRequest{ContainerID: id})
		if err = errgrpc.ToNative(err); err == nil || errdefs.IsNotFound(err) {
			return d.dropBundle(id)
		}
		select {
		case <-asked.Done():
			return fmt.Errorf("delete lost task: %w", err)
		case <-time.After(pollInterval): // the daemon is still finding out that the shim is gone
		}
	}
}

// dropBundle removes the folders of a task that a killed daemon began; the next
// attempt would stumble over them.
func (d *Driver) dropBundle(id string) error {
	for _, dir := range []string{filepath.Join(d.cfg.RunDir, "containerd"), filepath.Join(d.cfg.StateDir, "containerd")} {
		if err := removeUnmounted(filepath.Join(dir, "io.containerd.runtime.v2.task", Namespace(d.cfg.CloudID), id)); err != nil {
			return err
		}
	}
	return nil
}

package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// Prepare implements hypervisor.Driver.
func (d *Driver) Prepare(ctx context.Context, spec hypervisor.Spec, progress hypervisor.Progress) error {
	if progress == nil {
		progress = func(string, string, int) {}
	}
	if err := validate(spec); err != nil {
		return err
	}
	if err := d.ensureHost(ctx); err != nil {
		return err
	}
	switch g, err := d.find(ctx, spec.ID); {
	case err == nil && (g.Epoch != spec.Epoch || g.Generation != spec.Generation):
		// An earlier placement or intent: nothing of it may be reused.
		if err := d.Remove(ctx, spec.ID, false); err != nil {
			return fmt.Errorf("remove earlier guest: %w", err)
		}
	case err == nil && g.State != hypervisor.Prepared:
		return nil
	case err != nil && !isNoGuest(err):
		return err
	}
	if _, err := d.images.EnsurePrivate(ctx, spec.Image, spec.Secrets, func(message string, percent int) {
		progress("image", message, percent)
	}); err != nil {
		return err
	}
	ids, err := d.ranges.forOrg(spec.OrgID)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.guestDir(spec.ID), 0o700); err != nil {
		return fmt.Errorf("make guest folder: %w", err)
	}
	if err := d.writeRecord(spec.ID, record{
		Epoch: spec.Epoch, Generation: spec.Generation, Org: spec.OrgID, Devices: spec.Devices, IDs: ids,
	}); err != nil {
		return err
	}
	progress("parts", "disk and network", -1)
	disk := make(chan error, 1)
	go func() { disk <- d.disks.create(ctx, spec.ID, spec.DiskMiB, ids.Base) }()
	_, err = d.net.AttachIn(ctx, spec.ID, ids, spec.Group)
	if err != nil {
		err = &hypervisor.Failure{Reason: nodewire.ReasonNetwork, Message: "the node could not give it an address", Err: err}
	}
	if derr := <-disk; derr != nil {
		if errors.Is(derr, volume.ErrFull) {
			derr = &hypervisor.Failure{Reason: nodewire.ReasonDiskFull, Message: "the node has no room for its disk", Err: derr}
		}
		err = errors.Join(err, derr)
	}
	if err != nil {
		return err
	}
	return d.mountRoot(ctx, spec)
}

func (d *Driver) mountRoot(ctx context.Context, spec hypervisor.Spec) error {
	at, ok := d.net.Lookup(spec.ID)
	if !ok {
		return &hypervisor.Failure{Reason: nodewire.ReasonNetwork, Message: "its network vanished"}
	}
	img, err := d.images.EnsurePrivate(ctx, spec.Image, spec.Secrets, nil)
	if err != nil {
		return err
	}
	return mountRootfs(d.rootfsPath(spec.ID), img.Lower, d.disks.path(spec.ID), at.UserNS)
}

func validate(spec hypervisor.Spec) error {
	switch {
	case spec.ID == "" || strings.ContainsAny(spec.ID, "/.") || spec.OrgID == "":
		return startFailure("the assignment names no instance or organisation", nil)
	case spec.MemoryMiB < 4 || spec.VCPU < 1 || spec.DiskMiB < 16:
		return startFailure(fmt.Sprintf("%d vCPU, %d MiB of memory and %d MiB of disk are too little", spec.VCPU, spec.MemoryMiB, spec.DiskMiB), nil)
	}
	return nil
}

// Start implements hypervisor.Driver. A guest that ended is not started again:
// the caller removes it and prepares a new one.
func (d *Driver) Start(ctx context.Context, spec hypervisor.Spec) (hypervisor.Guest, error) {
	g, err := d.find(ctx, spec.ID)
	if err != nil && !isNoGuest(err) {
		return g, err
	}
	same := err == nil && g.Epoch == spec.Epoch && g.Generation == spec.Generation
	if same && g.State != hypervisor.Prepared {
		return g, nil
	}
	if !same || !isMounted(d.rootfsPath(spec.ID)) {
		if err := d.Prepare(ctx, spec, nil); err != nil {
			return g, err
		}
	}
	if err := d.clearAttempt(ctx, spec.ID); err != nil {
		return g, err
	}
	if err := d.launch(ctx, spec); err != nil {
		cleanup := context.WithoutCancel(ctx)
		return g, errors.Join(err, d.clearAttempt(cleanup, spec.ID))
	}
	return d.find(ctx, spec.ID)
}

// clearAttempt removes a container that a crash or a failure left unstarted.
func (d *Driver) clearAttempt(ctx context.Context, id string) error {
	c, t, err := d.task(ctx, id)
	if isNoGuest(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.dropTask(ctx, id, t); err != nil {
		return err
	}
	if err := c.Delete(ctx); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete unstarted container: %w", err)
	}
	return nil
}

func (d *Driver) launch(ctx context.Context, spec hypervisor.Spec) error {
	img, err := d.images.EnsurePrivate(ctx, spec.Image, spec.Secrets, nil)
	if err != nil {
		return err
	}
	at, ok := d.net.Lookup(spec.ID)
	if !ok {
		return &hypervisor.Failure{Reason: nodewire.ReasonNetwork, Message: "its network vanished"}
	}
	r, ok := d.readRecord(spec.ID)
	if !ok {
		return startFailure("its preparation vanished", nil)
	}
	if !r.StartedAt.IsZero() { // of an attempt that was cleared
		r.StartedAt = time.Time{}
		if err := d.writeRecord(spec.ID, r); err != nil {
			return err
		}
	}
	logs := d.logDir(spec.ID)
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return fmt.Errorf("make log folder: %w", err)
	}
	homes, err := d.mountViews(spec, at, r.IDs)
	defer func() { // runc has bound them; what stays is dropped with the guest
		if derr := d.dropViews(spec.ID); derr != nil {
			d.log.Warn("drop views of volumes", "instance", spec.ID, "error", derr)
		}
	}()
	if err != nil {
		return err
	}
	c, err := d.createContainer(ctx, spec, img, at, r.IDs, homes)
	if err != nil {
		return asStartFailure(err)
	}
	t, err := c.NewTask(ctx, cio.BinaryIO(d.cfg.LogCommand[0], map[string]string{d.cfg.LogCommand[1]: logs}))
	if err != nil {
		return asStartFailure(err)
	}
	if err := ownOutputs(ctx, c, t, r.IDs.Base); err != nil {
		return err
	}
	// Written first: a guest without a task that has this was running.
	r.StartedAt = time.Now()
	if err := d.writeRecord(spec.ID, r); err != nil {
		return err
	}
	if err := t.Start(ctx); err != nil {
		return asStartFailure(err)
	}
	return nil
}

// ownOutputs lets a service open its /dev/stdout again, as many log to it by that
// name: the shim makes the pipes as the host's root.
func ownOutputs(ctx context.Context, c client.Container, t client.Task, base uint32) error {
	spec, err := c.Spec(ctx)
	if err != nil {
		return fmt.Errorf("read container spec: %w", err)
	}
	for _, fd := range []int{1, 2} {
		path := fmt.Sprintf("/proc/%d/fd/%d", t.Pid(), fd)
		if err := os.Chown(path, int(base+spec.Process.User.UID), int(base+spec.Process.User.GID)); err != nil {
			return fmt.Errorf("own output: %w", err)
		}
	}
	return nil
}

func startFailure(message string, err error) error {
	return &hypervisor.Failure{Reason: nodewire.ReasonStart, Message: message, Err: err, Final: true}
}

// asStartFailure keeps what the tenant can act on: runc's own words for a program
// that is missing or can't be run.
func asStartFailure(err error) error {
	var known *hypervisor.Failure
	if errors.As(err, &known) || errdefs.IsUnavailable(err) || errdefs.IsCanceled(err) || errdefs.IsDeadlineExceeded(err) {
		return err
	}
	text := err.Error()
	if at := strings.LastIndex(text, `exec: "`); at >= 0 {
		return startFailure(strings.TrimSuffix(strings.TrimSpace(text[at:]), ": unknown"), err)
	}
	noFolder := strings.Contains(text, "not a directory")
	if _, at, ok := strings.Cut(text, ` to rootfs at "`); ok && (noFolder || strings.Contains(text, "ordinary directory")) {
		at, _, _ = strings.Cut(at, `"`)
		return startFailure(fmt.Sprintf("the image's %.100s is not a folder", at), err)
	}
	if strings.Contains(text, "chdir to cwd") || noFolder {
		return startFailure("the image's working folder can't be entered", err)
	}
	return &hypervisor.Failure{Reason: nodewire.ReasonStart, Message: "the container could not be started", Err: err}
}

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Prepare implements hypervisor.Driver.
func (d *Driver) Prepare(ctx context.Context, spec hypervisor.Spec, progress hypervisor.Progress) error {
	if err := validate(spec); err != nil {
		return err
	}
	if err := d.ensureHost(ctx); err != nil {
		return err
	}
	if g, err := d.find(ctx, spec.ID); err == nil && g.State == hypervisor.Running {
		if g.Epoch == spec.Epoch {
			return nil
		}
		return startFailure("an earlier run of it has not ended yet", nil, false)
	}
	say := func(step, message string, percent int) {
		if progress != nil {
			progress(step, message, percent)
		}
	}
	base, err := d.disks.Ensure(ctx, spec.Image, image.Secrets(spec.Secrets), func(message string, percent int) { say("image", message, percent) })
	if err != nil {
		return err
	}
	say("disk", "making the disk", -1)
	if err := d.ensureDisk(ctx, spec, base); err != nil {
		return err
	}
	r, known := d.readRecord(spec.ID)
	if !known || r.Epoch != spec.Epoch || r.Generation != spec.Generation {
		if err := d.writeRecord(spec.ID, record{Epoch: spec.Epoch, Generation: spec.Generation, Devices: spec.Devices}); err != nil {
			return err
		}
	}
	folder, err := rootFolder(spec)
	if err != nil {
		return err
	}
	if _, err := d.net.AttachVM(ctx, spec.ID, folder); err != nil {
		return &hypervisor.Failure{Reason: nodewire.ReasonNetwork, Message: "the node could not give it an address", Err: err}
	}
	return nil
}

func validate(spec hypervisor.Spec) error {
	switch {
	case spec.ID == "" || strings.ContainsAny(spec.ID, "/., ") || spec.OrgID == "":
		return startFailure("the assignment names no instance or organisation", nil, true)
	case spec.MemoryMiB < 64 || spec.VCPU < 1 || spec.DiskMiB < 64:
		return startFailure(fmt.Sprintf("%d vCPU, %d MiB of memory and %d MiB of disk are too little", spec.VCPU, spec.MemoryMiB, spec.DiskMiB), nil, true)
	case cards(spec.Devices) > lastGPUSlot-firstGPUSlot+1:
		return startFailure(fmt.Sprintf("a virtual machine takes %d GPUs at most", lastGPUSlot-firstGPUSlot+1), nil, true)
	}
	for _, dev := range spec.Devices {
		if dev.Mode != "whole" && dev.Mode != "vgpu" {
			return &hypervisor.Failure{Reason: nodewire.ReasonDevice, Message: "a virtual machine takes whole GPUs and vGPUs", Final: true}
		}
	}
	return nil
}

// Start implements hypervisor.Driver. A machine that ended is not started again:
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
	if err := d.Prepare(ctx, spec, nil); err != nil {
		return g, err
	}
	if err := d.launch(ctx, spec); err != nil {
		return g, err
	}
	return d.find(ctx, spec.ID)
}

// launch defines and starts the domain. A step that fails leaves parts which the
// next attempt takes up or Remove finds.
func (d *Driver) launch(ctx context.Context, spec hypervisor.Spec) error {
	at, ok := d.net.LookupVM(spec.ID)
	if !ok {
		return &hypervisor.Failure{Reason: nodewire.ReasonNetwork, Message: "its network vanished"}
	}
	if err := d.makeMachineDir(ctx, spec); err != nil {
		return err
	}
	if err := d.writeSeed(ctx, spec, at); err != nil {
		return err
	}
	d.mu.Lock()
	v := d.virt
	d.mu.Unlock()
	if err := d.checkGiven(spec.Grants); err != nil {
		return err
	}
	if err := d.giveGroups(spec.ID, spec.Grants); err != nil {
		return err
	}
	text, err := d.domain(spec, at, v)
	if err != nil {
		return err
	}
	dom, err := d.define(ctx, spec.ID, text)
	if err != nil {
		return err
	}
	_, err = callWithin(ctx, d.conn, startTakes(spec), "start domain", func(lv *golibvirt.Libvirt) (golibvirt.Domain, error) {
		return lv.DomainCreateWithFlags(dom, 0)
	})
	if err != nil && !isCode(err, golibvirt.ErrOperationInvalid) { // that one: it runs already
		return asStartFailure(err)
	}
	r, known := d.readRecord(spec.ID)
	if !known {
		return startFailure("its preparation vanished", nil, false)
	}
	if r.StartedAt.IsZero() {
		r.StartedAt = time.Now()
		return d.writeRecord(spec.ID, r)
	}
	return nil
}

// define replaces a domain of the same name that does not run; libvirt refuses a
// second one.
func (d *Driver) define(ctx context.Context, id, text string) (golibvirt.Domain, error) {
	if h, err := d.lookup(ctx, id); err == nil {
		if h.active() {
			return h.dom, nil
		}
		if err := d.undefine(ctx, h.dom); err != nil {
			return h.dom, err
		}
	} else if !isNoGuest(err) {
		return golibvirt.Domain{}, err
	}
	dom, err := callWithin(ctx, d.conn, slowly, "define domain", func(lv *golibvirt.Libvirt) (golibvirt.Domain, error) {
		return lv.DomainDefineXMLFlags(text, golibvirt.DomainDefineValidate)
	})
	if err != nil {
		return dom, asStartFailure(err)
	}
	return dom, nil
}

// makeMachineDir is what QEMU's user sees of the host: its sockets, its disk, the
// image and the settings, each by itself.
func (d *Driver) makeMachineDir(ctx context.Context, spec hypervisor.Spec) error {
	dir := d.machineDir(spec.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make machine folder: %w", err)
	}
	if err := os.Chown(dir, d.owner.uid, d.owner.gid); err != nil {
		return fmt.Errorf("give machine folder to QEMU: %w", err)
	}
	if err := os.MkdirAll(d.logDir(spec.ID), 0o700); err != nil {
		return fmt.Errorf("make log folder: %w", err)
	}
	folder, err := rootFolder(spec)
	if err != nil {
		return err
	}
	disk := filepath.Join(folder, diskFile)
	if err := os.Chown(disk, d.owner.uid, d.owner.gid); err != nil {
		return fmt.Errorf("give disk to QEMU: %w", err)
	}
	base, err := d.disks.Ensure(ctx, spec.Image, image.Secrets(spec.Secrets), nil)
	if err != nil {
		return err
	}
	if err := bindFile(disk, d.diskPath(spec.ID), false); err != nil {
		return err
	}
	return bindFile(base, d.basePath(spec.ID), true)
}

func startFailure(message string, err error, final bool) error {
	return &hypervisor.Failure{Reason: nodewire.ReasonStart, Message: message, Err: err, Final: final}
}

// asStartFailure keeps libvirt's words for the log: they name the host's folders.
func asStartFailure(err error) error {
	if errors.Is(err, errNoDaemon) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if strings.Contains(err.Error(), "cannot set up guest memory") {
		return startFailure("the node has not that much memory", err, false)
	}
	return startFailure("the virtual machine could not be started", err, false)
}

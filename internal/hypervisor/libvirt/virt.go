package libvirt

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	virtKVM = "kvm"
	virtTCG = "tcg"
)

// virt is how machines run here, and why so.
type virt struct {
	mode, why string
}

// probeBoot is a boot sector that enters 64-bit mode with paging, writes a
// marker to the first serial port and stops the machine; probe.asm is its source.
//
//go:embed probe.bin
var probeBoot []byte

const (
	probeMarker = "TENON-KVM-OK"
	probeWithin = 5 * time.Second
)

// chooseVirt trusts no device file: some hosts offer /dev/kvm and hang every
// guest. The answer is kept until the host restarts.
func chooseVirt(ctx context.Context, cfg Config) virt {
	switch cfg.Virt {
	case virtKVM, virtTCG:
		return virt{cfg.Virt, "TENON_VIRT says so"}
	}
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return virt{virtTCG, "emulated: this host has no /dev/kvm"}
	}
	cache := filepath.Join(cfg.RunDir, "vm-probe.json")
	var kept struct{ Mode, Why string }
	if raw, err := os.ReadFile(cache); err == nil && json.Unmarshal(raw, &kept) == nil && kept.Mode != "" {
		return virt{kept.Mode, kept.Why}
	}
	v := probe(ctx, cfg.RunDir)
	kept.Mode, kept.Why = v.mode, v.why
	if raw, err := json.Marshal(kept); err == nil {
		_ = os.WriteFile(cache, raw, 0o600) // lost: it is asked again
	}
	return v
}

func probe(ctx context.Context, dir string) virt {
	owner, err := lookupUser(qemuUser)
	if err == nil {
		err = probeKVM(ctx, dir, owner)
	}
	if err != nil {
		return virt{virtTCG, "emulated: " + err.Error()}
	}
	return virt{virtKVM, "a probe guest ran"}
}

// Probe says how machines would run on this host, and why so, by a guest that it
// runs with a file in a folder that QEMU's user can reach.
func Probe(ctx context.Context, dir string) (mode, why string) {
	if !HasKVM() {
		return virtTCG, "emulated: this host has no /dev/kvm"
	}
	v := probe(ctx, dir)
	return v.mode, v.why
}

// HasKVM reports whether there is a device for it, which says nothing yet of whether
// it works.
func HasKVM() bool {
	_, err := os.Stat("/dev/kvm")
	return !errors.Is(err, fs.ErrNotExist)
}

// HasUser reports whether the user is there as which machines run.
func HasUser() bool {
	_, err := lookupUser(qemuUser)
	return err == nil
}

// probeKVM runs a guest as machines are run: as QEMU's own user.
func probeKVM(ctx context.Context, dir string, owner ids) error {
	f, err := os.CreateTemp(dir, "probe-*.img")
	if err != nil {
		return fmt.Errorf("no probe could be made: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(probeBoot)
	if err == nil {
		err = f.Chown(owner.uid, owner.gid)
	}
	if err == nil {
		err = f.Truncate(1 << 20)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("no probe could be made: %w", err)
	}
	// Whoever asks may be in a hurry; the answer is for all who come after.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "kvm", "-machine", "q35", "-cpu", "host", "-m", "64", "-nodefaults", "-no-user-config",
		"-display", "none", "-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4", "-drive", "format=raw,if=virtio,readonly=on,file="+f.Name())
	cmd.WaitDelay = time.Second
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(owner.uid), Gid: uint32(owner.gid), Groups: owner.more}}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	if strings.Contains(out.String(), probeMarker) {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("/dev/kvm is there, but a probe guest did not run within %s", probeWithin)
	}
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		if line == "" { // it did not come to say anything
			return fmt.Errorf("a probe guest could not be started: %w", err)
		}
		return fmt.Errorf("a probe guest failed: %s", strings.TrimPrefix(line, "qemu-system-x86_64: "))
	}
	return errors.New("a probe guest said nothing")
}

// kvmShut says that there is a KVM which root may open and QEMU's own user may
// not. libvirt finds it, then misses it, and asks QEMU anew at each step.
func kvmShut() bool {
	var st unix.Stat_t
	if unix.Stat("/dev/kvm", &st) != nil {
		return false
	}
	owner, err := lookupUser(qemuUser)
	if err != nil || st.Mode&0o006 == 0o006 {
		return false
	}
	return st.Mode&0o060 != 0o060 || !slices.Contains(owner.more, st.Gid)
}

// hideKVM takes it out of the daemon's own mount namespace.
func hideKVM(cfg Config) error {
	nothing := filepath.Join(cfg.RunDir, "libvirt", "no-kvm")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		return fmt.Errorf("hide KVM: %w", err)
	}
	if err := unix.Mount(nothing, "/dev/kvm", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("hide KVM: %w", err)
	}
	return nil
}

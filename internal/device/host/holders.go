package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// Holders finds the processes that have one of some files open, such as
// /dev/vfio/12: who keeps a card busy.
type Holders func(ctx context.Context, files []string) ([]Process, error)

// ProcHolders reads a /proc.
func ProcHolders(root string) Holders {
	return func(ctx context.Context, files []string) ([]Process, error) {
		entries, err := os.ReadDir(root)
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		var out []Process
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			dir := filepath.Join(root, e.Name())
			fds, err := os.ReadDir(filepath.Join(dir, "fd"))
			if err != nil {
				continue // it ended
			}
			if !slices.ContainsFunc(fds, func(fd fs.DirEntry) bool {
				target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
				return err == nil && slices.Contains(files, target)
			}) {
				continue
			}
			comm, _ := os.ReadFile(filepath.Join(dir, "comm")) // it may have ended
			out = append(out, Process{PID: pid, Command: strings.TrimSpace(string(comm)), GI: -1})
		}
		return out, nil
	}
}

// CgroupOf reads the control groups of a process, by which a container's is known:
// its guest's id is a part of their path, and no guest leaves its own.
type CgroupOf func(pid int) (string, error)

// ProcCgroup reads a /proc.
func ProcCgroup(root string) CgroupOf {
	return func(pid int) (string, error) {
		raw, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "cgroup"))
		return string(raw), err
	}
}

// isOf reports whether a process is a guest's. One that has ended is nobody's.
func (b *Board) isOf(p Process, guest string) (bool, error) {
	text, err := b.cfg.CgroupOf(p.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("see whose %s is: %w", p, err)
	}
	return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("/:\n ", r) }), guest), nil
}

// deviceFiles are the nodes by which a function is used.
func (b *Board) deviceFiles(f pci.Function, minor int) []string {
	var out []string
	switch {
	case f.Driver == vfioDriver:
		return []string{fmt.Sprintf("/dev/vfio/%d", f.Group)}
	case f.Driver == "nvidia" && minor >= 0:
		out = append(out, fmt.Sprintf("/dev/nvidia%d", minor))
	}
	for _, class := range []string{"drm", "sound"} {
		entries, err := fs.ReadDir(b.cfg.Sys, pci.DeviceFile(f.Address, class))
		if err != nil {
			continue // it has none
		}
		for _, e := range entries {
			if class == "drm" {
				out = append(out, "/dev/dri/"+e.Name())
				continue
			}
			card := strings.TrimPrefix(e.Name(), "card")
			out = append(out, "/dev/snd/controlC"+card, "/dev/snd/pcmC"+card+"D0p", "/dev/snd/pcmC"+card+"D3p")
		}
	}
	return out
}

// waitFree waits until nobody has a function's files open, and names who still
// has them when the time is over.
func (b *Board) waitFree(ctx context.Context, f pci.Function, minor int) error {
	files := b.deviceFiles(f, minor)
	if len(files) == 0 || b.cfg.Holders == nil {
		return nil
	}
	deadline := time.Now().Add(b.cfg.BusyFor)
	for {
		b.letGo(f) // else we keep it busy ourselves, and each reading meanwhile does
		who, err := b.cfg.Holders(ctx, files)
		if err != nil {
			return fmt.Errorf("see who uses %s: %w", f.Address, err)
		}
		if len(who) == 0 {
			return nil
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%s is %w: %s has it open", f.Address, ErrBusy, processes(who))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is %w: %s has it open: %w", f.Address, ErrBusy, processes(who), ctx.Err())
		case <-time.After(min(busyLook, b.cfg.BusyFor)):
		}
	}
}

// letGo closes the vendor's driver, if the function is with it.
func (b *Board) letGo(f pci.Function) {
	if b.cfg.Driver == nil || f.Driver != b.cfg.DriverName {
		return
	}
	if err := b.cfg.Driver.Close(); err != nil {
		b.cfg.Log.Warn("let go of the driver", "error", err)
	}
}

func processes(list []Process) string {
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

// write writes to sysfs and waits no longer than a busy device is given: an
// unbind blocks for as long as somebody has the device open. What is left behind
// goes on in the kernel, and its effect is read the next time.
func (b *Board) write(ctx context.Context, name, data string) error {
	type result struct {
		err   error
		panic any
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			r.panic = recover()
			done <- r
		}()
		r.err = b.cfg.Sys.WriteFile(name, []byte(data))
	}()
	ctx, cancel := context.WithTimeout(ctx, b.cfg.BusyFor+writeTakes)
	defer cancel()
	select {
	case r := <-done:
		if r.panic != nil {
			panic(r.panic)
		}
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("write %s: %w: the kernel waits for whoever has it open: %w", name, ErrBusy, context.Cause(ctx))
	}
}

// exists tells there, not there and unknown apart.
func (b *Board) exists(name string) (bool, error) {
	_, err := fs.Stat(b.cfg.Sys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

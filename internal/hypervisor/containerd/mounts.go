package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// A home holds the ids that the guest sees, and an id-mapped view of it is what
// the guest gets: the data belongs to no range of this node. The views are only
// needed until runc has bound them.
func viewsDir(cfg Config) string { return filepath.Join(cfg.RunDir, "views") }

// home is a volume on its way into a guest.
type home struct {
	folder, view, path string
}

// mountViews makes the views of a guest's homes. What they show is the tenant's
// data: they are unmounted and removed, never deleted through.
func (d *Driver) mountViews(spec hypervisor.Spec, at network.Attachment, ids network.IDRange) (homes []home, err error) {
	if err := d.dropViews(spec.ID); err != nil {
		return nil, err
	}
	for i, m := range spec.Mounts {
		if m.Role != volume.RoleHome {
			continue
		}
		h := home{folder: spec.Folders[m.VolumeID], view: filepath.Join(viewsDir(d.cfg), spec.ID, strconv.Itoa(i)), path: path.Clean(m.Path)}
		if h.folder == "" || !path.IsAbs(h.path) || h.path == "/" {
			return nil, volumeFailure("its volume has no folder or no place inside", nil)
		}
		if err := d.giveHome(spec.ID, h, ids); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(h.view, 0o700); err != nil {
			return nil, fmt.Errorf("make view folder: %w", err)
		}
		ns, err := os.Open(at.UserNS)
		if err != nil {
			return nil, fmt.Errorf("open user namespace: %w", err)
		}
		err = mount.IDMapMount(h.folder, h.view, int(ns.Fd()))
		_ = ns.Close()
		if err != nil {
			return nil, volumeFailure("its home could not be mounted", err)
		}
		homes = append(homes, h)
	}
	return homes, nil
}

// giveHome makes an empty home belong to whom the image's folder at that place
// belongs to, as its guest sees it. What the tenant has made of it later stays.
func (d *Driver) giveHome(id string, h home, ids network.IDRange) error {
	entries, err := os.ReadDir(h.folder)
	if err != nil {
		return volumeFailure("its home could not be read", err)
	}
	if len(entries) > 0 {
		return nil
	}
	root, err := os.OpenRoot(d.rootfsPath(id))
	if err != nil {
		return fmt.Errorf("open root file system: %w", err)
	}
	defer root.Close()
	uid, gid, mode := 0, 0, os.FileMode(0o755)
	if info, err := root.Stat(strings.TrimPrefix(h.path, "/")); err == nil && info.IsDir() {
		mode = info.Mode().Perm()
		uid, gid = insideIDs(info, ids)
	}
	if err := os.Chown(h.folder, uid, gid); err != nil {
		return fmt.Errorf("own home: %w", err)
	}
	if err := os.Chmod(h.folder, mode); err != nil {
		return fmt.Errorf("set mode of home: %w", err)
	}
	return nil
}

// dropViews takes a guest's views away, also those that a crash left.
func (d *Driver) dropViews(id string) error {
	if err := removeViews(filepath.Join(viewsDir(d.cfg), id)); err != nil {
		return fmt.Errorf("remove views: %w", err)
	}
	return nil
}

func withHomes(homes []home) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		for _, h := range homes {
			s.Mounts = append(s.Mounts, specs.Mount{
				Destination: h.path, Type: "bind", Source: h.view, Options: []string{"bind", "rw", "nosuid", "nodev"},
			})
		}
		return nil
	}
}

// ioctl kinds of btrfs, and those of them that every file system has.
const (
	btrfsKind      = 0x94
	ficlone        = 0x40049409
	ficlonerange   = 0x4020940d
	fideduperange  = 0xc0189436
	seccompIoctl   = "ioctl"
	ioctlRequestAt = 1
)

// withoutBtrfs keeps a guest from making subvolumes in its home, which would be
// outside its volume's limit. Seccomp can only allow, so what is allowed is every
// request that differs from btrfs's kind in at least one bit.
func withoutBtrfs(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	if s.Linux == nil || s.Linux.Seccomp == nil {
		return errors.New("a guest with a volume needs a seccomp profile")
	}
	rules := s.Linux.Seccomp.Syscalls
	for i := range rules {
		var names []string
		for _, name := range rules[i].Names {
			if name != seccompIoctl {
				names = append(names, name)
			}
		}
		rules[i].Names = names
	}
	allow := func(arg specs.LinuxSeccompArg) {
		arg.Index = ioctlRequestAt
		rules = append(rules, specs.LinuxSyscall{Names: []string{seccompIoctl}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{arg}})
	}
	for bit := range 8 {
		mask := uint64(1) << (8 + bit)
		allow(specs.LinuxSeccompArg{Value: mask, ValueTwo: ^uint64(btrfsKind<<8) & mask, Op: specs.OpMaskedEqual})
	}
	for _, request := range []uint64{ficlone, ficlonerange, fideduperange} {
		allow(specs.LinuxSeccompArg{Value: request, Op: specs.OpEqualTo})
	}
	s.Linux.Seccomp.Syscalls = rules
	return nil
}

// insideIDs are a file's owners as the guest sees them.
func insideIDs(info os.FileInfo, ids network.IDRange) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	inside := func(host uint32) int {
		if host < ids.Base || host >= ids.Base+ids.Size {
			return 0
		}
		return int(host - ids.Base)
	}
	return inside(st.Uid), inside(st.Gid)
}

func volumeFailure(message string, err error) error {
	return &hypervisor.Failure{Reason: nodewire.ReasonVolume, Message: message, Err: err}
}

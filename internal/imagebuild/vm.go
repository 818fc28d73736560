package imagebuild

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

//go:embed vm-cloud.cfg
var vmCloudConfig string

//go:embed vm-grub.cfg
var vmGrubConfig string

// rootLabel names the file system that grub and the kernel look for.
const rootLabel = "tenon-root"

// DebianVM boots by itself and is set up by cloud-init: a kernel, systemd, an
// SSH server, a console on the first serial port. Its kernel is Debian's full
// one, since the cloud variant lacks what GPU drivers need.
var DebianVM = Image{
	Name: "debian-12-vm", Kind: "vm", Description: "Debian 12 for virtual machines, with cloud-init and an SSH server",
	Packages: []string{
		"ca-certificates", "cloud-guest-utils", "cloud-init", "curl", "dbus", "e2fsprogs", "grub-common", "grub-pc-bin", "iproute2", "iputils-ping",
		"kmod", "less", "linux-image-amd64", "netbase", "openssh-server", "pciutils", "procps", "python3", "sudo", "systemd-resolved", "systemd-sysv", "udev", "zstd",
		"python3-cffi-backend", // python3-cryptography asks for it by a virtual name, which debootstrap does not follow
	},
	Files: []File{
		{"etc/cloud/cloud.cfg.d/90_tenon.cfg", vmCloudConfig, 0o644},
		{"boot/grub/grub.cfg", vmGrubConfig, 0o644},
		{"etc/fstab", "LABEL=" + rootLabel + " / ext4 rw,discard,errors=remount-ro 0 1\n", 0o644},
		// Few modules make a small initrd, which is most of an emulated boot.
		{"etc/initramfs-tools/conf.d/tenon", "MODULES=list\nCOMPRESS=zstd\n", 0o644},
		{"etc/initramfs-tools/modules", "virtio_pci\nvirtio_blk\nvirtio_scsi\nsd_mod\nnvme\next4\n", 0o644},
		{"etc/kernel-img.conf", "do_symlinks = yes\ndo_initrd = yes\n", 0o644},
		// The host answers for names at the gateway; nothing else is asked.
		{"etc/systemd/resolved.conf.d/tenon.conf", "[Resolve]\nLLMNR=no\nMulticastDNS=no\nFallbackDNS=\n", 0o644},
		{"etc/systemd/journald.conf.d/tenon.conf", "[Journal]\nStorage=persistent\nSystemMaxUse=64M\n", 0o644},
		// Emulated, a boot may take minutes, and a console that came late must not be
		// given up.
		{"etc/systemd/system.conf.d/tenon.conf", "[Manager]\nDefaultTimeoutStopSec=20s\nDefaultTimeoutStartSec=600s\nDefaultDeviceTimeoutSec=600s\n", 0o644},
		{"etc/systemd/system/dev-ttyS0.device.d/tenon.conf", "[Unit]\nJobRunningTimeoutSec=infinity\n", 0o644},
		{"etc/systemd/system/systemd-resolved.service.d/tenon.conf", "[Service]\nTimeoutStartSec=600s\nWatchdogSec=0\n", 0o644},
	},
}

// vmUnneeded are modules for hardware that no VM has.
var vmUnneeded = []string{
	"usr/lib/modules/*/kernel/sound", "usr/lib/modules/*/kernel/drivers/media", "usr/lib/modules/*/kernel/drivers/staging", "usr/lib/modules/*/kernel/drivers/iio",
	"usr/lib/modules/*/kernel/drivers/net/wireless", "usr/lib/modules/*/kernel/drivers/bluetooth", "usr/lib/modules/*/kernel/drivers/isdn",
	"usr/lib/modules/*/kernel/drivers/comedi", "usr/lib/modules/*/kernel/net/bluetooth", "usr/lib/modules/*/kernel/net/mac80211", "initrd.img.old", "vmlinuz.old",
}

// vmCommands make the tree boot. They run in it, after its files are written.
var vmCommands = []string{
	"ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf",
	"systemctl -q enable systemd-networkd.service systemd-resolved.service ssh.service serial-getty@ttyS0.service",
	// Nobody waits for these: they only slow the boot down.
	"systemctl -q disable apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service cloud-init-hotplugd.socket systemd-pstore.service",
	"systemctl -q mask systemd-networkd-wait-online.service systemd-update-utmp-runlevel.service",
	"for v in /lib/modules/*; do v=${v##*/}; depmod $v; rm -f /boot/initrd.img-$v; update-initramfs -c -k $v >/dev/null; done",
	"grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o /boot/grub/core.img biosdisk part_msdos ext2 linux normal configfile search search_label",
}

// Sizes of the disk: the guest grows its file system to what it is given.
const (
	vmDiskMiB       = 2048
	vmPartitionByte = 1 << 20
)

// buildDisk turns a tree into a qcow2 that boots. Nothing is mounted and no loop
// device is used: mke2fs copies the tree, and the boot sectors are written.
func buildDisk(ctx context.Context, o Options, work, tree string) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", errors.New("build VM image: only amd64 is known")
	}
	stamp, err := tidy(tree, o)
	if err != nil {
		return "", err
	}
	for _, pattern := range vmUnneeded {
		if err := remove(tree, pattern); err != nil {
			return "", err
		}
	}
	if err := prepareBoot(ctx, tree); err != nil {
		return "", err
	}
	o.Progress("make the disk", 0, 0)
	raw, disk := filepath.Join(work, "disk.raw"), filepath.Join(work, "disk.qcow2")
	if err := makeRaw(raw, filepath.Join(tree, "boot/grub/core.img"), filepath.Join(tree, "usr/lib/grub/i386-pc/boot.img")); err != nil {
		return "", err
	}
	sum := o.Image.Recipe(o.Suite)
	uuid := fmt.Sprintf("%s-%s-4000-8000-%s", sum[:8], sum[8:12], sum[:12])
	fake := fmt.Sprintf("E2FSPROGS_FAKE_TIME=%d", stamp.Unix())
	err = tool(ctx, []string{fake}, "mke2fs", "-q", "-F", "-t", "ext4", "-L", rootLabel, "-U", uuid, "-m", "1",
		"-O", "^metadata_csum_seed,^orphan_file", "-E", fmt.Sprintf("offset=%d,hash_seed=%s,root_owner=0:0,lazy_itable_init=0,nodiscard", vmPartitionByte, uuid),
		"-d", tree, raw, fmt.Sprintf("%dk", (vmDiskMiB<<10)-2*vmPartitionByte>>10))
	if err != nil {
		return "", err
	}
	if err := tool(ctx, nil, "qemu-img", "convert", "-q", "-c", "-f", "raw", "-O", "qcow2", "-o", "compression_type=zstd", raw, disk); err != nil {
		return "", err
	}
	return disk, nil
}

// prepareBoot runs the commands in the tree, in a mount namespace of their own.
func prepareBoot(ctx context.Context, tree string) error {
	script := "set -eu\nmount -t proc proc " + tree + "/proc\nmount --rbind /sys " + tree + "/sys\nexec chroot " + tree + " sh -euc \"$0\""
	cmd := exec.CommandContext(ctx, "sh", "-c", script, strings.Join(vmCommands, "\n"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the image boot: %w: %s", err, lastWords(out))
	}
	return nil
}

// makeRaw writes an empty disk with one bootable partition and grub before it:
// boot.img loads what begins at the second sector, as it was made to.
func makeRaw(path, core, boot string) error {
	first, err := os.ReadFile(boot)
	if err != nil {
		return fmt.Errorf("read boot sector: %w", err)
	}
	loader, err := os.ReadFile(core)
	if err != nil {
		return fmt.Errorf("read boot loader: %w", err)
	}
	if len(first) != 512 || len(loader) > vmPartitionByte-512 {
		return fmt.Errorf("the boot loader does not fit: %d and %d bytes", len(first), len(loader))
	}
	// The one entry of the partition table: bootable, Linux, from the first MiB on.
	start, count := uint32(vmPartitionByte/512), uint32(((vmDiskMiB<<20)-vmPartitionByte)/512)
	entry := []byte{0x80, 0xfe, 0xff, 0xff, 0x83, 0xfe, 0xff, 0xff}
	for _, v := range []uint32{start, count} {
		entry = append(entry, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	copy(first[440:], []byte{0x74, 0x65, 0x6e, 0x6f, 0, 0})
	clear(first[446:510])
	copy(first[446:], entry)
	first[510], first[511] = 0x55, 0xaa
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	_, err = f.Write(append(first, loader...))
	if err == nil {
		err = f.Truncate(vmDiskMiB << 20)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	return nil
}

// tool runs a program of the host's.
func tool(ctx context.Context, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", argv[0], err, lastWords(out))
	}
	return nil
}

func lastWords(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[max(0, len(text)-600):]
}

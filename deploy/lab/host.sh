#!/bin/sh
# host.sh FOLDER: builds what the lab boots, from Debian's packages alone: the disk
# of a node (host.img), its kernel and initrd; mtty.ko, the kernel's own sample of a
# mediated device, compiled against Debian's headers; and the boot loader of the
# machines inside (boot.img, core.img). As root. All is made once for the same
# recipe, which is this file.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
mirror=${TENON_DEBIAN_MIRROR:-http://deb.debian.org/debian}

# What a node needs of Debian (web/docs/nodes.md says the same), and a host its boot.
node='btrfs-progs ca-certificates containerd containernetworking-plugins dnsmasq-base e2fsprogs genisoimage iproute2 iptables kmod libvirt-daemon-system libvirt-daemon-driver-qemu nftables qemu-system-x86 qemu-utils runc util-linux'
host='dbus initramfs-tools linux-image-amd64 pciutils procps systemd-sysv udev zstd'

key=$(sha256sum "$0" "$here/shell.sh" | sha256sum | cut -c 1-16)
if [ "$(cat "$out/host.key" 2>/dev/null)" = "$key" ]; then exit 0; fi
rm -rf "$out/host.key" "$out/work"
mkdir -p "$out/work"
tree=$out/work/tree

# Everything that is mounted is so in a namespace that goes with its process.
inside() { unshare -m --propagation private sh -euc "$@"; }
inside 'debootstrap --variant=minbase bookworm "$1" "$2"' - "$tree" "$mirror"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d" # no service starts
chmod 755 "$tree/usr/sbin/policy-rc.d"
mkdir -p "$tree/etc/initramfs-tools/conf.d" "$tree/etc/dpkg/dpkg.cfg.d" "$tree/etc/systemd/network" "$tree/etc/systemd/system" "$tree/etc/modules-load.d"
# Few modules make a small initrd, which is much of an emulated boot.
printf 'MODULES=list\nCOMPRESS=zstd\n' >"$tree/etc/initramfs-tools/conf.d/lab"
printf 'virtio_pci\nvirtio_blk\next4\n' >"$tree/etc/initramfs-tools/modules"
printf 'path-exclude /usr/share/doc/*\npath-exclude /usr/share/man/*\npath-exclude /usr/share/locale/*\n' >"$tree/etc/dpkg/dpkg.cfg.d/lab"
inside 'mount -t proc proc "$1/proc"; mount -t devtmpfs dev "$1/dev"; tree=$1; shift
	export DEBIAN_FRONTEND=noninteractive LC_ALL=C
	chroot "$tree" apt-get -qq update
	chroot "$tree" apt-get -y -q --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=0 install "$@"' - "$tree" $node $host
rm -f "$tree/usr/sbin/policy-rc.d"
release=$(basename "$tree"/boot/vmlinuz-* | sed 's/^vmlinuz-//')

# What is built with compilers and loaders that no host has: in a layer over the
# host's tree that is thrown away.
layer() {
	mkdir -p "$out/work/upper" "$out/work/layer" "$out/work/both"
	inside 'mount -t overlay overlay -o "lowerdir=$1/tree,upperdir=$1/upper,workdir=$1/layer" "$1/both"; both=$1/both; release=$2
		mount -t proc proc "$both/proc"; mount -t devtmpfs dev "$both/dev"
		export DEBIAN_FRONTEND=noninteractive LC_ALL=C
		chroot "$both" apt-get -y -q --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=0 install "linux-headers-$release" linux-source-6.1 make xz-utils grub-common grub-pc-bin
		tar -C "$both/root" -xf "$both/usr/src/linux-source-6.1.tar.xz" --strip-components 3 linux-source-6.1/samples/vfio-mdev/mtty.c
		printf "obj-m := mtty.o\n" >"$both/root/Makefile"
		chroot "$both" make -C "/usr/src/linux-headers-$release" M=/root modules
		printf "linux (hd0,msdos1)/vmlinuz console=ttyS0 quiet panic=1 edd=off mitigations=off nosmp cryptomgr.notests tsc=reliable no_timer_check nokaslr\ninitrd (hd0,msdos1)/initrd\nboot\n" >"$both/root/grub.cfg"
		chroot "$both" grub-mkimage -O i386-pc -c /root/grub.cfg -p "(hd0,msdos1)/" -o /root/core.img biosdisk part_msdos ext2 linux
		cp "$both/usr/lib/grub/i386-pc/boot.img" "$both/root/"' - "$out/work" "$release"
	cp "$out/work/upper/root/mtty.ko" "$out/work/upper/root/boot.img" "$out/work/upper/root/core.img" "$out/"
}
layer >"$out/work/layer.log" 2>&1 &
building=$!

# As a host is set up: names, network, services. What is the lab's own is its
# shell, which an observer outside uses instead of a login.
disk=$out/work/disk
cp -a "$tree" "$disk" # the layer needs the tree as it is
printf 'lab\n' >"$disk/etc/hostname"
printf '127.0.0.1 localhost lab\n' >"$disk/etc/hosts"
: >"$disk/etc/machine-id"
printf '/dev/vda / ext4 rw,errors=remount-ro 0 1\n' >"$disk/etc/fstab"
printf 'vfio-pci\n' >"$disk/etc/modules-load.d/tenon.conf"
printf '[Match]\nName=eth0\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nDNS=10.0.2.3\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' >"$disk/etc/systemd/network/80-lab.network"
mkdir -p "$disk/etc/systemd/system.conf.d" "$disk/etc/systemd/journald.conf.d"
printf '[Manager]\nDefaultTimeoutStartSec=300s\nDefaultTimeoutStopSec=60s\nDefaultDeviceTimeoutSec=300s\n' >"$disk/etc/systemd/system.conf.d/lab.conf"
printf '[Journal]\nStorage=persistent\nSystemMaxUse=64M\nForwardToConsole=no\n' >"$disk/etc/systemd/journald.conf.d/lab.conf"
install -m 755 "$here/shell.sh" "$disk/usr/local/sbin/lab-shell"
cat >"$disk/etc/systemd/system/lab-shell@.service" <<'UNIT'
# The lab's own: an observer outside asks for a command and reads what it printed.
[Unit]
DefaultDependencies=no
After=systemd-udevd.service local-fs.target
Conflicts=shutdown.target
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/local/sbin/lab-shell /dev/virtio-ports/lab.%i
Restart=always
RestartSec=1
[Install]
WantedBy=sysinit.target
UNIT
inside 'mount -t proc proc "$1/proc"; chroot "$1" sh -euc "
	systemctl -q enable systemd-networkd.service systemd-networkd-wait-online.service lab-shell@shell.service lab-shell@watch.service
	systemctl -q disable containerd.service libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirt-guests.service virtlogd.socket virtlogd-admin.socket virtlockd.socket virtlockd-admin.socket apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
	systemctl -q mask virtlogd.service virtlockd.service getty@tty1.service serial-getty@ttyS0.service systemd-update-utmp-runlevel.service"' - "$disk" || exit 1
cp "$disk/boot/vmlinuz-$release" "$out/vmlinuz"
cp "$disk/boot/initrd.img-$release" "$out/initrd"
# By these a guest hears its power button.
cp "$disk/lib/modules/$release/kernel/drivers/acpi/button.ko" "$disk/lib/modules/$release/kernel/drivers/input/evdev.ko" "$out/"
rm -rf "$disk"/var/cache/apt/*.bin "$disk"/var/cache/apt/archives/*.deb "$disk"/var/lib/apt/lists/* "$disk"/usr/share/doc "$disk"/usr/share/man "$disk/etc/resolv.conf" "$disk"/dev/*
rm -f "$out/host.img"
truncate -s 24G "$out/host.img"
mke2fs -q -F -t ext4 -m 0 -E lazy_itable_init=1,nodiscard -d "$disk" "$out/host.img"
wait "$building" || {
	cat "$out/work/layer.log" >&2
	exit 1
}
rm -rf "$out/work"
printf '%s\n' "$release" >"$out/release"
printf '%s\n' "$key" >"$out/host.key"

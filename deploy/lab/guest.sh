#!/bin/sh
# guest.sh FOLDER: makes the disk of the lab's virtual machines, guest.qcow2, of the
# host's kernel and busybox: small, so that an emulated machine in an emulated host
# is up in seconds.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$1" && pwd)
busybox=$(command -v busybox)
key=$(cat "$0" "$here/guest-init.sh" "$busybox" "$out/host.key" | sha256sum | cut -c 1-16)
if [ "$(cat "$out/guest.key" 2>/dev/null)" = "$key" ]; then exit 0; fi
work=$out/guest-work
trap 'rm -rf "$work"' EXIT
rm -rf "$work" "$out/guest.key"
mkdir -p "$work/root/bin" "$work/disk"
cp "$busybox" "$work/root/bin/busybox"
install -m 755 "$here/guest-init.sh" "$work/root/init"
cp "$out/button.ko" "$out/evdev.ko" "$work/root/"
(cd "$work/root" && find . | LC_ALL=C sort | busybox cpio -o -H newc 2>/dev/null) >"$work/disk/initrd"
cp "$out/vmlinuz" "$work/disk/vmlinuz"

# A disk with grub before its one partition, at the first MiB.
raw=$work/raw
mib=32
cp "$out/boot.img" "$raw"
cat "$out/core.img" >>"$raw"
truncate -s "${mib}M" "$raw"
size=$((mib * 2048 - 2048))
entry='\200\376\377\377\203\376\377\377'
for n in 2048 "$size"; do
	for shift in 0 8 16 24; do entry="$entry\\$(printf %03o $(((n >> shift) & 255)))"; done
done
dd if=/dev/zero of="$raw" bs=1 seek=446 count=64 conv=notrunc status=none # grub's code for floppies
printf "$entry" | dd of="$raw" bs=1 seek=446 conv=notrunc status=none
printf '\125\252' | dd of="$raw" bs=1 seek=510 conv=notrunc status=none
mke2fs -q -F -t ext2 -m 0 -E offset=1048576 -d "$work/disk" "$raw" "$((size / 2))k"
qemu-img convert -q -f raw -O qcow2 "$raw" "$out/guest.qcow2"
printf '%s\n' "$key" >"$out/guest.key"

#!/bin/busybox sh
# The only process of a lab's guest: says on the serial port which PCI devices it
# sees and whether they work, through their own registers.
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
insmod /button.ko
insmod /evdev.ko
exec >/dev/ttyS0 2>&1 </dev/null
# Whatever is pressed, it is the power button.
for event in /dev/input/event*; do
	(dd if="$event" of=/dev/null bs=24 count=1 2>/dev/null && poweroff -f) &
done
stty -F /dev/ttyS0 raw -echo
say() { echo "LAB $*"; }

# base ADDRESS N: where a region of a function lies.
base() { sed -n "$(($2 + 1))s/ .*//p" "/sys/bus/pci/devices/$1/resource"; }
peek() { devmem "$(printf '0x%x' $(($1)))" "$2"; }
poke() { devmem "$(printf '0x%x' $(($1)))" "$2" "$3"; }

# edu: its identification, the inverse of what is written, and a factorial that the
# device computes.
edu() {
	echo 1 >"/sys/bus/pci/devices/$1/enable"
	bar=$(base "$1" 0)
	id=$(peek "$bar" 32)
	poke "$bar+4" 32 0x12345678
	inverse=$(peek "$bar+4" 32)
	poke "$bar+8" 32 10
	i=0
	while [ $(($(peek "$bar+0x20" 32) & 1)) -ne 0 ] && [ "$i" -lt 100 ]; do i=$((i + 1)); done
	say "edu $1 id=$id inverse=$inverse factorial=$(($(peek "$bar+8" 32)))"
}

# pci-testdev: the size of the access and the name of the test that is chosen.
testdev() {
	echo 1 >"/sys/bus/pci/devices/$1/enable"
	bar=$(base "$1" 0)
	poke "$bar" 8 0
	name=
	for i in 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
		c=$(($(peek "$bar+$i" 8)))
		[ "$c" -ne 0 ] || break
		name=$name$(printf "\\x$(printf %x "$c")")
	done
	say "testdev $1 test=$name"
}

# mtty: what is written to its port comes back.
mtty() {
	for t in 1 2 3; do
		tty=/dev/ttyS$t
		[ -e "/sys/class/tty/ttyS$t/device" ] && [ "$(basename "$(readlink -f "/sys/class/tty/ttyS$t/device")")" = "$1" ] || continue
		stty -F "$tty" raw -echo
		exec 4<>"$tty"
		printf 'lab\n' >&4
		got=$(timeout 5 head -n 1 <&4)
		exec 4>&-
		say "mtty $1 wrote=lab read=$got"
		return
	done
	say "mtty $1 has no port: $(ls /sys/bus/pci/devices/$1)"
}

say "boot $(cat /proc/sys/kernel/random/boot_id)"
for d in /sys/bus/pci/devices/*; do
	a=${d##*/}
	v=$(cat "$d/vendor") n=$(cat "$d/device")
	say "pci $a ${v#0x}:${n#0x}"
	case ${v#0x}:${n#0x} in
	1234:11e8) edu "$a" ;;
	1b36:0005) testdev "$a" ;;
	4348:3253) mtty "$a" ;;
	esac
done
say "up $(cut -d ' ' -f 1 /proc/uptime)"
while :; do sleep 3600; done

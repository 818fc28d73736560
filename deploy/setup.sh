#!/bin/sh
# setup.sh [--tests]: what Tenon needs of a Debian 12 host. It may be run any
# number of times: when everything is there it does nothing and says nothing.
# No service is started or enabled, and no database cluster is made.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
packages='btrfs-progs busybox-static ca-certificates containerd containernetworking-plugins debootstrap dnsmasq-base e2fsprogs genisoimage git iproute2 iptables kmod libvirt-daemon-system libvirt-daemon-driver-qemu nftables postgresql-15 qemu-system-x86 qemu-utils runc util-linux xfsprogs'
# What `make test` needs besides: a browser, and another tool's registry client.
[ "${1:-}" = --tests ] && packages="$packages chromium skopeo"

say() { printf '%s\n' "$*" >&2; }
die() {
	say "setup: $*"
	exit 1
}

# Go and Node are the user's own choice of place, so they are only looked for.
need_go=$(sed -n 's/^go //p' "$here/../go.mod")
go_version=$(GOTOOLCHAIN=auto go env GOVERSION 2>/dev/null | sed 's/^go//') || go_version=
[ -n "$go_version" ] || die "Go is not installed. Get version $need_go or later from https://go.dev/dl/, unpack it into /usr/local and put /usr/local/go/bin into PATH."
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }
at_least "$go_version" "$need_go" || die "Go is $go_version, and $need_go or later is needed: https://go.dev/dl/"
node_version=$(node --version 2>/dev/null | sed 's/^v//') || node_version=
[ -n "$node_version" ] && command -v npm >/dev/null || die "Node.js with npm is not installed. Get version 20 from https://nodejs.org/en/download (or Debian's nodejs from bookworm-backports)."
at_least "$node_version" 20.19.0 || die "Node.js is $node_version, and 20.19 or later is needed: https://nodejs.org/en/download"

[ -r /etc/debian_version ] || die "this is not Debian: install the equivalents of: $packages"
missing=
for p in $packages; do
	case " $(dpkg-query -W -f='${db:Status-Abbrev}' "$p" 2>/dev/null) " in
	" ii"*) ;;
	*) missing="$missing $p" ;;
	esac
done
# Any Postgres from 15 on will do.
case "$missing" in
*" postgresql-15"*)
	for server in /usr/lib/postgresql/*/bin/postgres; do
		[ -x "$server" ] && [ "$(basename "$(dirname "$(dirname "$server")")")" -ge 15 ] && missing=$(printf '%s' "$missing" | sed 's/ postgresql-15//')
	done
	;;
esac
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || die "these packages are missing, and there is neither root nor sudo to install them:$missing"
	as_root='sudo'
	say "Installing packages needs root:$missing"
	sudo -v || die "sudo refused"
fi
say "Installing Debian packages:$missing"
exec $as_root sh "$here/install.sh" $missing

#!/bin/sh
# with-cloud.sh COMMAND...: starts a cloud of its own beside any other, runs a
# command with TENON_URL, TENON_TOKEN, TENON_EMAIL and TENON_PASSWORD set, and
# takes the cloud away again. The logs of a failed run are kept.
#   TENON_TEST_FLAGS   more flags of `tenond dev`
#   TENON_TEST_IMAGES  images to wait for, separated by spaces (debian-12)
#   TENON_TEST_KEEP    no: don't keep the registry for the next test (yes)
#   TENON_TEST_DISK    size of a file system for the cloud alone, which can be filled (none)
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
sudo=
[ "$(id -u)" -eq 0 ] || sudo='sudo --preserve-env=TENON_ADMIN_PASSWORD'
state=$top/bin/test-cloud
disk=$top/bin/test-cloud.img
cache=$top/bin/registry-cache
mkdir -p "$state"
TENON_ADMIN_PASSWORD=$(od -An -N 12 -tx1 /dev/urandom | tr -d ' \n')
export TENON_ADMIN_PASSWORD

# away removes the cloud and the file system that it had to itself.
away() {
	if ! mountpoint -q "$state"; then
		$sudo ./bin/tenond dev --state "$state" --clean
	else # a mount point can't be deleted while it is one
		$sudo ./bin/tenond dev --state "$state" --clean 2>/dev/null || true
		$sudo umount "$state" || $sudo umount -l "$state"
	fi
	$sudo rm -f "$disk"
}
away
mkdir -p "$state"
if [ -n "${TENON_TEST_DISK:-}" ]; then
	truncate -s "$TENON_TEST_DISK" "$disk"
	mkfs.ext4 -q -m 0 "$disk"
	$sudo mount -o loop "$disk" "$state"
fi
log=$state/console.txt
# Images that an earlier test built save minutes.
[ ! -d "$cache" ] || $sudo cp -a "$cache" "$state/registry"
# shellcheck disable=SC2086 # flags are words
$sudo ./bin/tenond dev --state "$state" ${TENON_TEST_FLAGS:-} >"$log" 2>&1 &
pid=$!
stop() {
	kill -TERM "$pid" 2>/dev/null || true
	wait "$pid" || true
}
trap 'stop; exit 130' INT TERM HUP
echo 'starting a cloud for the test'
waited=0
# until_true CONDITION...: waits for it while the cloud lives.
until_true() {
	until "$@"; do
		if ! kill -0 "$pid" 2>/dev/null; then
			echo 'the cloud ended:' >&2
			cat "$log" >&2
			exit 1
		fi
		waited=$((waited + 1))
		[ "$waited" -le 6000 ] || { echo 'the cloud is not up after twenty minutes' >&2; stop; exit 1; }
		sleep 0.2
	done
}
up() { [ -s "$state/tenon.env" ] && grep -q '^  Console' "$log"; }
until_true up
. "$state/tenon.env"
TENON_EMAIL=admin@tenon.local TENON_PASSWORD=$TENON_ADMIN_PASSWORD
export TENON_URL TENON_TOKEN TENON_EMAIL TENON_PASSWORD
offered() { ./bin/tenon image list 2>/dev/null | grep -q "^$1 "; }
for image in ${TENON_TEST_IMAGES:-}; do
	echo "waiting for the image $image"
	until_true offered "$image"
done
code=0
"$@" || code=$?
stop
tags() { (cd "$1" 2>/dev/null && find . -path '*/_manifests/tags/*/current/link' -exec sha256sum {} + | sort); }
if [ "$code" -eq 0 ]; then
	if [ "${TENON_TEST_KEEP:-yes}" = yes ] && [ "$(tags "$cache")" != "$(tags "$state/registry")" ]; then
		$sudo rm -rf "$cache"
		$sudo cp -a "$state/registry" "$cache"
	fi
	away
else
	echo "the test failed; the cloud's logs are in $state/log" >&2
fi
exit "$code"

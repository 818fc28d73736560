#!/bin/sh
# with-cloud.sh COMMAND...: starts a cloud of its own beside any other, runs a
# command with TENON_URL, TENON_TOKEN, TENON_EMAIL and TENON_PASSWORD set, and
# takes the cloud away again. The logs of a failed run are kept.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
sudo=
[ "$(id -u)" -eq 0 ] || sudo='sudo --preserve-env=TENON_ADMIN_PASSWORD'
state=$top/bin/test-cloud
mkdir -p "$state"
log=$state/console.txt
TENON_ADMIN_PASSWORD=$(od -An -N 12 -tx1 /dev/urandom | tr -d ' \n')
export TENON_ADMIN_PASSWORD
$sudo ./bin/tenond dev --state "$state" --clean
mkdir -p "$state"
# The image that an earlier test built saves a minute or two.
cache=$top/bin/registry-cache
[ ! -d "$cache" ] || $sudo cp -a "$cache" "$state/registry"
$sudo ./bin/tenond dev --state "$state" >"$log" 2>&1 &
pid=$!
stop() {
	kill -TERM "$pid" 2>/dev/null || true
	wait "$pid" || true
}
trap 'stop; exit 130' INT TERM HUP
echo 'starting a cloud for the test'
waited=0
until [ -s "$state/tenon.env" ] && grep -q '^  Console' "$log"; do
	if ! kill -0 "$pid" 2>/dev/null; then
		echo 'the cloud ended:' >&2
		cat "$log" >&2
		exit 1
	fi
	waited=$((waited + 1))
	[ "$waited" -le 3000 ] || { echo 'the cloud is not up after ten minutes' >&2; stop; exit 1; }
	sleep 0.2
done
. "$state/tenon.env"
TENON_EMAIL=admin@tenon.local TENON_PASSWORD=$TENON_ADMIN_PASSWORD
export TENON_URL TENON_TOKEN TENON_EMAIL TENON_PASSWORD
code=0
"$@" || code=$?
stop
if [ "$code" -eq 0 ]; then
	[ -d "$cache" ] || $sudo cp -a "$state/registry" "$cache"
	$sudo ./bin/tenond dev --state "$state" --clean
else
	echo "the test failed; the cloud's logs are in $state/log" >&2
fi
exit "$code"

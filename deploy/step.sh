#!/bin/sh
# step.sh NAME COMMAND...: runs one slow step, shows that it moves, keeps its
# output to itself unless it fails, and says nothing when it took no time.
set -u
name=$1
shift
log=$(mktemp "${TMPDIR:-/tmp}/tenon-step.XXXXXX") || exit 1
start=$(date +%s)
"$@" >"$log" 2>&1 </dev/null &
pid=$!
# A command in the background ignores the terminal's interrupt: pass it on.
trap 'kill -TERM "$pid" 2>/dev/null' INT TERM HUP
tty=no
[ -t 2 ] && tty=yes
ticks=0
while kill -0 "$pid" 2>/dev/null; do
	sleep 0.2
	ticks=$((ticks + 1))
	took=$(($(date +%s) - start))
	if [ "$tty" = yes ] && [ "$took" -ge 1 ]; then
		last=$(tail -n 1 "$log" 2>/dev/null | tr -cd '[:print:]' | cut -c 1-60)
		printf '\r\033[K  %s (%s s) %s' "$name" "$took" "$last" >&2
	elif [ "$tty" = no ] && [ $((ticks % 75)) -eq 0 ]; then
		printf '  %s (%s s)\n' "$name" "$took" >&2
	fi
done
wait "$pid"
code=$?
took=$(($(date +%s) - start))
[ "$tty" = yes ] && printf '\r\033[K' >&2
if [ "$code" -ne 0 ]; then
	printf '  %s failed (%s s, exit code %s):\n' "$name" "$took" "$code" >&2
	tail -n 60 "$log" >&2
elif [ "$took" -ge 2 ]; then
	printf '  %s (%s s)\n' "$name" "$took" >&2
fi
rm -f "$log"
exit "$code"

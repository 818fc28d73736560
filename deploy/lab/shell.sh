#!/bin/bash
# lab-shell PORT: runs what an observer outside the host asks for, one command at a
# time: a line "ID BASE64" is answered by a line "ID STATUS BASE64".
[ -c "$1" ] || exit 1 # or the next line would make a file of its name
exec 3<>"$1"
while read -r id text <&3; do
	[ -n "$text" ] || continue
	out=$(printf %s "$text" | base64 -d | timeout -k 5 120 bash 2>&1 3>&- | head -c 500000 | base64 -w 0; exit "${PIPESTATUS[2]}")
	printf '%s %s %s\n' "$id" "$?" "$out" >&3
done

#!/bin/sh
# gen.sh write | check: what is generated from the code and committed: the API's
# contract, the console's types made from it, and a dump of the schema.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
mode=${1:-}
case "$mode" in write | check) ;; *) echo 'usage: gen.sh write | check' >&2; exit 2 ;; esac
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM HUP

go build -o "$tmp/tenond" ./cmd/tenond
"$tmp/tenond" openapi >"$tmp/openapi.yaml"
"$tmp/tenond" schema >"$tmp/schema.sql"
if [ -x web/node_modules/.bin/openapi-typescript ]; then
	web/node_modules/.bin/openapi-typescript "$tmp/openapi.yaml" -o "$tmp/schema.gen.ts" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; exit 1; }
fi

stale=
settle() {
	[ -e "$tmp/$1" ] || return 0
	cmp -s "$tmp/$1" "$2" && return 0
	if [ "$mode" = write ]; then
		cp "$tmp/$1" "$2"
		echo "wrote $2"
	else
		diff -u "$2" "$tmp/$1" | head -n 40 || true
		stale="$stale $2"
	fi
}
settle openapi.yaml api/openapi.yaml
settle schema.sql migrations/schema.sql
settle schema.gen.ts web/src/api/schema.gen.ts
if [ -n "$stale" ]; then
	echo "not what the code says:$stale. Run \`make gen\` and commit." >&2
	exit 1
fi

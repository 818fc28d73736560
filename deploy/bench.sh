#!/bin/sh
# bench.sh: the Go benchmarks, one figure a line. Those that fill a database run
# once; the others a fifth of a second each.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp "${TMPDIR:-/tmp}/tenon-bench.XXXXXX")
trap 'rm -f "$out"' EXIT INT TERM HUP
measure() {
	time=$1
	shift
	if ! go test -run '^$' -bench . -benchtime "$time" "$@" >"$out" 2>&1; then
		cat "$out" >&2
		exit 1
	fi
	sed -n 's/^Benchmark/  /p' "$out"
}
echo 'one decision of the placement engine; one password check'
measure 200ms ./internal/placement ./internal/authn
echo '1,000 queued on 100 free slices: one step of the scheduler'
measure 1x ./internal/scheduler
echo 'claims on the same slots, by one writer and by eight at once'
measure 1x ./internal/postgres
echo 'openb placed by one core, beside a fixed loop (KAI 87/s at 1,200 nodes, Nomad with GPUs 255/s, FGD replayed 16,000 to 70,000/s)'
measure 1x ./internal/simulate

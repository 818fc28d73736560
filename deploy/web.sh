#!/bin/sh
# web.sh build | check | e2e: the console's own steps. Each is skipped while the
# files that it depends on are the ones it last succeeded with.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top/web"
stamps=$top/bin/.stamps
mkdir -p "$stamps"

# hash FILES...: one number for the content of files and folders.
hash() {
	find "$@" -type f -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0r sha256sum | sha256sum | cut -c 1-32
}
fresh() { [ "$(cat "$stamps/$1" 2>/dev/null)" = "$2" ]; }
done_with() { printf '%s\n' "$2" >"$stamps/$1"; }

packages() {
	versions=$(hash package.json package-lock.json)-$(node --version)
	[ -d node_modules ] && fresh packages "$versions" && return
	sh "$top/deploy/step.sh" 'fetch the console'\''s packages' npm ci --no-audit --no-fund --prefer-offline
	done_with packages "$versions"
}

sources='src public docs index.html package-lock.json tsconfig.json vite.config.ts docs.plugin.ts biome.json'

case "${1:-}" in
build)
	want=$(hash $sources)
	[ -e dist/index.html ] && fresh console "$want" && exit 0
	packages
	sh "$top/deploy/step.sh" 'build the console' npm run --silent build
	done_with console "$want"
	;;
check)
	want=$(hash $sources e2e ../api/openapi.yaml)
	fresh web-check "$want" && exit 0
	packages
	sh "$top/deploy/step.sh" 'check TypeScript' npm run --silent check
	done_with web-check "$want"
	;;
e2e)
	packages
	exec npm run --silent e2e
	;;
*)
	echo 'usage: web.sh build | check | e2e' >&2
	exit 2
	;;
esac

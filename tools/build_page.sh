#!/bin/sh
# Builds the web page: web/node_modules from the lock file, then web/dist; each only when what it is
# made from has changed, so that a second run needs no network and does no work.
#   tools/build_page.sh                 fails when it cannot
#   tools/build_page.sh --if-possible   without Node.js, npm or network says so and exits 0
#   tools/build_page.sh --packages      only web/node_modules
set -eu

mode=${1:-}
case "$mode" in
"" | --if-possible | --packages) ;;
*)
    echo "usage: tools/build_page.sh [--if-possible | --packages] (got '$mode')" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")/../web"

give_up() {
    echo "The web page was not built: $1" >&2
    [ "$mode" = --if-possible ] && exit 0
    exit 1
}

major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
if [ "$major" -lt 18 ] || ! command -v npm >/dev/null 2>&1; then
    give_up "it needs Node.js 18 or newer and npm; \`make web\` installs them."
fi

# A stamp holds the hash of what the folder beside it was made from.
is_fresh() { [ "$(cat "$1" 2>/dev/null || true)" = "$2" ]; }

lock=$({ echo "$major"; cat package-lock.json .npmrc; } | sha256sum | cut -d' ' -f1)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! is_fresh node_modules/.munia-lock "$lock"; then
    echo "Fetching the page's packages with npm" >&2
    if ! npm ci --no-progress >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        give_up "npm could not fetch its packages; \`make web\` tries again."
    fi
    echo "$lock" >node_modules/.munia-lock
fi
[ "$mode" = --packages ] && exit 0

sources=$({ echo "$lock"; find index.html vite.config.js src -type f | LC_ALL=C sort | xargs sha256sum; } |
    sha256sum | cut -d' ' -f1)
if ! is_fresh node_modules/.munia-dist "$sources" || [ ! -f dist/index.html.gz ]; then
    echo "Building the page" >&2
    rm -f node_modules/.munia-dist
    if ! npm run --silent build >"$log" 2>&1; then
        cat "$log" >&2
        echo "The web page was not built." >&2
        exit 1
    fi
    echo "$sources" >node_modules/.munia-dist
fi

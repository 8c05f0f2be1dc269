#!/bin/sh
# Packs a build folder whose program is built: tools/make_deb.sh BUILD OUT [VERSION]. Writes
# OUT/munia_VERSION-1_ARCH.deb, the same bytes for the same build and commit, and prints its path.
set -eu

[ $# -ge 2 ] || { echo "usage: tools/make_deb.sh BUILD OUT [VERSION]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
build=$1
out=$2
version=${3:-}
[ -x "$build/munia" ] || { echo "make_deb: there is no $build/munia; build it first" >&2; exit 1; }
if [ ! -s "$root/web/dist/index.html.gz" ]; then
    echo "make_deb: the package has no web page; \`make web\` builds it" >&2
fi
cmake --build "$build" --target shell_files >&2
SOURCE_DATE_EPOCH=$("$root/tools/source_date.sh")
export SOURCE_DATE_EPOCH
umask 022
mkdir -p "$out"
rm -f "$out"/munia_*.deb
log=$out/cpack.log
cpack --config "$build/CPackConfig.cmake" -B "$out" ${version:+-R "$version"} >"$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
rm -rf "$out/_CPack_Packages" "$log"
ls "$out"/munia_*.deb

#!/bin/sh
# Gathers a release in build/release from what is built: Debian packages (of build, and of build/arm64
# where that is there), the wheels of build/wheel, the sources, the SBOM, and SHA256SUMS over them.
#   tools/release.sh            refuses a tree with changes: the sources would not be those of the build
#   tools/release.sh --dirty    for trials
set -eu

cd "$(dirname "$0")/.."
case "${1:-}" in
"")
    if [ -n "$(git status --porcelain)" ]; then
        echo "release: the tree has changes; commit them first (or try with --dirty):" >&2
        git status --short >&2
        exit 1
    fi
    ;;
--dirty) ;;
*)
    echo "usage: tools/release.sh [--dirty] (got '$1')" >&2
    exit 2
    ;;
esac

out=build/release
version=$(sed -n 's/^project(munia VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
rm -rf "$out"
mkdir -p "$out"
for build in build build/arm64; do
    [ -x "$build/munia" ] || continue
    tools/make_deb.sh "$build" "$build/package" >/dev/null
    cp "$build"/package/munia_*.deb "$out"
done
for wheel in build/wheel/munia-"$version"-*.whl; do
    if [ -e "$wheel" ]; then
        cp "$wheel" "$out"
    else
        echo "release: there is no wheel in build/wheel; \`make wheel\` builds it" >&2
    fi
done
git archive --format=tar --prefix="munia-$version/" HEAD | gzip -9n >"$out/munia-$version.tar.gz"
tools/sbom.py --program build/munia >"$out/munia-$version.cdx.json"
(cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
cat "$out/SHA256SUMS"

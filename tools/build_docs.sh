#!/bin/sh
# Makes the manual as static HTML, English at OUT and Chinese at OUT/zh, by the interpreter that has Sphinx
# (tools/venv.sh docs). Any warning, such as a link that leads nowhere, is an error.
#   tools/build_docs.sh PYTHON OUT
set -eu

[ $# -eq 2 ] || { echo "usage: tools/build_docs.sh PYTHON OUT" >&2; exit 2; }
python=$1
out=$2
docs=$(cd "$(dirname "$0")/../docs" && pwd)
export PYTHONDONTWRITEBYTECODE=1
build() { # SOURCES OUT LANGUAGE
    "$python" -m sphinx --fresh-env --fail-on-warning --keep-going --quiet --conf-dir "$docs" -D "language=$3" \
        --doctree-dir "$out/.doctrees-$3" "$1" "$2"
}
build "$docs" "$out" en
build "$docs/zh" "$out/zh" zh_CN
rm -rf "$out"/.doctrees-* "$out/.buildinfo" "$out/zh/.buildinfo" "$out/_sources" "$out/zh/_sources"

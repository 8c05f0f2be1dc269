#!/bin/sh
# Makes build/venv-NAME from tools/requirements-NAME.txt with the machine's own pip set-up, and
# prints its path. Does nothing when a stamp with the same hash is there. NAME is test (the tests),
# reference (the goldens and `make test-long`), python (the Python package is built and tested
# there), lmeval (the lm-eval harness), ray (munia.ray) or docs (the manual).
#   tools/venv.sh test
set -eu

name=${1:-}
root=$(cd "$(dirname "$0")/.." && pwd)
case "$name" in
test) files="$root/tools/requirements-test.txt" ;;
reference) files="$root/tools/requirements-reference.txt $root/tools/requirements-test.txt" ;;
python) files="$root/tools/requirements-python.txt" ;;
lmeval) files="$root/tools/requirements-lmeval.txt" ;;
ray) files="$root/tools/requirements-ray.txt" ;;
docs) files="$root/tools/requirements-docs.txt" ;;
*)
    echo "usage: tools/venv.sh test|reference|python|lmeval|ray|docs (got '$name')" >&2
    exit 2
    ;;
esac
python=/usr/bin/python3
venv="$root/build/venv-$name"
# shellcheck disable=SC2086 # a list of files
hash=$({ "$python" --version && cat $files; } | sha256sum | cut -d' ' -f1)
if [ "$(cat "$venv/stamp" 2>/dev/null || true)" != "$hash" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        -r "$root/tools/requirements-$name.txt" >&2
    printf '%s\n' "$hash" >"$venv/stamp"
fi
printf '%s\n' "$venv"

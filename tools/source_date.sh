#!/bin/sh
# The time that stands in what is packed: SOURCE_DATE_EPOCH if set, else the commit's time, else (a
# tree without history) that of the change log.
set -eu

cd "$(dirname "$0")/.."
if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
    echo "$SOURCE_DATE_EPOCH"
else
    git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md
fi

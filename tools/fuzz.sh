#!/bin/sh
# Runs every fuzzer of a build folder for some seconds, several at a time, on its corpus.
# Usage: tools/fuzz.sh BUILD_DIR SECONDS JOBS. Prints one line a fuzzer; fails when one found
# something (its log and the input stand in BUILD_DIR).
set -eu
export build="$1" seconds="$2"
ls "$build"/*_fuzz | xargs -n 1 -P "$3" sh -c '
  name="$(basename "$1")"
  new="$build/corpus/$name"
  seeds="tests/corpus/$name"
  log="$build/$name.log"
  mkdir -p "$new"
  [ -d "$seeds" ] || seeds=
  if "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="$build/$name-" "$new" $seeds > "$log" 2>&1; then
    echo "$name: no finding, $(sed -n "s/^stat::number_of_executed_units: *//p" "$log") runs"
  else
    tail -n 40 "$log"
    echo "$name: FAILED, see $log"
    exit 1
  fi' fuzz

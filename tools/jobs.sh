#!/bin/sh
# Prints how many compilers to run at once: MUNIA_JOBS if set, else one per CPU, but no more than
# one per GiB of memory that is free here and inside the container's limit (the largest source takes
# about 0.9 GB to compile).
set -eu

if [ -n "${MUNIA_JOBS:-}" ]; then
  case $MUNIA_JOBS in
    *[!0-9]*|0) echo "MUNIA_JOBS must be a number above 0, not \"$MUNIA_JOBS\"" >&2; exit 2 ;;
  esac
  echo "$MUNIA_JOBS"
  exit 0
fi

jobs=$(nproc)
free_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
for limit in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
  bytes=$(cat "$limit" 2>/dev/null || true)
  case $bytes in
    ''|*[!0-9]*) continue ;;  # absent, or "max"
  esac
  # cgroup v1 says "no limit" with a number near 2^63: 16 digits (a petabyte) are beyond any machine.
  [ ${#bytes} -lt 16 ] || continue
  kib=$((bytes / 1024))
  if [ -z "$free_kib" ] || [ "$kib" -lt "$free_kib" ]; then free_kib=$kib; fi
done
if [ -n "$free_kib" ]; then
  by_memory=$((free_kib / 1048576))
  if [ "$by_memory" -lt "$jobs" ]; then jobs=$by_memory; fi
fi
if [ "$jobs" -lt 1 ]; then jobs=1; fi
echo "$jobs"

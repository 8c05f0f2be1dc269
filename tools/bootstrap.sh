#!/bin/sh
# Installs the Debian packages that are missing: tools/bootstrap.sh GROUP…, where a group is a list
# tools/packages-GROUP.txt (build, web, test, lint, fuzz), a package a line; NAME:COMMAND is there
# too when the command is. Asks dpkg first and touches no network when everything is there. Installs as root or by sudo; otherwise prints the one line to run and exits 1.
# MUNIA_SKIP_BOOTSTRAP=1 skips all of it, for systems other than Debian.
set -eu

[ "${MUNIA_SKIP_BOOTSTRAP:-0}" = 1 ] && exit 0
[ $# -gt 0 ] || { echo "usage: tools/bootstrap.sh GROUP… (build, web, test, lint, fuzz)" >&2; exit 2; }

here=$(dirname "$0")
wanted=
for group in "$@"; do
  list=$here/packages-$group.txt
  [ -r "$list" ] || { echo "bootstrap: there is no list $list" >&2; exit 2; }
  wanted="$wanted $(sed 's/#.*//' "$list" | tr '\n' ' ')"
done

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "bootstrap: this is not a Debian system; install the equivalents of:$(echo "$wanted" | sed 's/:[^ ]*//g')" >&2
  echo "bootstrap: then run again with MUNIA_SKIP_BOOTSTRAP=1" >&2
  exit 1
fi

missing=
for entry in $wanted; do
  package=${entry%%:*}
  case $entry in
  *:*) if command -v "${entry#*:}" >/dev/null 2>&1; then continue; fi ;;
  esac
  # "ii " is installed and configured; anything else, or an error, is not.
  state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  case $state in ii*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null 2>&1; then
  as_root=sudo
else
  echo "Some packages are missing. Run this as root, then try again:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi

echo "Installing with apt (this can take minutes):$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# `env` carries the setting through sudo, which drops the caller's environment. The report of apt is
# shown only when it fails.
apt_get() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" > "$log" 2>&1
}
if ! apt_get update || ! apt_get install -y --no-install-recommends $missing; then
  tail -n 40 "$log" >&2
  echo "apt could not install them. When that is solved, run this as root and try again:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi

#!/bin/sh
# Makes build/arm64-root: the libraries of tools/packages-build.txt and what they need, for 64-bit
# ARM, unpacked from Debian's arm64 packages. cmake/arm64.toolchain.cmake compiles against it and
# tools/arm64_run.sh runs with it. apt works on directories of its own here, with the machine's own
# list of sources: nothing of the machine's dpkg changes, and root is not needed. Does nothing when a
# stamp with the same hash is there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$here")/build
root=$build/arm64-root
hash=$(cat "$here/packages-build.txt" "$0" | sha256sum | cut -d' ' -f1)
[ "$(cat "$root/stamp" 2>/dev/null || true)" != "$hash" ] || exit 0

packages="libc6-dev libstdc++6 $(sed 's/#.*//' "$here/packages-build.txt" | grep -E 'dev$' | tr '\n' ' ')"
apt=$build/arm64-apt
log=$build/arm64-apt.log
rm -rf "$root" "$apt"
mkdir -p "$root" "$apt/state/lists/partial" "$apt/cache/archives/partial"
: > "$apt/state/status"
cat > "$apt/apt.conf" <<END
APT::Architecture "arm64";
#clear APT::Architectures;
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State "$apt/state";
Dir::State::status "$apt/state/status";
Dir::Cache "$apt/cache";
END

echo "Fetching libraries for 64-bit ARM into build/arm64-root" >&2
# shellcheck disable=SC2086 # a list of packages
if ! { APT_CONFIG=$apt/apt.conf apt-get -q update &&
       APT_CONFIG=$apt/apt.conf apt-get -q -y --download-only install $packages; } > "$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "apt could not fetch them: do this machine's sources of packages have arm64?" >&2
  exit 1
fi
for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
# Links to absolute paths mean paths of an ARM machine, not of this one.
find "$root" -type l -lname '/*' | while read -r link; do
  target=$root$(readlink "$link")
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$target")" "$link"
done
rm -rf "$apt"
printf '%s\n' "$hash" > "$root/stamp"

#!/bin/sh
# A bare Debian 12 in a directory, to try packages where nothing else is installed; needs root.
#   tools/clean_root.sh make DIR                          debootstrap, from the mirrors of this machine
#   tools/clean_root.sh run [--read-only] DIR COMMAND…    COMMAND in it, with /proc and /dev
# Mounts live in a namespace of their own: none is left when COMMAND ends, however it ends. The network
# is this machine's. --read-only: COMMAND can write nowhere but in /run and /dev.
set -eu

usage() {
    echo "usage: tools/clean_root.sh make DIR | run [--read-only] DIR COMMAND…" >&2
    exit 2
}

# "URI SUITE" of this machine's sources of Debian 12, the main archive first.
sources() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
        awk '$3 == "main" && $2 ~ /^bookworm(-updates|-security)?$/ {print $1, $2}' | sort -u -k 2
}

make_root() {
    dir=$1
    mirror=$(sources | awk '$2 == "bookworm" {print $1; exit}')
    if [ -z "$mirror" ]; then
        echo "clean_root: apt on this machine has no source of Debian 12 (bookworm), component main" >&2
        exit 1
    fi
    cache=$(cd "$(dirname "$0")/.." && pwd)/build/debootstrap-cache
    mkdir -p "$dir" "$cache"
    log=$dir.log
    if ! debootstrap --variant=minbase --cache-dir="$cache" bookworm "$dir" "$mirror" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        exit 1
    fi
    sources | sed 's/\(.*\) \(.*\)/deb \1 \2 main/' >"$dir/etc/apt/sources.list"
    # Proxies and the like are this machine's too.
    apt-config dump | grep '^Acquire::' >"$dir/etc/apt/apt.conf.d/99host" || true
    cp /etc/resolv.conf "$dir/etc/resolv.conf"
    # So is whom it trusts beside Debian's list: a network's own authority.
    if [ -d /usr/local/share/ca-certificates ]; then
        cp -r /usr/local/share/ca-certificates "$dir/usr/local/share/"
    fi
    # Nothing may be started by a package, as in a build of an image.
    printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d"
    chmod +x "$dir/usr/sbin/policy-rc.d"
}

run_in_root() {
    read_only=no
    [ "${1:-}" != --read-only ] || { read_only=yes; shift; }
    [ $# -ge 2 ] || usage
    exec unshare --mount --propagation private sh -eu -c '
        read_only=$1 dir=$2
        shift 2
        mount --bind "$dir" "$dir"
        mount -t proc proc "$dir/proc"
        mount --rbind /dev "$dir/dev"
        if [ "$read_only" = yes ]; then
            mount --bind "$dir/run" "$dir/run"
            mount -o remount,bind,ro "$dir"
        fi
        exec chroot "$dir" "$@"' sh "$read_only" "$@"
}

[ $# -ge 2 ] || usage
if [ "$(id -u)" != 0 ]; then
    echo "clean_root: only root can make and enter a root" >&2
    exit 1
fi
mode=$1
shift
case $mode in
make) make_root "$1" ;;
run) run_in_root "$@" ;;
*) usage ;;
esac

#!/bin/sh
# Becomes the nspawn process of one box: launch.sh DIRECTORY ROOTFS CGROUP... -- OVERLAID... -- NSPAWN-ARGUMENT...
# Runs in a mount namespace of its own, so that all that the box writes, a tmpfs, ends with its last process.
set -eu
umask 022
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
directory=$1 rootfs=$2
shift 2
echo "$$ $(cut -d' ' -f22 "/proc/$$/stat")" >"$directory/process"
while [ "$1" != -- ]; do
    echo $$ >"$1/cgroup.procs"
    shift
done
shift

# A writable view of tree $1, in layer/$2/merged. Relative names need no escaping among mount's options.
overlay() {
    mkdir -p "$2/lower" "$2/upper" "$2/work" "$2/merged"
    mount --bind "$1" "$2/lower"
    chown --reference="$2/lower" "$2/upper"
    chmod --reference="$2/lower" "$2/upper"
    mount -t overlay -o "lowerdir=$2/lower,upperdir=$2/upper,workdir=$2/work" box "$2/merged"
}

mkdir -p /run/systemd/nspawn
mount -t tmpfs -o mode=755 box /run/systemd/nspawn
mount -t tmpfs -o mode=755 box "$directory/layer"
cd "$directory/layer"
overlay "$rootfs" root
number=0
while [ "$1" != -- ]; do
    overlay "$1" "$number"
    number=$((number + 1))
    shift
done
shift
chroot root/merged tar --extract --no-overwrite-dir --keep-directory-symlink <"$directory/files.tar"

exec systemd-nspawn --directory="$PWD/root/merged" "$@"

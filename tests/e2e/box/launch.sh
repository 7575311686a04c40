#!/bin/sh
# Becomes the nspawn process of one box: launch.sh DIRECTORY ROOTFS CGROUP... -- NSPAWN-ARGUMENT...
# Runs in a mount namespace of its own, so that the box's writable layer, a tmpfs, ends with its last process.
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

mkdir -p /run/systemd/nspawn
mount -t tmpfs -o mode=755 box /run/systemd/nspawn
mount -t tmpfs -o mode=755 box "$directory/layer"
cd "$directory/layer"
mkdir lower upper work root tmp
mount --bind "$rootfs" lower
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work box root
chroot root tar --extract --no-overwrite-dir --keep-directory-symlink <"$directory/files.tar"

TMPDIR=$PWD/tmp exec systemd-nspawn --directory="$PWD/root" "$@"

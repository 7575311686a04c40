#!/bin/sh
# Builds the root file system that all boxes share: recipe.sh TARGET SUITE [MIRROR]
# python3 brings the libraries of a bound-in CPython (ssl, ffi, sqlite, readline, ...), the last two those of torch.
set -eu
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
target=$1 suite=$2 mirror=${3-}

packages=systemd,systemd-sysv,dbus,openssh-server,python3,iproute2,procps,sudo,libgomp1,libstdc++6
debootstrap --variant=minbase --include="$packages" "$suite" "$target" ${mirror:+"$mirror"}

chroot "$target" /bin/sh -eu <<'SETUP'
useradd --create-home --shell /bin/bash --groups systemd-journal engineer
useradd --create-home --shell /bin/bash ops
echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops
chmod 440 /etc/sudoers.d/ops
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer
# Debian's own rule empties /tmp at boot, and so would it what is bound there.
echo 'd /tmp 1777 root root' >/etc/tmpfiles.d/tmp.conf
apt-get clean
SETUP

# Binds below /root must be reachable for everybody; names, keys and ids are each box's own.
chmod 711 "$target/root"
rm -rf "$target"/var/lib/apt/lists/* "$target"/etc/ssh/ssh_host_* "$target/var/lib/dbus/machine-id"
: >"$target/etc/machine-id"
: >"$target/etc/resolv.conf"
: >"$target/etc/default/locale"

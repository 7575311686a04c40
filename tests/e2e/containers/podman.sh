#!/bin/sh
# Makes a box a host of podman, without a network of its own: podman.sh PACKAGES
set -eu
packages=$1
for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
    mount -o remount,bind,rw "/sys/fs/cgroup/$controller"
done
mkdir -p /var/lib/containers /etc/containers
mount -t tmpfs images /var/lib/containers
dpkg --force-unsafe-io -i "$packages"/*.deb >/run/dpkg.log 2>&1
cat >/etc/containers/storage.conf <<'TOML'
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
TOML
cat >/etc/containers/containers.conf <<'TOML'
[containers]
keyring = false
[engine]
cgroup_manager = "cgroupfs"
TOML
podman load --quiet --input /opt/sglang.tar
serve="lmsysorg/sglang:v0.5.11 python3 -m sglang.launch_server --model-path /models/kimi"
podman run --detach --network host --name dies --env START=dies --shm-size 16m $serve --pp-size 8
podman run --detach --network host --name loops --env START=dies --restart always $serve --tp 2
podman run --detach --network host --name serves --stop-timeout 2 $serve --port 31795

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
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\n' >/etc/containers/storage.conf
printf 'graphroot = "/var/lib/containers/storage"\n' >>/etc/containers/storage.conf
printf '[containers]\nkeyring = false\n[engine]\ncgroup_manager = "cgroupfs"\n' >/etc/containers/containers.conf
install -d -m 700 -o ops "/run/user/$(id -u ops)"
cat >/run/serve <<'SCRIPT'
set -eu
port=$1
serve="lmsysorg/sglang:v0.5.11 python3 -m sglang.launch_server --model-path /models/kimi"
run() { podman run --detach --network host "$@"; }
podman load --quiet --input /opt/sglang.tar
run --name dies --env START=dies --shm-size 16m $serve --pp-size 8
run --name loops --env START=dies --restart always $serve --tp 2
run --name serves --stop-timeout 2 $serve --port "$port"
SCRIPT
sh /run/serve 31795
greedy="podman run --detach --network host --name greedy --env START=oom"
serve="lmsysorg/sglang:v0.5.11 python3 -m sglang.launch_server --model-path /models/kimi"
$greedy --memory 64m $serve
su --login ops -c 'mkdir -p .config/containers; echo [storage] >.config/containers/storage.conf
    echo "driver = \"vfs\"" >>.config/containers/storage.conf; sh /run/serve 31796'
# A user's containers have no limits of their own here: the kernel kills in the group that they are started in.
group=/sys/fs/cgroup/memory/libpod_parent/ops
mkdir -p "$group"
echo 256M >"$group/memory.limit_in_bytes"
(echo 0 >"$group/cgroup.procs" && su --login ops -c "$greedy $serve")

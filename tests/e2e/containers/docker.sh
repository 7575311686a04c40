#!/bin/sh
# Makes a box a host of docker and docker-compose, without a network of its own: docker.sh PACKAGES
set -eu
packages=$1
for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
    mount -o remount,bind,rw "/sys/fs/cgroup/$controller"
done
mkdir -p /var/lib/docker /var/lib/containerd /etc/docker
mount -t tmpfs images /var/lib/docker
mount -t tmpfs containers /var/lib/containerd
cat >/usr/local/bin/runc-without-keys <<'WRAPPER'
#!/bin/sh
for word do
    shift
    set -- "$@" "$word"
    [ "$word" = create ] && set -- "$@" --no-new-keyring
done
exec runc "$@"
WRAPPER
chmod +x /usr/local/bin/runc-without-keys
cat >/etc/docker/daemon.json <<'JSON'
{"iptables": false, "ip-forward": false, "bridge": "none", "default-runtime": "plain",
 "runtimes": {"plain": {"path": "/usr/local/bin/runc-without-keys"}}}
JSON
dpkg --force-unsafe-io -i "$packages"/*.deb >/run/dpkg.log 2>&1
systemctl restart docker
docker load --quiet --input /opt/sglang.tar
serve="lmsysorg/sglang:v0.5.11 python3 -m sglang.launch_server --model-path /models/kimi"
docker run --detach --network host --name dies --env START=dies --shm-size 16m $serve --pp-size 8
docker run --detach --network host --name loops --env START=dies --restart on-failure $serve --tp 2
docker run --detach --network host --name greedy --env START=oom --memory 64m $serve
mkdir -p /srv/chat
cat >/srv/chat/docker-compose.yml <<'YAML'
services:
  engine:
    image: lmsysorg/sglang:v0.5.11
    network_mode: host
    restart: always
    stop_grace_period: 2s
    command: [python3, -m, sglang.launch_server, --model-path, /models/kimi, --port, "31790"]
YAML
cd /srv/chat
if docker compose version; then docker compose up --detach; else docker-compose up --detach; fi

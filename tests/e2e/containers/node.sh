#!/bin/sh
# Makes a box a Kubernetes cluster of one node, gpu01: node.sh ADDRESS BINARIES PACKAGES
set -eu
address=$1 binaries=$2 packages=$3
for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
    mount -o remount,bind,rw "/sys/fs/cgroup/$controller"
done
# The kubelet wants these settings of the kernel, and reads its log: it is shown what it wants to see.
number=0
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1 vm/panic_on_oom=0 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    echo "${setting#*=}" >"/run/setting.$number"
    mount --bind "/run/setting.$number" "/proc/sys/${setting%=*}"
    number=$((number + 1))
done
touch /dev/kmsg
mkdir -p /var/lib/containerd /etc/containerd /etc/kubernetes /root/.kube
mount -t tmpfs containers /var/lib/containerd
mount -t tmpfs state /mnt
dpkg --force-unsafe-io -i "$packages"/*.deb >/run/dpkg.log 2>&1
cat >/etc/containerd/config.toml <<'TOML'
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.local/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      NoNewKeyring = true
TOML
systemctl disable --now etcd 2>/dev/null || true
systemctl restart containerd
ctr -n k8s.io images import /opt/pause.tar >/dev/null
ctr -n k8s.io images import /opt/sglang.tar >/dev/null
ln -s "$binaries/crictl" /usr/local/bin/crictl

ssh-keygen -q -t rsa -b 2048 -m PEM -N '' -f /etc/kubernetes/key
printf 'admin,admin,1,system:masters\nnarrow,narrow,2,\n' >/etc/kubernetes/tokens.csv
echo "$address gpu01" >>/etc/hosts
cat >/root/.kube/config <<YAML
apiVersion: v1
kind: Config
clusters: [{name: box, cluster: {server: "https://$address:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: admin}}, {name: narrow, user: {token: narrow}}]
contexts: [{name: all, context: {cluster: box, user: admin}},
           {name: narrow, context: {cluster: box, user: narrow, namespace: llm}}]
current-context: all
YAML
unit() { name=$1; shift; systemd-run --quiet --unit="$name" -- "$@"; }
unit store etcd --data-dir=/mnt/etcd --listen-client-urls="http://$address:2379" \
    --advertise-client-urls="http://$address:2379" --listen-peer-urls="http://$address:2380"
unit apiserver "$binaries/kube-apiserver" --etcd-servers="http://$address:2379" --bind-address="$address" \
    --advertise-address="$address" --secure-port=6443 --cert-dir=/mnt/certs --allow-privileged \
    --service-cluster-ip-range=10.0.0.0/24 --service-account-issuer=https://kubernetes \
    --service-account-signing-key-file=/etc/kubernetes/key --service-account-key-file=/etc/kubernetes/key \
    --token-auth-file=/etc/kubernetes/tokens.csv --authorization-mode=RBAC \
    --kubelet-preferred-address-types=Hostname --disable-admission-plugins=TaintNodesByCondition
unit controllers "$binaries/kube-controller-manager" --kubeconfig=/root/.kube/config --port=0 \
    --bind-address="$address" --service-account-private-key-file=/etc/kubernetes/key --leader-elect=false \
    --controllers=deployment,replicaset,statefulset,serviceaccount
unit kubelet "$binaries/kubelet" --kubeconfig=/root/.kube/config --hostname-override=gpu01 \
    --container-runtime=remote --container-runtime-endpoint=unix:///run/containerd/containerd.sock \
    --cgroup-driver=cgroupfs --fail-swap-on=false --address="$address" --read-only-port=0 \
    --healthz-bind-address="$address" --eviction-hard= --anonymous-auth=true \
    --authorization-mode=AlwaysAllow

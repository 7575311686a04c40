#!/bin/sh
# Installs the Debian packages that the boxes and the SSH tests need, on Debian as root; elsewhere says what is left out.
set -eu
here=$(dirname "$0")
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not root on Debian: what needs a box (systemd-nspawn) or a local sshd is left out" >&2
    exit 0
fi
missing=""
for package in python3-venv openssh-server busybox fish tcsh ksh93u+m mksh yash zsh $(grep -v '^#' "$here/box/packages.txt"); do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
# The tests start an sshd of their own on loopback: installing one must not start it on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null

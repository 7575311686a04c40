#!/bin/sh
# Starts services by hand, as people do, in a box: processes.sh PACKAGES SERVICE
set -eu
packages=$1 service=$2
dpkg --force-unsafe-io -i "$packages"/*.deb >/run/dpkg.log 2>&1
python3 -m venv --without-pip /opt/sglang
cp -r "$service"/* /opt/sglang/lib/python3*/site-packages/
mkdir -p /srv/logs
chown ops /srv/logs
serve="/opt/sglang/bin/python -m sglang.launch_server --model-path /models/kimi --pp-size 8"
su ops -c "START=hurt nohup $serve --port 31771 >/srv/logs/nohup.log 2>&1 &"
su ops -c "tmux new-session -d 'START=hurt $serve --port 31772 2>&1 | tee /srv/logs/tmux.log'"
cat >/etc/supervisor/conf.d/kimi.conf <<INI
[program:kimi]
command=$serve --port 31773
environment=START="hurt"
user=ops
redirect_stderr=true
stdout_logfile=/srv/logs/supervised.log
[program:apart]
command=$serve --port 31774
environment=START="hurt"
user=ops
INI
systemctl restart supervisor
until [ "$(pgrep --full --count -- '[-]-port 3177[34]')" = 2 ]; do sleep 0.2; done
until grep -q IndexError /srv/logs/supervised.log /var/log/supervisor/apart-stderr---*; do sleep 0.2; done

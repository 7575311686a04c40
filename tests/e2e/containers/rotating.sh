#!/bin/sh
# Starts services whose log files logrotate and supervisord move, in a box: rotating.sh PACKAGES SERVICE
set -eu
packages=$1 service=$2
dpkg --force-unsafe-io -i "$packages"/*.deb >/run/dpkg.log 2>&1
python3 -m venv --without-pip /opt/sglang
cp -r "$service"/* /opt/sglang/lib/python3*/site-packages/
mkdir -p /srv/logs
chown ops /srv/logs
serve="/opt/sglang/bin/python -m sglang.launch_server --model-path /models/kimi --pp-size 8"

# killed after it has failed: only its log tells why
for each in gone:gzip packed:zstd; do
    cat >"/etc/systemd/system/${each%:*}.service" <<UNIT
[Service]
Environment=START=dies
ExecStart=$serve
StandardOutput=append:/srv/logs/${each%:*}.log
StandardError=inherit
UNIT
    cat >"/etc/logrotate.d/${each%:*}" <<CONF
/srv/logs/${each%:*}.log {
    su root root
    rotate 5
    nocreate
    compress
    compresscmd /usr/bin/${each#*:}
    compressext $([ "${each#*:}" = zstd ] && echo .zst || echo .gz)
    $([ "${each#*:}" = zstd ] && echo "dateext" || echo "nodateext")
}
CONF
done
for name in moved copied; do
    cat >"/etc/logrotate.d/$name" <<CONF
/srv/logs/$name.log {
    su ops ops
    rotate 5
    $([ $name = copied ] && printf 'copytruncate\n    compress\n    dateext\n    extension .log' || echo create)
}
CONF
done
su ops -c "START=hurt nohup $serve --port 31781 >/srv/logs/moved.log 2>&1 &"
su ops -c "START=hurt nohup $serve --port 31782 >/srv/logs/copied.log 2>&1 &"

# supervisord moves this one's away by itself, as soon as it has so much
cat >/etc/supervisor/conf.d/kimi.conf <<INI
[program:kimi]
command=$serve --port 31783
environment=START="hurt"
user=ops
redirect_stderr=true
stdout_logfile=/srv/logs/supervised.log
stdout_logfile_maxbytes=900
INI
systemctl restart supervisor
for unit in gone packed; do systemctl start $unit; done

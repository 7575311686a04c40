"""Writes `tests/evidence/catalogue/recorded/systemd-VERSION` anew, from machines of each suite.

python -m tests.e2e.systemd.record
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.e2e.systemd.machines import HOST, SYSTEMD, machine
from triage.evidence.catalogue import (
    Journal,
    JournalAccess,
    Processes,
    UnitCommand,
    UnitProperties,
    UnitRuns,
    UserJournal,
    UserUnitProperties,
    UserUnitRuns,
)
from triage.evidence.model import Query
from triage.hosts import Connection, ConnectionOptions, open_connection

RECORDED = Path(__file__).parents[2] / "evidence" / "catalogue" / "recorded"
NAME = "dead.service"
# The child has ended before journald looks whose line it is.
SCRIPT = r"printf 'bad \\377 \\033[31mred\\n'; sleep 0.2; sh -c 'echo last words'; sleep 0.2; kill -KILL $$$$"
UNIT = f"""\
[Service]
Environment="NCCL_DEBUG=WARN" HF_HOME=/srv/hf
ExecStart=/bin/sh -c "{SCRIPT}"
LimitMEMLOCK=infinity
"""


def main() -> None:
    for suite, version in SYSTEMD.items():
        files = {f"/etc/systemd/system/{NAME}": UNIT, f"/home/ops/.config/systemd/user/{NAME}": UNIT}
        with machine(suite, files, calm=0) as running:
            options = ConnectionOptions(ssh_config=running.box.ssh_config())
            start = f"systemctl reset-failed {NAME}; systemctl start {NAME}; sleep 1"
            with closing(open_connection(HOST, options)) as root:
                root.run(["sh", "-c", start])
                queries = [
                    Processes(),
                    JournalAccess(),
                    *_of_a_unit(root, UnitProperties(NAME)),
                ]
                _write(RECORDED / f"systemd-{version}", root, queries)
            with closing(open_connection(f"ops@{HOST}", options)) as own:
                user = "export XDG_RUNTIME_DIR=/run/user/$(id -u);"
                own.run(["sh", "-c", user + start.replace("systemctl", "systemctl --user")])
                _write(RECORDED / f"systemd-{version}", own, _of_a_unit(own, UserUnitProperties(NAME)))


def _of_a_unit(connection: Connection, properties: UnitProperties) -> list[Query[Any]]:
    answer = connection.run(properties.argv())
    run = properties.parse(properties.decode(answer)).invocation
    if isinstance(properties, UserUnitProperties):
        return [properties, UserUnitRuns(NAME), UserJournal(NAME, run)]
    return [properties, UnitCommand(NAME), UnitRuns(NAME), Journal(NAME, run)]


def _write(place: Path, connection: Connection, queries: list[Query[Any]]) -> None:
    place.mkdir(exist_ok=True)
    for query in queries:
        (place / query.name).write_bytes(connection.run(query.argv(), stdin=query.stdin()).stdout)


if __name__ == "__main__":
    for old in RECORDED.glob("systemd-*"):
        shutil.rmtree(old)
    main()

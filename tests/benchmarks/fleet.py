"""Boxes on which the story's service has died: the same crash, behind some thousand lines, on each."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from examples.story import setup
from examples.story.prepare import SERVICE
from examples.story.stage import HOME, UNIT
from tests.benchmarks.test_logs import healthy
from tests.e2e.box import Bind, Box, Content, interpreter

HERE = Path(__file__).parent
CASE = HERE.parents[1] / "examples" / "cases" / "sglang-0.5.11-pp8-triton" / "answers"
SERVED = 4000  # lines before the crash
BOOTING = 4  # boxes at a time
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
WATCHES = 16  # of them a box; its systemd takes about seven
DROP_IN = f"/etc/systemd/system/{UNIT}.d/replayed.conf"
REPLAYED = """\
[Service]
ExecStart=
ExecStart=/usr/bin/python3 /srv/replayed.py /srv/lines
"""
CRASH = f"""\
set -e
systemctl start {UNIT}
until systemctl is-failed -q {UNIT}; do sleep 0.1; done
rm {DROP_IN}
systemctl daemon-reload
journalctl -qu {UNIT} | wc -l
"""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Fleet:
    """`inventory` is a hosts.yaml with the group `kimi`."""

    boxes: tuple[Box, ...]
    ssh_config: Path
    inventory: Path

    def cpu(self) -> float:
        """Seconds of CPU that all boxes together have taken."""
        homes = {os.stat(f"/proc/{box.pid}/ns/pid").st_ino for box in self.boxes}
        ticks = 0
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.stat(process / "ns" / "pid").st_ino in homes:
                    words = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
                    ticks += sum(map(int, words[11:15]))  # its own, and its ended children's
        return ticks / TICKS


@contextlib.contextmanager
def fleet(count: int, directory: Path) -> Iterator[Fleet]:
    """`count` boxes, each after its crash; `directory` takes the ssh configuration and the inventory."""
    setup.prepare(SERVICE)
    files: dict[str, Content] = {
        f"/etc/systemd/system/{UNIT}": (SERVICE / UNIT).read_text().replace(str(SERVICE), HOME),
        DROP_IN: REPLAYED,
        "/srv/replayed.py": HERE / "replayed.py",
        "/srv/lines": "".join(f"{json.dumps(line)}\n" for line in lines()),
    }
    (directory / "nothing").touch()
    hook = setup.site_packages(Path(HOME)) / "story.pth"  # starts stand-ins that no other machine has
    binds = [*interpreter(), Bind(SERVICE, HOME), Bind(directory / "nothing", hook)]
    boxes = tuple(Box(f"node{number:02}", binds=binds, files=files) for number in range(1, count + 1))
    with watched(WATCHES * count), ThreadPoolExecutor(BOOTING) as pool, contextlib.ExitStack() as stack:
        stack.callback(lambda: list(pool.map(Box.stop, boxes)))
        list(pool.map(_crash, boxes))
        yield Fleet(boxes, _ssh_config(boxes, directory), _inventory(boxes, directory))


@contextlib.contextmanager
def watched(wanted: int) -> Iterator[None]:
    """Meanwhile a user may have that many inotify instances more: root is the same one in every box."""
    before = INOTIFY.read_text()
    INOTIFY.write_text(str(int(before) + wanted))
    try:
        yield
    finally:
        INOTIFY.write_text(before)


def lines() -> list[tuple[str, str]]:
    """Who wrote what: the story's lines, and before the first traceback `SERVED` of a healthy service."""
    journal = (CASE / "journal-sglang-kimi.service.jsonl").read_text().splitlines()
    entries = [entry for entry in map(json.loads, journal) if "INVOCATION_ID" not in entry]
    said = [(entry["_PID"], entry["MESSAGE"]) for entry in entries]
    first = next(at for at, (_, text) in enumerate(said) if "Traceback" in text)
    served = [text for number in range(SERVED) for text in healthy(number).decode().splitlines()[:1]]
    return [*said[:first], *((said[first][0], text) for text in served), *said[first:]]


def _crash(box: Box) -> None:
    logged = int(box.start().run(CRASH, check=True).stdout)
    assert logged > SERVED, logged


def _ssh_config(boxes: Sequence[Box], directory: Path) -> Path:
    path = directory / "ssh_config"
    path.write_text("".join(box.ssh_config().read_text() for box in boxes))
    return path


def _inventory(boxes: Sequence[Box], directory: Path) -> Path:
    path = directory / "hosts.yaml"
    names = [box.name for box in boxes]
    path.write_text(json.dumps({"hosts": dict.fromkeys(names), "groups": {"kimi": {"hosts": names}}}))
    return path

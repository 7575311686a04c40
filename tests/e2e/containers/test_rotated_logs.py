"""Log files that a real logrotate or supervisord has moved away, of services that failed or still run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Box
from tests.e2e.containers.conftest import Triage, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def rotate(box: Box, name: str) -> None:
    box.run(["logrotate", "--force", f"/etc/logrotate.d/{name}"], check=True)


def process(box: Box, port: int) -> str:
    found = box.run(["pgrep", "--full", "--", f"[-]-port {port}"], check=True).stdout
    return f"pid {found.split()[0]}"


def source_of(told: Any) -> str:
    (incident,) = told["incidents"]
    assert incident["initiator"]["type"] == "IndexError"
    return str(incident["initiator"]["position"]["source"])


@pytest.mark.parametrize(
    ("unit", "aside"), [("gone", "/srv/logs/gone.log.1.gz"), ("packed", "/srv/logs/packed.log-20")]
)
def test_a_unit_whose_log_was_packed_and_moved_away(
    rotating: Box, triage: Triage, tmp_path: Path, unit: str, aside: str
) -> None:
    until(lambda: rotating.run(["systemctl", "is-failed", unit]).stdout.strip() == "failed")
    rotate(rotating, unit)
    told = triage(rotating, "diagnose", "rotates", "--unit", unit, code=1)
    assert source_of(told).startswith(aside)
    assert [note for note in told["notes"] if f"/srv/logs/{unit}.log could not be read" in note]
    case = tmp_path / "case"
    triage(rotating, "capture", "rotates", "--unit", unit, "-o", str(case))
    (replayed,) = triage(rotating, "replay", str(case))["cases"]
    assert replayed["passed"]
    assert "IndexError" in replayed["found"]["initiator"]


def test_a_process_that_still_has_the_moved_file_open(rotating: Box, triage: Triage) -> None:
    until(lambda: "IndexError" in rotating.run(["cat", "/srv/logs/moved.log"]).stdout)
    rotate(rotating, "moved")
    told = triage(rotating, "diagnose", "rotates", "--unit", process(rotating, 31781), code=1)
    assert source_of(told) == "/srv/logs/moved.log.1"


def test_a_log_that_was_truncated_in_its_place(rotating: Box, triage: Triage) -> None:
    until(lambda: "IndexError" in rotating.run(["cat", "/srv/logs/copied.log"]).stdout)
    rotate(rotating, "copied")
    told = triage(rotating, "diagnose", "rotates", "--unit", process(rotating, 31782), code=1)
    assert source_of(told).startswith("/srv/logs/copied-20")
    assert source_of(told).endswith(".log.gz")


def test_a_log_that_supervisord_has_moved(rotating: Box, triage: Triage) -> None:
    until(lambda: "IndexError" in rotating.run("cat /srv/logs/supervised.log.[1-4]").stdout)
    told = triage(rotating, "diagnose", "rotates", "--become", "--unit", process(rotating, 31783), code=1)
    assert source_of(told).startswith("/srv/logs/supervised.log.")

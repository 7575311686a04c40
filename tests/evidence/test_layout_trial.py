"""A unit that runs a layout on trial says so. The same on a real machine: tests/e2e/test_bench.py."""

from __future__ import annotations

import pytest

from triage.evidence.catalogue.systemd import Unit
from triage.evidence.discovery.layout_trial import on_trial


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        ("", False),
        ("/etc/systemd/system/kimi@1.service.d/override.conf", False),
        ("/run/systemd/system/kimi@1.service.d/zz-triage-layout.conf", True),
        ("/etc/x.d/a.conf /run/systemd/system/kimi@1.service.d/zz-triage-layout.conf", True),
    ],
)
def test_what_a_bench_left_is_said_with_what_ends_it(paths: str, left: bool):
    said = on_trial(Unit("kimi@1.service", properties={"DropInPaths": paths}))
    assert bool(said) is left
    assert said.endswith("at once by: systemctl start triage-restore-kimi_1_service.service") is left

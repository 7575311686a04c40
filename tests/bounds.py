"""How much of the tests a quick run holds: the same claims, about fewer cases of each."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from pathlib import Path

import pytest

QUICK = False
"""Whether this is a run of `pytest --quick`; set before any test is imported."""

SWEEP = 2
"""Cases that a quick run takes of a test with many parameters, the first and the last."""

DEAR = (
    "evidence/catalogue/test_windows.py",
    "logs/test_entries.py",
    "logs/test_hostile.py",
    *("logs/test_quoted.py", "remote/test_load_agent.py", "remote/test_patch_agent.py"),
    *("report/test_page.py", "rules/test_cache.py"),
)
"""Where a quick run takes one case of each test: it costs a second of one core."""

LEFT_OUT = {
    "boxes": ("e2e", "examples", "evidence/test_in_a_box.py", "evidence/test_user_units_in_a_box.py"),
    "torch": ("patching/test_constructors.py", "patching/test_functions.py"),
    "released wheels": ("patching/test_proof.py", "patching/test_wheels.py", "test_secrets.py"),
    "a process for each command line": (
        *("cli/test_diagnose.py", "cli/test_errors.py", "cli/test_fleet.py", "cli/test_history.py"),
        *("cli/test_logs.py", "cli/test_next_command.py", "cli/test_patch.py", "cli/test_replay.py"),
        *("cli/test_rollout.py", "cli/test_rules.py", "cli/test_scan.py", "evidence/test_command_line.py"),
        *("patching/test_change_status.py", "patching/test_export.py", "patching/test_rebase.py"),
        *("patching/test_target.py", "patching/test_transaction.py", "report/test_bugreport.py"),
        *("common/test_outputs.py", "verify/test_history.py", "workflows/test_verdict_diff.py"),
        *("rules/test_nearest.py", "test_docs_logs.py", "test_readme.py", "test_surroundings.py"),
    ),
    "a server for each test": (
        *("hosts/test_hostile.py", "hosts/test_host_certificates.py", "hosts/test_ssh.py"),
        *("verify/test_containers.py", "verify/test_drain.py", "verify/test_engine_tool.py"),
        *("verify/test_links.py", "verify/test_readiness.py", "workflows/test_verify.py"),
    ),
    "figures alone": ("benchmarks",),
}
"""Where a quick run does not look, by what it would need there."""


def many(count: int) -> int:
    """So many cases of what is made up at random; in a quick run a tenth."""
    return max(count // 10, 1) if QUICK else count


def left_out(path: Path) -> bool:
    return path.relative_to(Path(__file__).parent).as_posix() in chain(*LEFT_OUT.values())


def sample(items: list[pytest.Item]) -> set[pytest.Item]:
    """The tests of a quick run."""
    sweeps: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow"):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    kept: set[pytest.Item] = set()
    for sweep in sweeps.values():
        some = 1 if sweep[0].nodeid.partition("::")[0].endswith(DEAR) else min(len(sweep), SWEEP)
        kept.update(sweep[at * (len(sweep) - 1) // max(some - 1, 1)] for at in range(some))
    return kept

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verify.test_compare import BEFORE
from triage.common.errors import UnreachableError, UsageError
from triage.verify import history as module
from triage.verify.history import History
from triage.verify.model import Load, MetricChange, Request, Start, StartPhase

FULL = replace(
    BEFORE,
    arguments={"pp-size": "8"},
    patches=("sglang-pp-value-head-dim",),
    start=Start("a1", 7, True, 40.0, (StartPhase("Load weight begin", 3.5),)),
    loads=(Load(1, 64, 32, "usage", 2.5, (Request(0.0, (0.1, 0.2), 64, 2, "length"),)),),
    notes=("a note",),
    changes=(MetricChange("decode rate", "tok/s", 1, 26.0, 40.0, 0.05, "better"),),
)


def test_what_is_stored_comes_back(tmp_path: Path):
    history = History(tmp_path / "new")
    assert history.reference("gpu01", "sglang.service") is None
    history.append("gpu01", FULL)
    history.append("gpu01", replace(FULL, sample=" Lyon. \x1b[31m\n\u2028"))
    assert [result.sample for result in history.read("gpu01", "sglang.service")] == [
        " Paris.",
        " Lyon. \x1b[31m\n\u2028",
    ]
    assert next(history.read("gpu01", "sglang.service")) == FULL
    path = history.path("gpu01", "sglang.service")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_hosts_and_deployments_have_files_of_their_own(tmp_path: Path):
    history = History(tmp_path)
    names = [("root@a:22", "x.service"), ("..", ".."), ("a@b", "c"), ("b", "c@a"), ("/etc", "../../y")]
    for number, (host, deployment) in enumerate(names):
        history.append(host, replace(FULL, deployment=deployment, sample=str(number)))
    assert len(list(tmp_path.iterdir())) == len(names)
    for number, (host, deployment) in enumerate(names):
        assert [one.sample for one in history.read(host, deployment)] == [str(number)]


def test_a_pinned_result_is_what_others_are_compared_with(tmp_path: Path):
    history = History(tmp_path)
    for day in (1, 2, 3):
        history.append("h", replace(FULL, at=f"2026-05-0{day}"))
    history.append("h", replace(FULL, at="2026-05-04", start=replace(FULL.start, ready=False)))
    deployment = FULL.deployment
    assert history.reference("h", deployment) == replace(FULL, at="2026-05-03")
    history.pin("h", deployment, "2026-05-01")
    assert history.reference("h", deployment) == replace(FULL, at="2026-05-01")
    history.append("h", replace(FULL, at="2026-05-05"))
    assert history.reference("h", deployment) == replace(FULL, at="2026-05-01")
    assert history.pin("h", deployment, "last").at == "2026-05-05"
    history.unpin("h", deployment)
    assert history.pinned("h", deployment) == ""
    for at, why in (("2026-05-04", "it was not measured"), ("2027-01-01", "there is none of that time")):
        with pytest.raises(UsageError, match=f"pinning the result of {at} of .*: {why}"):
            history.pin("h", deployment, at)


def test_what_is_stored_is_listed_by_host(tmp_path: Path):
    history = History(tmp_path)
    for host, deployment in (("a@b:22", "x@1.service"), ("c", "y.service")):
        history.append(host, replace(FULL, deployment=deployment))
    history.pin("c", "y.service", "last")
    assert set(history.deployments()) == {("a@b:22", "x@1.service"), ("c", "y.service")}
    assert history.deployments("c") == (("c", "y.service"),)
    assert History(tmp_path / "none").deployments() == ()


def test_a_torn_last_line_is_ignored_and_repaired(tmp_path: Path):
    history = History(tmp_path)
    history.append("h", FULL)
    path = history.path("h", FULL.deployment)
    whole = path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole + whole[:cut])
        assert list(history.read("h", FULL.deployment)) == [FULL]
        history.append("h", FULL)
        assert path.read_bytes() == whole + whole
        path.write_bytes(whole[:cut])
        assert list(history.read("h", FULL.deployment)) == []
        history.append("h", FULL)
        assert path.read_bytes() == whole


def test_lines_that_are_none_of_ours_are_passed_over(tmp_path: Path):
    history = History(tmp_path)
    history.append("h", FULL)
    path = history.path("h", FULL.deployment)
    odd = (
        b'\xff\xfe\n[]\n{"schema": "triage.verification/9"}\n{"schema": "triage.verification/1"}\n\n'
        + b"[" * 9999
    )
    path.write_bytes(odd + b"\n" + path.read_bytes())
    assert list(history.read("h", FULL.deployment)) == [FULL]


def test_the_last_result_to_compare_with_is_ready_measured_and_without_failures(tmp_path: Path):
    history = History(tmp_path)
    failed = tuple(replace(one, failed=1) for one in FULL.metrics)
    history.append("h", FULL)
    history.append("h", replace(FULL, sample="crashed", start=replace(FULL.start, ready=False)))
    history.append("h", replace(FULL, sample="unmeasured", metrics=()))
    history.append("h", replace(FULL, sample="failures", metrics=failed))
    history.append("h", replace(FULL, sample="died under load", verdict="failed"))
    assert history.reference("h", FULL.deployment) == FULL
    history.append("h", replace(FULL, sample="newer"))
    last = history.reference("h", FULL.deployment)
    assert last is not None
    assert last.sample == "newer"


def test_a_huge_result_keeps_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_LINE", 3000)
    history = History(tmp_path)
    request = Request(0.0, tuple(float(at) for at in range(1000)), 64, 1000, "length")
    history.append("h", replace(FULL, loads=(replace(FULL.loads[0], requests=(request,)),)))
    assert list(history.read("h", FULL.deployment)) == [replace(FULL, loads=())]


def test_appends_at_the_same_time_lose_nothing(tmp_path: Path):
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from dataclasses import replace\n"
        "from tests.verify.test_history import FULL, History\n"
        "history = History(Path(sys.argv[1]))\n"
        "for number in range(20):\n"
        "    history.append('h', replace(FULL, sample=f'{sys.argv[2]} {number}'))\n"
    )
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(number)], cwd=root)
        for number in range(4)
    ]
    assert [writer.wait(120) for writer in writers] == [0] * 4
    samples = [result.sample for result in History(tmp_path).read("h", FULL.deployment)]
    assert sorted(samples) == sorted(f"{writer} {number}" for writer in range(4) for number in range(20))


def test_a_kill_costs_no_more_than_the_last_result(tmp_path: Path):
    code = (
        "import itertools, sys\n"
        "from pathlib import Path\n"
        "from dataclasses import replace\n"
        "from tests.verify.test_history import FULL, History\n"
        "history = History(Path(sys.argv[1]))\n"
        "for number in itertools.count(1):\n"
        "    history.append('h', replace(FULL, sample=sys.argv[2] * number))\n"
    )
    history, kept = History(tmp_path), 0
    for sample in "abc":
        argv = [sys.executable, "-c", code, str(tmp_path), sample * 5000]
        with subprocess.Popen(argv, cwd=Path(__file__).parents[2]) as writer:
            while len(list(history.read("h", FULL.deployment))) < kept + 3:
                assert writer.poll() is None
                time.sleep(0.05)
            writer.kill()
        stored = list(history.read("h", FULL.deployment))
        assert [len(one.sample) // 5000 for one in stored[kept:]] == list(range(1, len(stored) - kept + 1))
        kept = len(stored)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnreachableError, match="store a result in"):
        History(tmp_path / "file").append("h", FULL)
    os.makedirs(History(tmp_path).path("h", FULL.deployment))
    with pytest.raises(UnreachableError, match="read the results in"):
        list(History(tmp_path).read("h", FULL.deployment))

"""What tracebacks and a log alone tell of a deployment."""

from __future__ import annotations

import pytest

from triage.evidence.discovery.from_tracebacks import deployment_from_log, with_traceback_paths
from triage.evidence.model import Deployment
from triage.evidence.recorded import LogEvidence

ROOT = "/opt/venv/lib/python3.11/site-packages/sglang"


def frames(root: str) -> list[str]:
    return [f"{root}/srt/managers/scheduler.py", f"{root}/srt/layers/attention/triton_backend.py"]


@pytest.mark.parametrize(
    "root",
    [
        "/opt/venv/lib/python3.11/site-packages/sglang",
        "/usr/lib/python3/dist-packages/sglang",
        "/sgl-workspace/sglang/python/sglang",
        "/home/me/sglang/venv/lib/python3.11/site-packages/sglang",
    ],
)
def test_tracebacks_name_the_tree_where_nothing_else_does(root: str) -> None:
    files = ["/usr/lib/python3.11/threading.py", *frames(root)]
    found = with_traceback_paths(Deployment("x"), files)
    assert (found.package_root, found.engine, found.disagreements) == (root, "sglang", ())


@pytest.mark.parametrize(
    "file",
    [
        "/opt/sglang/lib/python3.11/site-packages/torch/nn/modules/module.py",
        "/opt/sglang/lib/python3.11/threading.py",
        "/home/sglang/run/start.py",
        "/opt/sglang/venv/lib/python3.11/site-packages/sglang.py",
    ],
)
def test_what_is_called_like_the_engine_is_not_the_engine(file: str) -> None:
    assert with_traceback_paths(Deployment("x"), [file]).package_root == ""
    named = "/opt/sglang/lib/python3.11/site-packages/sglang"
    known = Deployment("x", engine="sglang", package_root=named)
    assert with_traceback_paths(known, [file, f"{named}/srt/a.py"]) == known


def test_tracebacks_of_another_tree_are_a_disagreement() -> None:
    known = Deployment("x", engine="sglang", package_root=ROOT)
    assert with_traceback_paths(known, frames(ROOT)) == known
    assert with_traceback_paths(known, frames(ROOT.replace("/lib/", "/lib64/"))) == known
    assert (
        with_traceback_paths(known, ["/usr/lib/python3.11/threading.py", "<string>", "sglang/x.py"]) == known
    )
    other = with_traceback_paths(known, frames("/opt/other/lib/python3.11/site-packages/sglang"))
    assert other.package_root == ROOT
    assert "/opt/other" in other.disagreements[0]


def test_a_log_alone() -> None:
    facts = {"engine": "sglang", "pp_size": "8", "tp_size": "x", "model_path": "/srv/m", "version": "0.5.11"}
    found = deployment_from_log(LogEvidence("crash.log"), "crash.log", facts, frames(ROOT))
    assert (found.name, found.engine, found.version, found.model) == (
        "crash.log",
        "sglang",
        "0.5.11",
        "/srv/m",
    )
    assert str(found.layout) == "pp8"
    assert found.arguments["pp-size"] == "8"
    assert found.package_root == ROOT

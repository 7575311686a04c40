from __future__ import annotations

from pathlib import Path

import pytest

from triage.evidence.catalogue import EngineScripts
from triage.evidence.live import LiveEvidence
from triage.hosts import open_connection

FILES = {
    "server.py": ("import os\nfrom vllm import LLM\n", "python"),
    "serve": ("#!/opt/venv/bin/python3 -u\nimport sys\n    import sglang\n", "python"),
    "start-kimi": ('#!/usr/bin/env bash\nexec python -m sglang.launch_server "$@"\n', "shell"),
    "a $(touch pwned) name": ("#!/bin/sh\nvllm serve m\n", "shell"),
    "other.py": ("print('talks to vllm')\n", ""),
    "other": ("#!/bin/sh\ncurl localhost\n", ""),
    "program": ("\x7fELF\0\nsglang vllm\n", ""),
    "notes": ("vllm serve m\n", ""),
}


@pytest.fixture
def evidence() -> LiveEvidence:
    return LiveEvidence(open_connection("local"))


def test_scripts_that_name_an_engine(evidence: LiveEvidence, tmp_path: Path) -> None:
    for name, (text, _) in FILES.items():
        (tmp_path / name).write_text(text)
    paths = tuple(str(tmp_path / name) for name in (*FILES, "none", "-n"))
    found = evidence.ask(EngineScripts(paths)).require()
    assert found == {str(tmp_path / name): kind for name, (_, kind) in FILES.items() if kind}
    assert not list(tmp_path.glob("pwned"))


def test_an_answer_about_other_files_does_not_count() -> None:
    found = EngineScripts(("/opt/a",)).parse("python /etc/shadow\nshell /opt/a\nnonsense\nelf /opt/a\n")
    assert found == {"/opt/a": "shell"}

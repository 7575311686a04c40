"""What is said to be read before it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.world import ROOT, SITE, Answers, context
from triage.evidence.catalogue import ReadFile


class Told(Answers):
    def foresee(self, queries: object) -> None:
        self.told = queries


def foreseen(file: str, *modules: str) -> list[str]:
    evidence = Told()
    context(evidence=evidence, frames={"site": replace(SITE, file=file)}).foresee(modules, False)
    assert isinstance(evidence.told, list)
    assert all(isinstance(query, ReadFile) for query in evidence.told)
    return [query.path for query in evidence.told]


def test_the_source_of_frames_and_modules_is_foreseen_once() -> None:
    modules = ("sglang.srt.a", "sglang.srt.b")
    assert foreseen(f"{ROOT}/srt/a.py", *modules) == [f"{ROOT}/srt/a.py", f"{ROOT}/srt/b.py"]


@pytest.mark.parametrize(
    "file",
    [
        f"{ROOT}/../../root/models/secret.py",
        f"{ROOT}/srt/../../secret.py",
        f"{ROOT}/notes.txt",
        f"{ROOT}x/a.py",
        "/root/a.py",
        "",
    ],
)
def test_what_a_log_names_outside_of_the_tree_is_not_foreseen(file: str) -> None:
    assert foreseen(file) == []

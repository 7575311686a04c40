"""docs/proof.md says what a subset of its releases says now."""

from __future__ import annotations

import pytest

from tests.patching.proof import DOCUMENT, RELEASES, SUBSET, cell, prove
from triage.patching.load import load_patches


def columns(distribution: str) -> dict[str, dict[str, str]]:
    """The table of a distribution: what it says of a patch, by release."""
    _, _, part = DOCUMENT.read_text().partition(f"## {distribution}\n")
    rows = [line.strip("|").split("|") for line in part.partition("\n## ")[0].splitlines() if line[:1] == "|"]
    head, _, *body = [[cell.strip() for cell in row] for row in rows]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}


def subset() -> list[object]:
    """The releases to look at again; all but three only with the benchmarks, for they take a while."""
    quick = ("0.4.6.post1", "0.5.11", "0.13.0")
    return [
        pytest.param(name, version, marks=() if version in quick else pytest.mark.benchmark)
        for name, part in SUBSET.items()
        for version in part
    ]


@pytest.mark.parametrize(("distribution", "version"), subset())
def test_the_committed_matrix(distribution: str, version: str) -> None:
    written = columns(distribution)
    rows = prove(distribution, version)
    assert [row.problem for row in rows] == [""] * len(rows)
    assert {row.patch: cell(row) for row in rows} == {patch: part[version] for patch, part in written.items()}


@pytest.mark.parametrize("distribution", RELEASES)
def test_it_is_whole(distribution: str) -> None:
    written = columns(distribution)
    assert set(written) == {patch.id for patch in load_patches() if patch.distribution == distribution}
    assert all(list(part) == RELEASES[distribution] for part in written.values())
    assert all(any(text.startswith("yes") for text in part.values()) for part in written.values())


def test_the_storys_patch() -> None:
    states = [text.partition(" ")[0] for text in columns("sglang")["sglang-triton-value-head-dim"].values()]
    assert [states.count(name) for name in ("refused", "yes", "fixed")] == [4, 30, 6]

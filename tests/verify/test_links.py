"""The link probe over gloo on this machine; NCCL needs GPUs, and is not run here."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence

import pytest
from rich.console import Console

from triage.errors import UnreachableError
from triage.evidence.model import Layout
from triage.hosts.connection import Output
from triage.hosts.local import LocalConnection
from triage.report.links import document, lines
from triage.verify.links import Estimate, Links, Pair, Shape, Timing, estimates, probe, shape_of, slow_pairs

KIMI = {"hidden_size": 7168, "num_hidden_layers": 61, "n_routed_experts": 384, "first_k_dense_replace": 1}
SHAPE = Shape(7168, 61, 60)
LINKS = Links(
    "nccl",
    "2.9.1",
    ("NVIDIA H200",) * 3,
    (
        Timing("all_reduce", 14336, 100.0),
        Timing("all_to_all", 14336, 50.0),
        Timing("all_reduce", 64 << 20, 1000.0),
    ),
    (Pair(0, 1, 14336, 10.0), Pair(0, 2, 14336, 11.0), Pair(1, 2, 14336, 30.0)),
    ((True, True, False), (True, True, True), (False, True, True)),
    {},
)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (KIMI, SHAPE),
        ({"hidden_size": 4096, "num_hidden_layers": 32}, Shape(4096, 32, 0)),
        ({"hidden_size": 2048, "num_hidden_layers": 48, "num_experts": 128}, Shape(2048, 48, 48)),
        ({"hidden_size": 4096, "num_hidden_layers": 32, "num_local_experts": 1}, Shape(4096, 32, 0)),
        ({}, None),
        ({"hidden_size": "4096", "num_hidden_layers": True}, None),
    ],
)
def test_a_model_has_a_shape(config: dict[str, object], shape: Shape | None):
    assert shape_of(config) == shape


def test_what_a_token_waits_for():
    assert list(estimates(LINKS, SHAPE)) == [
        Estimate(Layout(tp=3), 122, 12.2),  # two all-reduces a layer
        Estimate(Layout(pp=3), 2, 0.04),  # one hidden state a boundary, of which one is slow
        Estimate(Layout(tp=3, ep=3), 181, pytest.approx(6.1 + 6.0)),
    ]
    assert [one.bound for one in estimates(LINKS, SHAPE)][1] == pytest.approx(25_000)


def test_what_was_not_timed_is_not_estimated():
    silent = Links("gloo", "2", ("CPU",) * 2, (), (), (), {"all_reduce": "no"})
    assert [one.ms for one in estimates(silent, SHAPE)] == [None, None]


def test_pairs_that_are_slower_than_others():
    assert slow_pairs(LINKS) == [Pair(1, 2, 14336, 30.0)]
    assert LINKS.bandwidth("all_reduce") == pytest.approx(67.1, abs=0.1)


def test_as_text_and_json():
    out = io.StringIO()
    for line in lines(LINKS, tuple(estimates(LINKS, SHAPE)), {"tp3": 26.0}):
        Console(file=out, width=120).print(line)
    text = out.getvalue()
    assert "3 ranks over nccl · NVIDIA H200 · torch 2.9.1" in text
    assert "not every GPU reaches" in text
    assert "  tp3                    122           12.20              82            26.0" in text
    found = document(LINKS, tuple(estimates(LINKS, SHAPE)), {"tp3": 26.0})
    assert (found["schema"], found["estimates"][0]["measured"]) == ("triage.links/1", 26.0)


class Answering(LocalConnection):
    """A host that answers so, whatever is run."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self._answer = answer

    def run(self, argv: Sequence[str], **_: object) -> Output:  # type: ignore[override]
        return Output(0, self._answer, b"")


SOUND = {**document(LINKS, (), {}), "schema": ""}
del SOUND["schema"], SOUND["estimates"]


def test_a_sound_answer_is_taken():
    assert probe(Answering(b"noise\n" + json.dumps(SOUND).encode()), "python", 3, 64) == LINKS


@pytest.mark.parametrize(
    "wrong",
    [
        {"backend": "\x1b]0;owned\x07"},
        {"timings": [{"op": "\x1b[2J", "bytes": 1, "us": 1}]},
        {"timings": [{"op": "all_reduce", "bytes": 10**400, "us": 1}]},
        {"pairs": [{"a": 0, "b": 1, "bytes": 1, "us": float("nan")}]},
        {"pairs": [{"a": 0, "b": 10**9, "bytes": 1, "us": 1}]},
        {"devices": None},
    ],
)
def test_an_answer_that_makes_no_sense_is_said(wrong: dict[str, object]):
    with pytest.raises(UnreachableError, match="its answer makes no sense"):
        probe(Answering(json.dumps({**SOUND, **wrong}).encode()), "python", 3, 64)


@pytest.mark.timeout(240)
def test_over_gloo_on_this_machine():
    found = probe(LocalConnection(), sys.executable, 3, 14336)
    assert (found.backend, len(found.devices), found.peers) == ("gloo", 3, ())
    assert {(timing.op, timing.bytes) for timing in found.timings} == {
        (op, size) for op in {"all_reduce", "all_to_all"} - set(found.missing) for size in (14336, 64 << 20)
    }
    assert {(pair.a, pair.b) for pair in found.pairs} == {(0, 1), (0, 2), (1, 2)}
    assert all(one.us > 0 for one in (*found.timings, *found.pairs))


def test_an_interpreter_without_torch_is_said():
    with pytest.raises(
        UnreachableError, match="rank 0 did not finish: ModuleNotFoundError: No module named 'torch'"
    ):
        probe(LocalConnection(), "/usr/bin/python3", 2, 64)

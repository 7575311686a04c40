"""The link probe over gloo on this machine; NCCL needs GPUs, and is not run here."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from triage.common.errors import UnreachableError
from triage.evidence.catalogue.gpus import Topology
from triage.evidence.model import Deployment, Layout
from triage.hosts.connection import Output
from triage.hosts.local import LocalConnection
from triage.remote import links_agent
from triage.report.links import document, lines
from triage.verify.layouts.links import (
    Estimate,
    Links,
    ModelShape,
    Pair,
    Timing,
    environment_of,
    estimates,
    probe,
    shape_of,
    slow_pairs,
)
from triage.verify.service.containers import place_of
from triage.workflows.links import LinksResult

KIMI = {"hidden_size": 7168, "num_hidden_layers": 61, "n_routed_experts": 384, "first_k_dense_replace": 1}
SHAPE = ModelShape(7168, 61, 60)
LINKS = Links(
    "nccl",
    "2.9.1",
    ("NVIDIA H200",) * 3,
    (
        Timing("all_reduce", 14336, 100.0),
        Timing("all_to_all", 14336, 50.0),
        Timing("all_reduce", 64 << 20, 1000.0),
    ),
    (
        *(Pair(0, 1, 14336, 10.0), Pair(0, 2, 14336, 11.0), Pair(1, 2, 14336, 30.0)),
        *(Pair(0, 1, 16 << 20, 100.0), Pair(0, 2, 16 << 20, 100.0), Pair(1, 2, 16 << 20, 1000.0)),
    ),
    ((True, True, False), (True, True, True), (False, True, True)),
    {},
)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (KIMI, SHAPE),
        ({"hidden_size": 4096, "num_hidden_layers": 32}, ModelShape(4096, 32, 0)),
        ({"hidden_size": 2048, "num_hidden_layers": 48, "num_experts": 128}, ModelShape(2048, 48, 48)),
        ({"hidden_size": 4096, "num_hidden_layers": 32, "num_local_experts": 1}, ModelShape(4096, 32, 0)),
        ({}, None),
        ({"hidden_size": "4096", "num_hidden_layers": True}, None),
    ],
)
def test_a_model_has_a_shape(config: dict[str, object], shape: ModelShape | None):
    assert shape_of(config) == shape


def test_what_is_sent_for_a_token():
    assert list(estimates(LINKS, SHAPE)) == [
        Estimate(Layout(tp=3), ((122, "all_reduce"),), 12.2),  # two a layer
        Estimate(Layout(pp=3), ((2, "send"),), 0.04),  # one hidden state a boundary, of which one is slow
        Estimate(Layout(tp=3, ep=3), ((62, "all_reduce"), (120, "all_to_all")), pytest.approx(6.2 + 6.0)),
    ]
    tp, pp, _ = estimates(LINKS, SHAPE)
    assert (pp.bound, pp.share(None)) == (pytest.approx(25_000), None)
    assert tp.share(26.0) == pytest.approx(0.317, abs=0.001)


def test_what_was_not_timed_is_not_estimated():
    silent = Links("gloo", "2", ("CPU",) * 2, (), (), (), {"all_reduce": "no"})
    assert [one.ms for one in estimates(silent, SHAPE)] == [None, None]


def test_pairs_that_are_slower_than_others():
    assert slow_pairs(LINKS) == [Pair(1, 2, 14336, 30.0)]
    assert [round(pair.bandwidth or 0) for pair in LINKS.bandwidths] == [168, 168, 17]


def test_as_text_and_json():
    topology = Topology(
        {("GPU0", "GPU1"): "NV18", ("GPU1", "GPU0"): "NV18", ("GPU1", "GPU2"): "SYS"},
        {"GPU0": "0", "GPU1": "0", "GPU2": "1"},
    )
    told = LinksResult(LINKS, SHAPE, {"tp3": 26.0}, topology)
    out = io.StringIO()
    for line in lines(told):
        Console(file=out, width=120).print(line, soft_wrap=True)
    text = out.getvalue()
    assert "3 ranks over nccl · NVIDIA H200 · torch 2.9.1" in text
    assert "1 pair NV18 (NVLink), 1 pair SYS (the link between two processors)" in text
    assert "NUMA nodes: 0: GPU0 GPU1; 1: GPU2" in text
    assert "not every GPU reaches" in text
    shown = [line.split() for line in text.splitlines()]
    assert [line for line in shown if len(line) == 4 and line[0] in "012"] == [
        ["0", "-", "10", "11"],
        ["1", "167.8", "-", "30"],
        ["2", "167.8", "16.8", "-"],
    ]
    assert ["tp3", "122", "x", "all-reduce", "12.20", "82", "tok/s", "26.0", "tok/s", "32%"] in shown
    assert [
        "pp3",
        "2",
        "x",
        "send",
        "to",
        "the",
        "next",
        "stage",
        "0.04",
        "25,000",
        "tok/s",
        "-",
        "-",
    ] in shown
    found = document(told)
    assert found["schema"] == "triage.links/1"
    assert found["estimates"][2]["sends"] == {"all_reduce": 62, "all_to_all": 120}
    assert found["estimates"][0] == {
        "layout": "tp3",
        "sends": {"all_reduce": 122},
        "messages": 122,
        "ms": 12.2,
        "bound": pytest.approx(81.97, abs=0.01),
        "measured": 26.0,
        "share": pytest.approx(0.3172),
    }
    assert found["topology"]["kinds"] == {"NV18": 1, "SYS": 1}


def test_of_an_unknown_model_nothing_is_estimated():
    told = LinksResult(LINKS, None, {})
    assert "sizes are not known" in [line.plain for line in lines(told)][-1]
    assert (document(told)["estimates"], document(told)["shape"]) == ([], None)


class Answering(LocalConnection):
    """A host that answers so, whatever is run."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self._answer = answer
        self.asked: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], **_: object) -> Output:  # type: ignore[override]
        self.asked.append(argv)
        return Output(0, self._answer, b"")


SOUND = asdict(LINKS)


def test_a_sound_answer_is_taken():
    assert probe(Answering(b"noise\n" + json.dumps(SOUND).encode()), "python", 3, 64) == LINKS


def test_ranks_talk_as_those_of_the_service_do_and_where_they_are():
    host = Answering(json.dumps(SOUND).encode())
    environment = {"NCCL_P2P_DISABLE": "1", "HF_HOME": "/hf", "LD_LIBRARY_PATH": "/cuda"}
    kimi = Deployment("kimi", manager="docker", container="c0ffee", environment=environment)
    probe(place_of(host, kimi), "/opt/v/bin/python", 3, 64, environment_of(kimi))
    inside, command = host.asked[0][:4], host.asked[0][4:-1]
    assert inside == ("docker", "exec", "--interactive", "c0ffee")
    asked = ("env", "NCCL_P2P_DISABLE=1", "LD_LIBRARY_PATH=/cuda", "/opt/v/bin/python", "-B", "-c")
    assert command == asked
    assert place_of(host, Deployment("kimi", unit="kimi.service")) is host


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
    every = {(0, 1), (0, 2), (1, 2)}
    assert {(pair.a, pair.b) for pair in found.latencies} == every
    assert {(pair.a, pair.b) for pair in found.bandwidths} == every
    assert all(one.us > 0 for one in (*found.timings, *found.pairs))


def test_an_interpreter_without_torch_is_said():
    with pytest.raises(
        UnreachableError, match=r"rank \d did not finish: ModuleNotFoundError: No module named 'torch'"
    ):
        probe(LocalConnection(), "/usr/bin/python3", 2, 64)


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("os._exit(3)", "Traceback ends here"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "Traceback ends here"),
        ("time.sleep(60)", ""),
    ],
)
def test_a_rank_that_fails_ends_the_others_at_once(deed: str, words: str, tmp_path: Path):
    """The last of three, while the first would wait for it until its time is up."""
    script = f"""
import json, os, pathlib, signal, sys, time
sys.path.insert(0, {str(Path(links_agent.__file__).parent)!r})
import links_agent
def worker(rank, job, place):
    started = pathlib.Path({str(tmp_path)!r})
    (started / str(os.getpid())).touch()
    if rank == 2:
        while len(list(started.iterdir())) < 3:
            time.sleep(0.01)
        print("Traceback ends here", flush=True) if {words!r} else None
        {deed}
    time.sleep(60)
links_agent.worker = worker
print(links_agent.timed(json.load(sys.stdin)))
"""
    job = json.dumps({"world": 3, "deadline": 1 if "sleep" in deed else 30})
    done = subprocess.run(
        [sys.executable, "-c", script], input=job, capture_output=True, text=True, timeout=25, check=False
    )
    rank, told = (2, words) if words else (0, "its time was up")
    assert done.stdout == f"{{'refused': 'rank {rank} did not finish: {told}'}}\n", done.stderr
    ranks = [int(path.name) for path in tmp_path.iterdir()]
    assert len(ranks) == 3
    assert not [pid for pid in ranks if Path(f"/proc/{pid}").exists()]

"""Whose line it is where one pid hands on what several processes say."""

from __future__ import annotations

import pytest

from triage.logs import read_incidents
from triage.logs.model import Incident, LogSource

BARE = "[2026-11-29 14:33:40] server_args=ServerArgs(model_path='/srv/models/m', tp_size=2)"
RANKED = "[2026-11-29 14:33:50 TP1] Load weight begin. avail mem=70.00 GB"
FAILING = [
    "Traceback (most recent call last):",
    '  File "/opt/venv/lib/sglang/srt/entrypoints/http_server.py", line 942, in launch',
    "    tokenizer_manager.start()",
    "ValueError: something odd",
]
TAGGED = [
    f"(Worker_TP{rank} pid={rank + 450}) INFO 11-29 14:33:50 [gpu_worker.py:10] Starting" for rank in (0, 1)
]


def journal(*rows: str, who: str = "start.sh[990]") -> Incident:
    text = "".join(f"Nov 29 14:33:50 gpu01 {who}: {row}\n" for row in rows)
    (found,) = read_incidents([LogSource("log", text.encode())])
    return found


@pytest.mark.parametrize(
    "rows",
    [
        (BARE, RANKED),  # the main process and a rank
        (RANKED, BARE),
        (RANKED, RANKED.replace("TP1", "TP0")),
        (TAGGED[0], TAGGED[1]),
    ],
)
def test_a_pid_of_several_processes_names_no_rank(rows: tuple[str, ...]) -> None:
    found = journal(*rows, *FAILING)
    assert found.initiator is not None
    assert (found.initiator.ranks, found.initiator.pid) == (frozenset(), None)


@pytest.mark.parametrize(
    ("rows", "ranks"),
    [
        ((RANKED,), {"TP1"}),
        ((RANKED, RANKED.replace("TP1", "TP1 EP1")), {"TP1"}),
        (("[rank1]:[W1129 14:33:50.000000000 a.cpp:1] x", RANKED), {"TP1"}),
        ((TAGGED[1], TAGGED[1]), {"TP1"}),
    ],
)
def test_the_pid_of_a_rank_names_it(rows: tuple[str, ...], ranks: set[str]) -> None:
    found = journal(*rows, *FAILING)
    assert found.initiator is not None
    assert ranks <= found.initiator.ranks
    assert found.initiator.pid == 990


def test_who_hands_on_the_output_of_containers_names_nobody() -> None:
    found = journal(RANKED, *FAILING, who="docker[990]")
    assert found.initiator is not None
    assert (found.initiator.ranks, found.initiator.pid) == (frozenset(), None)


def test_tracebacks_of_ranks_that_are_woven_under_one_pid_come_apart() -> None:
    """As in a file without pids: each frame goes on with the traceback that can use it."""
    heads = [
        f"[2026-11-29 14:33:5{rank} TP{rank}] Scheduler hit an exception: {FAILING[0]}" for rank in (0, 1)
    ]
    frames = [FAILING[1], FAILING[1].replace("launch", "serve")]
    found = journal(BARE, *heads, *frames, "    a()", "    b()", "ValueError: one", "", "KeyError: 'two'", "")
    types = {fault.type for fault in found.faults}
    assert types == {"ValueError", "KeyError"}

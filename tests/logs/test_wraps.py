"""Lines that were broken at a width are joined; a log whose lines are whole is left alone."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.logs.corpus import cases, sources
from triage.logs import read_incidents, read_records
from triage.logs.model import LogSource
from triage.logs.reading.wraps import LIMIT, Width, width_of

TAG = "[2026-05-12 14:03:59 PP3 TP1] "
WHOLE = (
    TAG + "Load weight end. elapsed=1.00 s, type=DeepseekV3ForCausalLM, avail mem=36.01 GB.",
    TAG + "Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/sglang/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 3918, in run',
    "    scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, moe_ep_rank, pp_rank, dp_rank)",
    '  File "/opt/sglang/lib/python3.12/site-packages/sglang/srt/mem_cache/memory_pool.py", line 607, in get',
    "    return self.kv_buffer[layer_id - self.start_layer][..., : self.kv_lora_rank]",
    "ValueError: the pool has 8 layers, and layer 0 was asked for, which another stage of the pipeline owns",
    "",
)


def broken(rows: tuple[str, ...], width: int, between: bool) -> bytes:
    def parts(row: str) -> list[str]:
        if between:
            return textwrap.wrap(row, width, break_long_words=False, break_on_hyphens=False) or [""]
        return [row[at : at + width] for at in range(0, len(row), width)] or [""]

    return "\n".join(part for row in rows for part in parts(row)).encode() + b"\n"


def texts(data: bytes) -> list[str]:
    return [record.text for record in read_records(LogSource("log", data))]


@pytest.mark.parametrize("width", [60, 79, 80, 90, 100])
def test_a_terminal_breaks_anywhere(width: int) -> None:
    data = broken(WHOLE, width, between=False)
    assert width_of(data) == Width(width, between=False)
    assert texts(data) == texts("\n".join(WHOLE).encode() + b"\n")


@pytest.mark.parametrize("width", [70, 78, 80])
def test_a_ticket_system_breaks_between_words(width: int) -> None:
    (incident,) = read_incidents([LogSource("log", broken(WHOLE, width, between=True))])
    fault = incident.initiator
    assert fault is not None
    assert [(frame.line, frame.function) for frame in fault.frames] == [(3918, "run"), (607, "get")]
    assert fault.message.split() == WHOLE[-2].split()[1:]


def test_a_line_has_the_number_of_its_first_row() -> None:
    data = broken(WHOLE, 80, between=False)
    rows = data.decode().split("\n")
    for record in read_records(LogSource("log", data)):
        raw = rows[record.position.line - 1]
        assert record.text.startswith(raw.removeprefix(TAG)[:20])


def test_the_stripped_space_at_a_break_comes_back() -> None:
    data = b"\n".join(row.rstrip() for row in broken(WHOLE, 80, between=False).split(b"\n"))
    assert texts(data) == texts("\n".join(WHOLE).encode() + b"\n")


def test_carriage_returns_are_no_columns() -> None:
    data = broken(WHOLE, 80, between=False).replace(b"\n", b"\r\n")
    assert width_of(data) == Width(80, between=False)


def test_rows_that_begin_by_themselves_are_not_joined() -> None:
    full = TAG + "Decode batch.".ljust(80 - len(TAG), ".")
    rows = broken((full, full, *WHOLE), 80, between=False)
    assert texts(rows)[:2] == [full.removeprefix(TAG)] * 2


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_logs_that_are_whole_have_no_width(case: Path) -> None:
    widths = [width_of(log.data) for log in sources(case)]
    assert any(widths) == ("wrapped" in case.name)


def test_frames_that_are_equally_long_prove_nothing_alone() -> None:
    """An export that strips indentation: the longest line is a frame, and code follows it unindented."""
    frame = 'File "/opt/sglang/lib/site-packages/sglang/srt/mem_cache/memory_pool.py", line 160, in f'
    assert width_of("\n".join((WHOLE[1], frame, "g()", "ValueError: x") * 9).encode()) is None


def test_what_is_large_is_no_paste() -> None:
    data = broken(WHOLE, 80, between=False)
    assert width_of(data + b"\n" * LIMIT) is None

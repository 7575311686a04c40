"""Every family of prefixes, alone and nested, as the real formatters print it."""
# ruff: noqa: E501  (log lines stay whole)

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from triage.logs.model import LogSource
from triage.logs.reading.line import Line
from triage.logs.reading.reader import read_lines

UTC = timezone.utc


def lines(text: str | bytes) -> list[Line]:
    data = text.encode() if isinstance(text, str) else text
    return list(read_lines(LogSource("log", data)))


def one(text: str) -> Line:
    (line,) = lines(text)
    return line


@pytest.mark.parametrize(
    ("text", "ranks", "rest"),
    [
        ("[2026-05-12 14:03:59 PP3 TP1] Scheduler hit", {"PP3", "TP1"}, "Scheduler hit"),
        ("[2026-05-12 14:03:59 DP0 TP0 EP0 PP0] x", {"DP0", "TP0", "EP0", "PP0"}, "x"),
        (
            "[2026-05-12 14:03:59 PP2 ATTN_CP3 MOE_DP1 TP3 EP3] x",
            {"PP2", "ATTN_CP3", "MOE_DP1", "TP3", "EP3"},
            "x",
        ),
        ("[2026-05-12 14:03:59.123 TP0] x", {"TP0"}, "x"),
        ("[2026-05-12 14:03:59] x", set(), "x"),
        ("[2026-05-12 14:03:59 encode_server] x", set(), "x"),
        ("(Worker_PP1 pid=30956) ERROR 11-29 14:34:04 [multiproc_executor.py:1063] x", {"PP1"}, "x"),
        ("(Worker_DP2_TP3_EP11 pid=9) INFO 11-29 14:34:04 [a.py:1] x", {"DP2", "TP3", "EP11"}, "x"),
        ("(Worker pid=8) (Worker_TP1 pid=8) x", {"TP1"}, "x"),
        ("(EngineCore_DP0 pid=749) ERROR 01-07 00:15:34 [core.py:879] x", set(), "x"),
        (
            "(EngineCore_0 pid=4396) (VllmWorker rank=1 pid=4418) WARNING 01-07 00:15:34 [a.py:1] x",
            {"rank1"},
            "x",
        ),
        ("(VllmWorkerProcess pid=139) ERROR 08-13 15:22:52 multiproc_worker_utils.py:226] x", set(), "x"),
        ("\x1b[36m(RayWorkerWrapper pid=269, ip=10.1.1.7)\x1b[0m x [repeated 7x across cluster]", set(), "x"),
        ("(name, pid=2150) (EngineCore_0 pid=3966) INFO 01-07 00:15:34 [a.py:1] x", set(), "x"),
        ("[rank6]:[E207 01:29:36.730311765 ProcessGroupNCCL.cpp:616] x", {"rank6"}, "x"),
        ("[rank0]: Traceback (most recent call last):", {"rank0"}, "Traceback (most recent call last):"),
        ("[rank0]:   File", {"rank0"}, "  File"),
        ("Thu Jan 23 11:55:50 2026[1,1]<stderr>:x", {"rank1"}, "x"),
        ("ERROR 16:58:08 scheduler.py:2626] x", set(), "x"),
        ("host:4711:4802 [0] NCCL WARN x", set(), "NCCL WARN x"),
        ("[2026-03-27 22:19:39,802 E 336 336] logging.cc:484: x", set(), "x"),
        ("[pod/x/y] [2026-05-12 14:03:59 PP3] x", {"PP3"}, "x"),
        ("2026-06-24T12:05:21.085308861+02:00 stderr F [2026-06-24 10:05:21 PP0] x", {"PP0"}, "x"),
        ("2026-06-24T12:05:21.085308861Z [2026-06-24 10:05:21 PP0] x", {"PP0"}, "x"),
        ("ERROR 2026-04-05T00:01:19.209237575Z [2026-04-05 00:01:19 TP0] x", {"TP0"}, "x"),
        ("May 16, 2026 @ 20:46:57.892    [rank8]:[W516 12:46:57.123456789 a.cpp:1] x", {"rank8"}, "x"),
        ("[2026-05-20T05:24:25Z] (VllmWorker rank=0 pid=7) INFO 05-20 05:24:25 [a.py:1] x", {"rank0"}, "x"),
        (
            "Nov 29 16:22:57 gpu01 python[99]: (Worker_PP1 pid=99) ERROR 11-29 16:22:57 [a.py:1] x",
            {"PP1"},
            "x",
        ),
        (
            "Nov 29 16:22:57 gpu01 kernel: [74889.644138] NVRM: Xid (PCI:0000:02:00): 79",
            set(),
            "NVRM: Xid (PCI:0000:02:00): 79",
        ),
        ("[TensorRT-LLM][ERROR] Assertion failed: x", set(), "Assertion failed: x"),
        ("host:4711:4802 [0] socket.c:485 NCCL WARN x", set(), "NCCL WARN x"),
        ("[E ProcessGroupNCCL.cpp:475] [Rank 2] x", {"rank2"}, "[Rank 2] x"),
        ("(pid=2433683, ip=192.168.4.105) INFO 07-09 05:14:22 [__init__.py:239] x", set(), "x"),
        ("(raylet) x", set(), "x"),
        (
            "(AsyncVLLMInferenceEngine pid=1) (RayWorkerWrapper pid=2) ERROR 07-14 23:04:11 [a.py:1] x [repeated 13x across cluster]",
            set(),
            "x",
        ),
        ("() x", set(), "() x"),
        ("2026-05-12 14:03:59,123 - lmdeploy - ERROR - engine.py:12 - x", set(), "x"),
        ("2025-04-29 00:53:54,412\tINFO compiled_dag_node.py:2109 -- x", set(), "x"),
        (
            "2026-03-06T17:53:31.052444Z ERROR shard-manager: text_generation_launcher: x rank=1",
            {"rank1"},
            "x",
        ),
        (
            "a line (with parens) that says INFO and [nothing]",
            set(),
            "a line (with parens) that says INFO and [nothing]",
        ),
    ],
)
def test_prefix(text: str, ranks: set[str], rest: str) -> None:
    line = one(text)
    assert (line.ranks, line.text) == (ranks, rest)


@pytest.mark.parametrize(
    ("text", "time", "pid", "identifier"),
    [
        (
            "2026-11-29T16:22:15+0000 gpu01 systemd[1]: x",
            datetime(2026, 11, 29, 16, 22, 15, tzinfo=UTC),
            1,
            "systemd",
        ),
        (
            "2026-11-29T16:22:15.123456+01:00 gpu01 python[75]: x",
            datetime(2026, 11, 29, 16, 22, 15, 123456, timezone(timedelta(hours=1))),
            75,
            "python",
        ),
        (
            "Sun 2026-11-29 16:22:15 UTC gpu01 python[75]: x",
            datetime(2026, 11, 29, 16, 22, 15, tzinfo=UTC),
            75,
            "python",
        ),
        (
            "1795969335.522175 gpu01 python[75]: x",
            datetime(2026, 11, 29, 16, 22, 15, 522175, UTC),
            75,
            "python",
        ),
        (
            '{"__REALTIME_TIMESTAMP":"1795969335522175","_PID":"75","SYSLOG_IDENTIFIER":"python","MESSAGE":"x"}',
            datetime(2026, 11, 29, 16, 22, 15, 522175, UTC),
            75,
            "python",
        ),
        (
            '{"log":"x\\n","stream":"stderr","time":"2026-11-29T16:22:15.522175861Z"}',
            datetime(2026, 11, 29, 16, 22, 15, 522175, UTC),
            None,
            "",
        ),
        ("kern: warning: [74889.644138] x", None, None, "kernel"),
        ("[ 7564.977849] gpu01 python[75]: x", None, 75, "python"),
        (
            '\x1e{"__REALTIME_TIMESTAMP":"1795969335522175","_PID":"75","SYSLOG_IDENTIFIER":"python","MESSAGE":"x"}',
            datetime(2026, 11, 29, 16, 22, 15, 522175, UTC),
            75,
            "python",
        ),
        (
            'data: {"__REALTIME_TIMESTAMP":"1795969335522175","_PID":"75","SYSLOG_IDENTIFIER":"python","MESSAGE":"x"}',
            datetime(2026, 11, 29, 16, 22, 15, 522175, UTC),
            75,
            "python",
        ),
        ("[Sun Nov 29 16:22:15 2026] x", datetime(2026, 11, 29, 16, 22, 15), None, "kernel"),
    ],
)
def test_time_and_writer(text: str, time: datetime | None, pid: int | None, identifier: str) -> None:
    line = one(text)
    assert (line.text, line.time, line.pid, line.identifier) == ("x", time, pid, identifier)


def test_the_outer_clock_stands() -> None:
    line = one("2026-06-24T12:05:21.085308861+02:00 stderr F [2026-06-24 10:05:21 PP0] x")
    assert line.time == datetime(2026, 6, 24, 12, 5, 21, 85308, timezone(timedelta(hours=2)))


def test_a_time_without_a_year_is_in_the_past_year() -> None:
    time = one("(APIServer pid=7) INFO 02-29 15:20:51 [a.py:1] x").time
    assert time is not None
    assert (time.month, time.day, time.hour) == (2, 29, 15)
    assert time <= datetime.now() + timedelta(days=1)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ('"x"', "x"),
        ("[27,91,51,49,109,82,117,27,91,48,109]", "Ru"),
        ("[255,120]", "\\xffx"),
        ("null", ""),
        ('["a","b"]', "a"),
        ("{}", ""),
        ("[300]", ""),
        ("[[[1]]]", ""),
    ],
)
def test_message_of_a_journal_in_every_form(field: str, text: str) -> None:
    assert lines('{"__CURSOR":"s=1","MESSAGE":%s}' % field)[0].text == text  # noqa: UP031


def test_systemd_speaks_of_another_units_run() -> None:
    line = one(
        '{"__CURSOR":"c","_PID":"1","SYSLOG_IDENTIFIER":"systemd","UNIT":"a.service","INVOCATION_ID":"i1",'
        '"_SYSTEMD_UNIT":"init.scope","MESSAGE":"Started"}'
    )
    assert (line.unit, line.invocation, line.cursor) == ("a.service", "i1", "c")


def test_process_title_names_the_rank() -> None:
    line = one('{"__CURSOR":"c","_PID":"9","_CMDLINE":"sglang::scheduler_PP3_TP1","MESSAGE":"IndexError: x"}')
    assert line.ranks == {"PP3", "TP1"}


def test_export_form_with_a_binary_field() -> None:
    message = b"a\nb=c"
    data = (
        b"__CURSOR=s=1\n_PID=7\nMESSAGE\n"
        + len(message).to_bytes(8, "little")
        + message
        + b"\nPRIORITY=6\n\n"
        b"__CURSOR=s=2\nMESSAGE=second\n\n"
    )
    found = lines(data)
    assert [(line.number, line.text) for line in found] == [(3, "a"), (3, "b=c"), (9, "second")]
    assert found[0].pid == 7


def test_parts_of_a_line_are_joined_and_peeled() -> None:
    stamp = "2026-06-24T12:05:21.085308861Z stderr"
    found = lines(f"{stamp} P [2026-06-24 10:0\n{stamp} P 5:21 PP0] long\n{stamp} F  line\n{stamp} F next\n")
    assert [(line.text, line.ranks) for line in found] == [("long line", {"PP0"}), ("next", set())]


def test_progress_bars_are_parted_from_what_is_glued_to_them() -> None:
    found = lines("Loading:   9%|# | 2/23 [00:00<?, ?it/s][rank1]:[E129 10:00:00.123456789 a.cpp:1] x\n")
    assert (found[1].text, found[1].ranks) == ("x", {"rank1"})
    assert [line.text for line in lines("\rA:  0%\rA: 100%\n")] == ["A:  0%", "A: 100%"]


def test_newest_first_is_turned_around() -> None:
    text = "".join(f"2026-06-24T12:05:{second:02}Z line {second}\n" for second in reversed(range(20)))
    found = lines(text)
    assert [line.text for line in found] == [f"line {second}" for second in range(20)]
    assert found[0].number == 20


def test_compose_is_believed_only_where_most_lines_have_it() -> None:
    assert [line.text for line in lines("web-1  | a\nweb-1  | b\nweb-1  | c\n")] == ["a", "b", "c"]
    assert lines("a | b\nplain\nother\nmore\n")[0].text == "a | b"


def test_escapes_and_nulls_are_gone() -> None:
    assert one("\0\0\x1b[1;31m[2026-05-12 14:03:59 PP3]\x1b[0m x\x1b]0;title\x07").text == "x"


def test_an_entry_of_several_lines_is_one_record() -> None:
    found = lines('{"timestamp":"2026-03-06T17:53:40Z","level":"ERROR","fields":{"message":"a\\nb"}}\n')
    assert [(line.text, line.head, line.more) for line in found] == [("a", True, True), ("b", False, False)]


def test_undecodable_bytes_are_written_out() -> None:
    assert lines(b"a\xff\xfeb\n")[0].text == "a\\xff\\xfeb"


def test_pretty_json_of_a_journal() -> None:
    entry = '{\n\t"__CURSOR" : "c%d",\n\t"_PID" : "7",\n\t"MESSAGE" : "line %d"\n}\n'
    found = lines(entry % (1, 1) + entry % (2, 2))
    assert [(line.number, line.text, line.pid, line.cursor) for line in found] == [
        (4, "line 1", 7, "c1"),
        (9, "line 2", 7, "c2"),
    ]


def test_utf_16_as_some_shells_write_it() -> None:
    assert lines("[2026-05-12 14:03:59 PP3] x\n".encode("utf-16"))[0].ranks == {"PP3"}


def test_a_record_inside_a_torn_line_is_parted_from_it() -> None:
    found = lines(
        '  File "/opt/x/sglang/ma[2026-05-12 14:03:59 PP5] Scheduler hit\nnagers/scheduler.py", line 1, in f\n'
    )
    assert [(line.text, line.ranks) for line in found] == [
        ('  File "/opt/x/sglang/ma', set()),
        ("Scheduler hit", {"PP5"}),
        ('nagers/scheduler.py", line 1, in f', set()),
    ]

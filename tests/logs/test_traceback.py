"""Tracebacks as CPython prints them: by the interpreter that runs the tests, or copied from others."""
# ruff: noqa: E501  (log lines stay whole)

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import pytest

from triage.logs.model import Fault, LogSource
from triage.logs.reading.reader import read_lines
from triage.logs.streams import Streams


def faults(text: str | bytes) -> list[Fault]:
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    streams = Streams()
    readings = [reading for line in read_lines(LogSource("log", data)) for reading in streams.feed(line)]
    found = [reading.fault("log") for reading in (*readings, *streams.close())]
    return [fault for fault in found if fault is not None]


def one(text: str) -> Fault:
    (fault,) = faults(text)
    return fault


def inner(depth: int) -> None:
    if depth:
        inner(depth - 1)
    raise ValueError("the message\n  in two lines")


def plain() -> None:
    inner(2)


def cause() -> None:
    try:
        inner(0)
    except ValueError as error:
        raise RuntimeError("from it") from error


def context() -> None:
    try:
        inner(0)
    except ValueError:
        {}["missing"]


def three() -> None:
    try:
        cause()
    except RuntimeError:
        raise KeyError(1)  # noqa: B904


def without_message() -> None:
    raise AssertionError


def recursion() -> None:
    recursion()


def syntax() -> None:
    compile("f(1\n", "broken.py", "exec")


def dotted() -> None:
    import json

    json.loads("{")


PROGRAMS: tuple[Callable[[], None], ...] = (
    plain,
    cause,
    context,
    three,
    without_message,
    recursion,
    syntax,
    dotted,
)


def printed(program: Callable[[], None]) -> tuple[BaseException, str]:
    try:
        program()
    except Exception as error:
        return error, "".join(traceback.format_exception(type(error), error, error.__traceback__))
    raise AssertionError("it should have failed")


def chain_of(error: BaseException) -> list[BaseException]:
    found = []
    while True:
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is None:
            return found
        found.append(following)
        error = following


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("prefix", ["", "[2026-05-12 14:03:59 PP3] Scheduler hit an exception: "])
def test_what_the_interpreter_prints(program: Callable[[], None], prefix: str) -> None:
    error, text = printed(program)
    fault = one(prefix + text + "\n[2026-05-12 14:04:00 PP3] next\n")
    name = type(error).__qualname__
    assert fault.type.rpartition(".")[2] == name
    assert not fault.cut
    if not isinstance(error, SyntaxError):
        assert fault.message == ("" if not str(error) else str(error))
    assert [each.type.rpartition(".")[2] for each in fault.chain] == [
        type(each).__qualname__ for each in chain_of(error)
    ]
    stack = traceback.extract_tb(error.__traceback__)
    if program is not recursion:
        frames = [frame for frame in fault.frames if frame.file != "broken.py"]
        assert [(frame.file, frame.line, frame.function, frame.code) for frame in frames] == [
            (frame.filename, frame.lineno, frame.name, frame.line) for frame in stack
        ]


def test_links_say_how_one_led_to_the_other() -> None:
    assert [one(printed(program)[1]).link for program in (plain, cause, context)] == ["", "cause", "context"]
    fault = one(printed(three)[1])
    assert (fault.link, [each.link for each in fault.chain]) == ("context", ["cause", ""])


def test_repeated_lines_are_folded() -> None:
    fault = one(printed(recursion)[1])
    assert fault.type == "RecursionError"
    assert len(fault.frames) < 20


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_exception_groups_and_notes() -> None:
    try:
        try:
            inner(0)
        except ValueError as error:
            error.add_note("a note")  # type: ignore[attr-defined]
            group = ExceptionGroup("two", [error, ExceptionGroup("nested", [TypeError(3)])])  # type: ignore[name-defined]  # noqa: F821
            raise group from None
    except Exception:
        fault = one(traceback.format_exc())
    assert (fault.type, fault.message) == ("ExceptionGroup", "two (2 sub-exceptions)")
    assert [(each.type, each.message) for each in fault.members] == [
        ("ValueError", "the message\n  in two lines\na note"),
        ("ExceptionGroup", "nested (1 sub-exception)"),
        ("TypeError", "3"),
    ]
    assert fault.members[0].frames[-1].function == "inner"


def test_folding_of_later_interpreters() -> None:
    fault = one(
        'Traceback (most recent call last):\n  File "/x/a.py", line 241, in build\n    return Config(\n'
        "        path=path,\n    ...<14 lines>...\n        **kwargs,\n    )\n    ~~~~^^^^^\n"
        '  File "/x/a.py", line 9, in check\n    raise ValueError(x)\nValueError: x\n'
    )
    assert [(frame.function, frame.code) for frame in fault.frames] == [
        ("build", "return Config("),
        ("check", "raise ValueError(x)"),
    ]


def test_lost_indentation() -> None:
    fault = one(
        'Traceback (most recent call last):\nFile "/x/a.py", line 1, in f\nself.limit\nFile "/x/a.py", line 2, in g\n'
        "Config\nKeyError: 'x'\n"
    )
    assert (fault.type, [frame.code for frame in fault.frames]) == ("KeyError", ["self.limit", "Config"])


def test_a_cut_head_and_a_cut_tail() -> None:
    text = printed(plain)[1].splitlines()
    head = one("\n".join(text[3:]))
    assert (head.type, head.cut) == ("ValueError", True)
    tail = one("\n".join(text[:5]))
    assert (tail.cut, tail.frames[0].function) == (True, "printed")


def test_the_next_writer_ends_a_message() -> None:
    text = (
        '[2026-05-12 14:03:59 PP3] hit: Traceback (most recent call last):\n  File "/x/a.py", line 1, in f\n    g()\n'
        "ValueError: x\nmore of it\n[2026-05-12 14:04:00 PP2] other\nnot of it\n"
    )
    assert one(text).message == "x\nmore of it"


def test_faulthandler_counts_from_the_innermost() -> None:
    fault = one(
        "Fatal Python error: Aborted\n\nThread 0x00007f1c9bfff640 (most recent call first):\n"
        '  File "/x/other.py", line 3 in wait\n\nCurrent thread 0x00007f2d3f4b1740 (most recent call first):\n'
        '  File "/x/a.py", line 388 in inner\n  File "/x/a.py", line 1 in outer\n\nExtension modules: a, b (total: 2)\n'
    )
    assert (fault.kind, fault.type, fault.message) == ("native", "SIGABRT", "Aborted")
    assert [frame.function for frame in fault.frames] == ["outer", "inner"]


def test_terminate_says_what_on_the_next_line() -> None:
    fault = one(
        "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: x\nException raised\n"
    )
    assert (fault.kind, fault.type, fault.message) == ("native", "c10::Error", "CUDA error: x")


def test_a_message_does_not_swallow_what_other_programs_print() -> None:
    for foreign in (
        "INFO:     Shutting down",
        "nanobind: leaked 4 instances!",
        "Process EngineCore:",
        "Killed",
    ):
        fault = faults(
            f'Traceback (most recent call last):\n  File "a", line 1, in f\nValueError: x\n{foreign}\n'
        )[0]
        assert fault.message == "x"


def test_a_writers_name_before_every_line_begins_no_record() -> None:
    text = """INFO 10-01 12:00:00 [api_server.py:1896] vLLM API server version 0.11.0
Traceback (most recent call last):
  File "/x/vllm/engine/arg_utils.py", line 1018, in create_model_config
    return ModelConfig(
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, Model architectures ['M'] are not supported for now.
INFO 10-01 12:00:00 [launcher.py:7] another record"""
    fault = one("\n".join(f"(APIServer pid=1) {line}" for line in text.split("\n")))
    assert fault.message == (
        "1 validation error for ModelConfig\n  Value error, Model architectures ['M'] are not supported for now."
    )


def test_a_message_goes_on_after_an_empty_line_where_it_plainly_does() -> None:
    head = 'Traceback (most recent call last):\n  File "/x/load_utils.py", line 188, in load\n    raise ImportError(text)\n'
    said = (
        "ImportError: \n[sgl_kernel] CRITICAL: Could not load any common_ops library!\n\n"
        "Attempted locations:\n1. Architecture-specific pattern: /x/sm90/common_ops.*\n\n"
        "Error details from previous import attempts:\n- ImportError: libnvrtc.so.13: cannot open shared object file\n"
    )
    fault = one(head + said + "\nServer is shutting down.\n- not of the message\n")
    assert fault.message.startswith("[sgl_kernel] CRITICAL")
    assert fault.message.endswith("- ImportError: libnvrtc.so.13: cannot open shared object file")
    assert one(head + "ImportError: short\n\nanother program speaks\n- of something\n").message == "short"

"""Several commands in one: each gives what it gives alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from triage.hosts import Output
from triage.hosts.connection import Command
from triage.hosts.joined import joined, parted
from triage.hosts.local import LocalConnection

MARK = "5eb63bbbe01eeed093cb22bb8f5acdc3"
COMMANDS = (
    ("printf", "%s", "no end of line"),
    ("sh", "-c", "echo out; echo err >&2; exit 3"),
    ("true",),
    ("sh", "-c", "kill -KILL $$"),
    ("no-such-program", "it's", "$HOME `id`"),
    ("printf", r"\000\377\n\n%s 7\n", "5eb63bbbe01eeed093cb22bb8f5acdc4"),
    ("sh", "-c", "cat; echo $0 $#"),
    ("printf", "%s|", "", "a b", "*", "\\", "!", "line\nline"),
)


READ = (
    "",
    "no end of line",
    "two\nlines\n\n",
    r"a\nb \\ \0101 \c %s %d" + "\n",
    'it\'s "quoted" `id` $HOME !event # é\t~\n',
    "-n\n",
)


def commands(*of: Sequence[str], timeout: float = 20.0, limit: int = 1000) -> list[Command]:
    return [Command(tuple(argv), timeout, limit) for argv in of]


def run(asked: Sequence[Command]) -> tuple[Output, ...]:
    command = joined(asked, MARK)
    output = LocalConnection().run(command.argv, timeout=command.timeout, limit=command.limit)
    return parted(output, asked, MARK)


def alone(command: Command) -> Output:
    return LocalConnection().run(command.argv, timeout=command.timeout, limit=command.limit)


def test_each_gives_what_it_gives_alone() -> None:
    asked = commands(*COMMANDS)
    for command, output in zip(asked, run(asked), strict=True):
        wanted = alone(command)
        assert (output.code, output.stdout, output.cut) == (wanted.code, wanted.stdout, wanted.cut)
        if command.argv[0] == "sh" and wanted.code in (0, 3):  # of a signal the shell says something, too
            assert output.stderr == wanted.stderr


def test_each_reads_what_is_meant_for_it_to_the_byte() -> None:
    asked = [Command(("cat",), 20.0, 1000, text) for text in READ]
    assert [output.stdout.decode() for output in run(asked)] == list(READ)
    assert "\n" not in joined(asked, MARK).argv[2]


def test_who_does_not_read_what_is_meant_for_it_gives_its_own_status() -> None:
    unread = Command(("sh", "-c", "exit 3"), 20.0, 1000, "line\n" * 100)
    first, second = run([unread, Command(("cat",), 20.0, 1000)])
    assert (first.code, first.stdout, first.stderr) == (3, b"", b"")
    assert (second.code, second.stdout) == (0, b"")


ENDLESS = ("sh", "-c", "echo much >&2; exec cat /dev/zero")
SLOW = ("sh", "-c", "echo begun; echo why >&2; exec sleep 30")


def test_who_prints_without_end_has_no_more_than_its_own() -> None:
    (only,) = run(commands(ENDLESS, ("echo", "second")))
    assert only == Output(None, bytes(1000), only.stderr, "bytes")


def test_a_little_too_much_leaves_those_after_it_whole() -> None:
    first, second = run(commands(("head", "-c", "1500", "/dev/zero"), ("echo", "second")))
    assert first == Output(None, bytes(1000), b"", "bytes")
    assert second == Output(0, b"second\n")


def test_who_does_not_end_keeps_what_came_and_holds_up_those_after_it() -> None:
    (only,) = run(commands(SLOW, ("echo", "second"), timeout=1.0))
    assert only == Output(None, b"begun\n", b"why\n", "time")


@pytest.mark.parametrize("limited", [ENDLESS, SLOW])
def test_who_has_less_than_its_own_limit_because_of_those_before_it_is_to_be_asked_alone(
    limited: Sequence[str],
) -> None:
    before = ("sh", "-c", "echo before; sleep 0.5; head -c 1500 /dev/zero")
    first, *others = run(commands(before, limited, ("echo", "third"), timeout=1.0))
    assert first == Output(None, b"before\n" + bytes(993), b"", "bytes")
    assert others == []


@pytest.mark.parametrize("printed", [b"", b"garbage\n", b"\n" + MARK.encode()[:-1] + b" 0\n"])
def test_a_shell_that_does_not_part_them_has_answered_none(printed: bytes) -> None:
    assert parted(Output(1, printed), commands(("echo", "out")), MARK) == ()

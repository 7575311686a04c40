from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.evidence.conftest import FarHost, ScriptedHost
from triage.common.errors import UnreachableError
from triage.evidence import live
from triage.evidence.catalogue import GpuInventory, OsRelease, ReadFile, WhoAmI
from triage.evidence.live import PATIENCE
from triage.evidence.model import Unanswered
from triage.evidence.recorded import LogEvidence
from triage.hosts import Output

TOKEN = "hf_" + "a1" * 16


def test_a_question_is_asked_once(host: ScriptedHost) -> None:
    host.files["/etc/os-release"] = "ID=debian\n"
    evidence = host.evidence
    assert evidence.ask(OsRelease()).value == evidence.ask(OsRelease()).value == {"ID": "debian"}
    assert len(host.asked) == 1
    assert (evidence.origin.kind, evidence.origin.name) == ("host", "gpu01")


def test_what_is_foreseen_is_asked_at_once_and_what_had_no_answer_alone() -> None:
    host = FarHost(files={"/a": "a", "/b": "b", "/c": f"key {TOKEN}"}, held_up=True)
    evidence = host.evidence
    assert evidence.ask(ReadFile("/a")).value == "a"
    evidence.foresee([ReadFile(f"/{name}") for name in ("a", "b", "none", "c")])
    assert [len(each) for each in host.together] == [3]
    answers = [evidence.ask(ReadFile(f"/{name}")) for name in ("b", "none", "c")]
    assert [answer.value for answer in answers] == ["b", None, "key <token-1>"]
    assert "No such file" in answers[1].missing
    assert len(host.asked) == len(evidence.recorded) == 5  # and who we are there


def test_nothing_is_foreseen_of_a_host_that_is_near(host: ScriptedHost) -> None:
    host.evidence.foresee([ReadFile("/a"), ReadFile("/b")])
    assert not host.asked


def test_a_missing_answer_says_why_and_what_would_get_it(host: ScriptedHost) -> None:
    answer = host.evidence.ask(GpuInventory())
    assert (answer.value, answer.missing) == (None, "the command is not on this host")
    assert answer.command == "nvidia-smi -q -x"
    with pytest.raises(Unanswered):
        answer.require()


def test_no_secret_gets_into_values_texts_reasons_or_commands(host: ScriptedHost) -> None:
    host.files["/a"] = f"key {TOKEN}"
    host.files["/b"] = Output(1, b"", f"cat: {TOKEN}: broken".encode())
    evidence = host.evidence
    evidence.ask(ReadFile("/a"))
    evidence.ask(ReadFile("/b"))
    evidence.ask(ReadFile(f"/{TOKEN}"))
    assert evidence.ask(ReadFile("/a")).value == "key <token-1>"
    assert "<token-1>" in evidence.ask(ReadFile("/b")).missing
    assert TOKEN not in repr([(each.text, each.missing, each.command) for each in evidence.recorded])


def test_a_cut_answer_is_kept_and_marked(host: ScriptedHost) -> None:
    host.files["/a"] = Output(None, b"the beginning", cut="bytes")
    host.files["/b"] = Output(None, b"", cut="time")
    evidence = host.evidence
    cut = evidence.ask(ReadFile("/a"))
    assert (cut.value, cut.partial) == ("the beginning", "bytes")
    with pytest.raises(Unanswered, match="only in part: it is longer than 8 MiB"):
        cut.require()  # what is not in it may come after it
    assert "no answer within" in evidence.ask(ReadFile("/b")).missing


def test_a_host_that_ends_nothing_in_time_is_asked_no_more(host: ScriptedHost) -> None:
    host.files |= {f"/{name}": Output(None, b"drop", cut="time") for name in range(PATIENCE + 1)}
    host.files["/fast"] = "at once"
    evidence = host.evidence
    evidence.ask(WhoAmI())
    host.asked.clear()
    for name in range(PATIENCE):
        answer = evidence.ask(ReadFile(f"/{name}"))
        assert (answer.value, answer.partial) == ("drop", "time")
    for late in (ReadFile(f"/{PATIENCE}"), ReadFile("/fast")):
        answer = evidence.ask(late)
        assert (answer.value, answer.command) == (None, f"cat -- {late.path}")
        assert answer.missing.startswith(f"not asked: the host did not end {PATIENCE} answers")
    assert len(host.asked) == PATIENCE
    assert evidence.ask(ReadFile("/0")).value == "drop"  # what it has told stays


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_all_answers_of_a_host_together_are_bounded(
    host: ScriptedHost, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    """However many commands there are, and whichever output a host floods."""
    monkeypatch.setattr(live, "MOST_BYTES", 10_000)
    flood = b"x" * 3000
    for name in range(20):
        host.files[f"/{name}"] = Output(0, flood) if stream == "stdout" else Output(1, b"", flood)
    evidence, limits = host.evidence, []
    run = host.run

    def noting(argv: Sequence[str], *, limit: int = 1 << 26, **others: Any) -> Output:
        limits.append(limit)
        return run(argv, limit=limit, **others)

    monkeypatch.setattr(host, "run", noting)
    evidence.ask(WhoAmI())
    answers = [evidence.ask(ReadFile(f"/{name}")) for name in range(20)]
    missing = [answer.missing for answer in answers if answer.missing.startswith("not asked")]
    assert len(missing) == 16
    assert "the most that is taken from one host" in missing[0]
    assert max(limits) <= 10_000
    assert 0 < limits[-1] <= 1000  # what is left is all that the last may say


def test_all_questions_to_a_host_together_are_bounded_in_time(
    host: ScriptedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0
    timeouts = []
    run = host.run

    def slow(argv: Sequence[str], *, timeout: float = 30, **others: Any) -> Output:
        nonlocal clock
        clock += 25.0  # and ends in time
        timeouts.append(timeout)
        return run(argv, timeout=timeout, **others)

    monkeypatch.setattr(host, "run", slow)
    monkeypatch.setattr(live.time, "monotonic", lambda: clock)
    host.files |= {f"/{name}": "text" for name in range(50)}
    evidence = host.evidence
    answers = [evidence.ask(ReadFile(f"/{name}")) for name in range(50)]
    assert clock <= live.MOST_SECONDS
    assert "the most that is spent on one host" in answers[-1].missing
    assert min(timeouts) <= 25.0


def test_single_time_outs_do_not_end_the_questions(host: ScriptedHost) -> None:
    host.files |= {f"/{name}": Output(None, b"", cut="time") for name in range(4 * PATIENCE)}
    host.files |= {f"/fast{name}": "at once" for name in range(4)}
    evidence = host.evidence
    for turn in range(4):
        for name in range(PATIENCE - 1):
            evidence.ask(ReadFile(f"/{turn * PATIENCE + name}"))
        assert evidence.ask(ReadFile(f"/fast{turn}")).value == "at once"


def test_a_lost_host_is_an_error_not_a_missing_answer(host: ScriptedHost) -> None:
    def run(*_: object, **__: object) -> Output:
        raise UnreachableError("running", "cat", "gone", "ssh host")

    host.run = run  # type: ignore[method-assign]
    with pytest.raises(UnreachableError):
        host.evidence.ask(ReadFile("/a"))


def test_a_log_alone_answers_nothing() -> None:
    evidence = LogEvidence("crash.log")
    assert (evidence.origin.kind, evidence.origin.name) == ("log", "crash.log")
    answer = evidence.ask(OsRelease())
    assert (answer.value, answer.missing) == (None, "only a log was given")
    assert answer.command == "cat /etc/os-release"

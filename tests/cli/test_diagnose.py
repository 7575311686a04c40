"""`triage diagnose`, run as a person runs it: logs, standard input, cases, formats, exit codes."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import TRIAGE, triage

CORPUS = Path(__file__).parent.parent / "corpus"
STORY = CORPUS / "sglang-0.5.11-pp8-triton" / "log"
HEALTHY = CORPUS / "sglang-0.5.10-pp1-healthy" / "log.log"
RULE = """
id: my-rule
title: what only this site knows
category: host-storage
role: cause
conclusive: true
signature: {exception: ^MyError$}
explanation: because
cases: {match: [{log: x}], near: [{log: y}]}
"""


def parsed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"] == "triage.diagnosis/1"
    return document


def test_a_log_that_crashed() -> None:
    done = triage("diagnose", "--log", str(STORY))
    assert (done.returncode, done.stderr) == (1, "")
    assert "WHY  likely: the attention backend asks this pipeline stage for layer 0" in done.stdout
    assert "to find out what is missing: triage diagnose HOST" in done.stdout


def test_a_log_that_only_looks_ill() -> None:
    done = triage("diagnose", "--log", str(HEALTHY))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nNo incident: the log of the last run holds no fault.\n" in done.stdout
    assert "it became ready; it answered a request at 14:48:05; it was asked to stop" in done.stdout
    told = parsed(triage("diagnose", "--log", str(HEALTHY), "--format", "json"))
    assert (told["outcome"], told["incidents"], told["suspicious"]) == ("nothing-failed", [], [])


def test_json_says_the_same_as_text() -> None:
    done = triage("diagnose", "--log", str(STORY), "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    (incident,) = parsed(done)["incidents"]
    assert incident["verdict"] == {"category": "pp-rank-assumption", "certainty": "likely", "basis": "rule"}
    assert incident["initiator"]["position"]["source"] == str(STORY)


def test_the_same_log_however_it_comes(tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(STORY.read_bytes()))
    with STORY.open() as stdin:
        piped = parsed(triage("diagnose", "--log", "-", "--format", "json", stdin=stdin))
    given = [parsed(triage("diagnose", "--log", str(path), "--format", "json")) for path in (STORY, packed)]
    assert piped["source"]["kind"] == "log"
    names = (str(STORY), str(packed), "standard input")
    texts = [
        re.sub(r'"(?:started|id|name|source)": "[^"]*"', "", json.dumps(each)).replace(name, "")
        for each, name in zip((*given, piped), names, strict=True)
    ]
    assert texts[0] == texts[1] == texts[2]


def test_a_rule_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "mine.yaml").write_text(RULE)
    (tmp_path / "log").write_text(
        'Traceback (most recent call last):\n  File "/a.py", line 1, in f\nMyError: x\n'
    )
    without = triage("diagnose", "--log", "log", cwd=tmp_path)
    assert "unknown: no rule explains this" in without.stdout
    assert "fingerprint " in without.stdout
    done = triage("diagnose", "--log", "log", "--rules", "rules", cwd=tmp_path)
    assert "confirmed: what only this site knows" in done.stdout
    assert (without.returncode, done.returncode) == (1, 1)


def test_a_log_and_a_host_the_log_counts_and_the_host_is_asked() -> None:
    done = triage("diagnose", "local", "--log", str(STORY), "--format", "json")
    assert done.returncode == 1, done.stderr
    document = parsed(done)
    assert document["source"] == {"kind": "host", "name": "local"}
    evidence = document["incidents"][0]["diagnoses"][0]["evidence"]
    assert not any("only a log was given" in step["detail"] for step in evidence)


@pytest.mark.parametrize("case", ["my case", "case.tar.zst"])
def test_a_case_in_the_place_of_a_host_is_told_how_it_is_diagnosed(tmp_path: Path, case: str) -> None:
    hint = f"Next: triage diagnose --case {shlex.quote(f'./{case}')} if the case is meant; else give `local`"
    for there in (False, True):
        done = triage("diagnose", f"./{case}", cwd=tmp_path)
        assert (done.returncode, hint in done.stderr) == (2, there)
        triage("capture", "local", "--log", str(STORY), "-o", case, cwd=tmp_path)
    done = triage("diagnose", "--case", f"./{case}", cwd=tmp_path)
    assert done.returncode == 1


def test_a_case_needs_no_host(tmp_path: Path) -> None:
    made = triage("capture", "local", "--log", str(STORY), "-o", "case", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "diagnose it again: triage replay case" in made.stdout
    done = triage("diagnose", "--case", "case", "--format", "json", cwd=tmp_path)
    assert (done.returncode, parsed(done)["source"]) == (1, {"kind": "case", "name": "case"})
    again = triage("replay", "case", cwd=tmp_path)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "1 case, 0 differ")


def on_a_terminal(*words: str, **environment: str) -> str:
    """What a terminal of its own gets to see."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(TRIAGE[0], [*TRIAGE, *words], {**os.environ, "TERM": "xterm-256color", **environment})
    shown = b""
    try:
        while chunk := os.read(terminal, 1 << 16):
            shown += chunk
    except OSError:  # what Linux says at the end
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    return shown.decode()


def test_colour_on_a_terminal_only() -> None:
    assert "\x1b[1" in on_a_terminal("diagnose", "--log", str(STORY))
    assert "\x1b[3" not in on_a_terminal("diagnose", "--log", str(STORY), NO_COLOR="1")
    assert "\x1b" not in triage("diagnose", "--log", str(STORY)).stdout


def test_long_lines_are_left_to_the_terminal() -> None:
    """A line that is broken into several cannot be searched for or copied."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal("diagnose", "--log", str(STORY))).replace(
        "\r\n", "\n"
    )
    assert plain == triage("diagnose", "--log", str(STORY)).stdout


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_a_log_says_steers_no_terminal(tmp_path: Path, format: str) -> None:
    odd = "\x1b]0;title\x07\x1b[2J\u202e\x9b\x08[red]x[/red]"
    frames = f'Traceback (most recent call last):\n  File "/a{odd}.py", line 1, in f\n    {odd}\n'
    (tmp_path / "log").write_text(f"{frames}ValueError: {odd} is wrong\n")
    done = triage("diagnose", "--log", "log", "--format", format, cwd=tmp_path)
    assert done.returncode == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", done.stdout)
    assert "[red]x[/red]" in done.stdout


def test_a_line_of_five_megabytes(tmp_path: Path) -> None:
    line = "x" * 5_000_000
    (tmp_path / "log").write_text(f"{line}\nOSError: [Errno 98] Address already in use {line}\n")
    done = triage("diagnose", "--log", "log", cwd=tmp_path)
    assert done.returncode == 1
    assert "Address already in use" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 1000

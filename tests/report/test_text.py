"""The report for people: all of it is there, in order, and nothing of a log or host steers the terminal."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.rules.world import ACCESSOR, SITE, STORY, fault, incident
from triage.evidence.model import Deployment, Origin
from triage.evidence.recorded import LogEvidence
from triage.logs.model import Fault, Incident, Position
from triage.logs.reading.load import open_log
from triage.report import json as rendered
from triage.report.markdown import markdown
from triage.report.page import page
from triage.report.text import lines, render
from triage.rules.diagnosis import CheckResult, Diagnosis, EvidenceTable, Excerpt, IncidentVerdict, Remedy
from triage.workflows import diagnose
from triage.workflows.diagnose import DiagnosedIncident, Report
from triage.workflows.unit_record import Restarts

CORPUS = Path(__file__).parent.parent / "corpus"
KNOWLEDGE = diagnose.load_knowledge()
AT = datetime(2026, 5, 12, 14, 3, 59)

FIRST = fault(
    "IndexError",
    "list index out of range\nand a second line",
    time=AT,
    ranks=("PP3", "PP2"),
    frames=(SITE, replace(ACCESSOR, line=9, code="return self.kv_buffer[layer_id - self.start_layer]")),
    position=Position("journal of kimi.service", 156),
    because=("it is the first", "the others wait for it"),
)
VICTIM = fault(
    "SIGKILL", "", kind="signal", time=AT, pid=75, role="victim", position=Position("journal", 160)
)
BENIGN = fault("Warning", "looks ill", role="benign")
EXCERPT = Excerpt(SITE.file, ((119, "else:", False), (120, "  x[0]", True)))
TABLE = EvidenceTable(("stage", "in the log"), (("PP0", ""), ("PP11", "raised")))
CONFIRMED = Diagnosis(
    rule="sglang-pp-value-head-dim",
    category="pp-rank-assumption",
    role="cause",
    outcome="confirmed",
    title="the backend asks for layer 0",
    explanation="A first paragraph that is long enough to be broken into lines, because a terminal is only "
    "so many characters wide.\n\nA second one.",
    findings=(
        CheckResult("log", "pass", "IndexError on PP3"),
        CheckResult("probe", "pass", "the line stands", (EXCERPT,)),
        CheckResult("probe", "pass", "and again", (EXCERPT,)),
        CheckResult("probe", "missing", "a thing that is not known", command="triage capture gpu01 -o CASE"),
        CheckResult("probe", "missing", "another", command="triage capture gpu01 -o CASE"),
        CheckResult("probe", "pass", "the arithmetic", table=TABLE),
        CheckResult("falsifier", "pass", "no OOM kill"),
    ),
    remedies=(
        Remedy("patch", "p", "it will not help", "", "", "blocked: no", helps=False),
        Remedy("setting", "s", "two lines", "MemoryMax=1G\nTasksMax=1", "speed", "", helps=None),
        Remedy("upgrade", "u", "upgrade", "pip install x", "a release", "seen", helps=True),
    ),
)  # fmt: skip
REFUTED = Diagnosis(
    "other-rule", "nccl", "cause", "refuted", "t", "e", (CheckResult("probe", "fail", "it is not so"),), ()
)
STORY_INCIDENT = replace(
    incident(FIRST, VICTIM, BENIGN), silent_ranks=("PP0", "PP1"), phase="Memory pool end", count=3
)
OTHER = Deployment("vllm.service", "vllm", "systemd", "vllm it's.service", "active", "success")
SURE = IncidentVerdict("pp-rank-assumption", "confirmed")
UNKNOWN = IncidentVerdict("unknown", "unknown")


def report(
    of: Incident = STORY_INCIDENT,
    diagnoses: tuple[Diagnosis, ...] = (CONFIRMED, REFUTED),
    verdict: IncidentVerdict = SURE,
    **more: Any,
) -> Report:
    deployment = replace(STORY, state="failed", started="2026-05-12T14:03:50+00:00")
    return Report(**{
        "origin": Origin("host", "gpu01"), "deployment": deployment,
        "incidents": (DiagnosedIncident(of, diagnoses, verdict),), **more,
    })  # fmt: skip


def printed(shown: Report, **options: Any) -> str:
    out = io.StringIO()
    render(shown, Console(file=out, width=80, **options))
    return out.getvalue()


def test_the_whole_of_it() -> None:
    disagreeing = replace(report().deployment, disagreements=("the unit and the process name two trees",))
    shown = report(deployment=disagreeing, notes=("journal was cut by its limit in bytes",), others=(OTHER,))
    assert (
        printed(shown).splitlines()
        == """\
gpu01 · kimi.service · sglang 0.5.11 · pp8 · /srv/models/Kimi-K2.6
systemd: failed signal, exit status 9/KILL; started 2026-05-12T14:03:50+00:00
source: /site-packages/sglang
! the unit and the process name two trees

WHAT HAPPENED
  14:03:59  PP2, PP3  IndexError: list index out of range
    at sglang/srt/layers/attention/triton_backend.py:120 in __init__
         self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(0).shape[
       -> memory_pool.py:9 in get_value_buffer: return self.kv_buffer[layer_id - self.start_layer]
    log: journal of kimi.service line 156
    first because it is the first
    first because the others wait for it
  last phase before it: Memory pool end
  the same run failed 3 times
  victim   14:03:59  pid 75  SIGKILL
  silent   PP0, PP1: ended without a word of it

WHY  confirmed: the backend asks for layer 0
     rule sglang-pp-value-head-dim, category pp-rank-assumption
  A first paragraph that is long enough to be broken into lines, because a terminal is only so many
  characters wide.
  A second one.

  ✓ log       IndexError on PP3
  ✓ probe     the line stands
      sglang/srt/layers/attention/triton_backend.py
          119 │ else:
      ▶   120 │   x[0]
  ✓ probe     and again
  ? probe     a thing that is not known
  ? probe     another
  ✓ probe     the arithmetic
      stage  in the log
      PP0
      PP11   raised
  ✓ ruled out no OOM kill
      to find out what is missing: triage capture gpu01 -o CASE
  more: triage explain sglang-pp-value-head-dim

WHAT CAN BE DONE
  run on gpu01 (ssh gpu01); what begins with triage, here
  1 setting two lines
             MemoryMax=1G
             TasksMax=1
             costs: speed
  2 upgrade upgrade
             pip install x
             costs: a release
             proof: seen
  - patch   it will not help (blocked: no)
also looked at: other-rule (refuted): it is not so
note: journal was cut by its limit in bytes
also here: vllm.service (active success): triage diagnose gpu01 --unit 'vllm it'"'"'s.service'
""".splitlines()
    )


def test_a_plain_process_beside_it_can_be_chosen() -> None:
    other = Deployment("pid 4711", manager="process", state="running")
    says = "also here: pid 4711 (running): triage diagnose gpu01 --unit 'pid 4711'\n"
    assert says in printed(report(others=(other,)))


@pytest.mark.parametrize("certainty", ["confirmed", "likely", "possible"])
def test_how_sure(certainty: Any) -> None:
    shown = report(verdict=IncidentVerdict("pp-rank-assumption", certainty))
    assert f"WHY  {certainty}: the backend asks for layer 0" in printed(shown)


def test_nothing_explains_it() -> None:
    for diagnoses in ((), (REFUTED,)):
        text = printed(report(diagnoses=diagnoses, verdict=UNKNOWN))
        assert "WHY  unknown: no rule explains this\n  fingerprint f1" in text
        assert "WHAT CAN BE DONE" not in text


def test_what_is_harmless_by_itself_is_not_called_unknown() -> None:
    shown = report(diagnoses=(replace(CONFIRMED, role="benign"),), verdict=UNKNOWN)
    text = printed(shown)
    assert "WHY  no cause is known; harmless by itself: the backend asks for layer 0" in text
    assert "unknown: " not in text
    document = rendered.diagnosis(shown)
    assert "**harmless**: " in markdown([document])
    assert '<span class="chip unknown">harmless</span>' in page([document])


@pytest.mark.parametrize(
    ("restarts", "live", "line"),
    [
        (Restarts(3, "2026-05-12T14:03:50+00:00", "2026-05-12T14:05:00+00:00", "signal", True), False,
            "restarting in a loop: 3 times since 2026-05-12T14:03:50+00:00,"
            " last failure 2026-05-12T14:05:00+00:00 (signal)"),
        (Restarts(1, "2026-05-12T14:03:50+00:00", "2026-05-12T14:03:50+00:00", "success", False), False,
            "restarted by systemd once, last end 2026-05-12T14:03:50+00:00 (success)"),
        (Restarts(9, "", "", "", True), True, "restarting in a loop: 9 times"),
    ],
)  # fmt: skip
def test_restarts(restarts: Restarts, live: bool, line: str) -> None:
    origin = Origin("host" if live else "case", "gpu01")
    assert printed(report(origin=origin, restarts=restarts)).splitlines()[2] == line


def test_how_long_ago_is_said_of_a_host() -> None:
    last = (datetime.now(timezone.utc) - timedelta(minutes=7)).isoformat(timespec="seconds")
    shown = report(restarts=Restarts(2, last, last, "signal", True))
    assert ", 7 min ago\n" in printed(shown)


def test_the_times_of_runs_that_failed_alike() -> None:
    first, last = (datetime(2026, 5, 12, 14, minute) for minute in (3, 9))
    of = replace(STORY_INCIDENT, started=first, ended=last)
    assert "  the same run failed 3 times, from 2026-05-12 14:03:00 to 2026-05-12 14:09:00\n" in printed(
        report(of)
    )


def test_the_log_does_not_decide() -> None:
    text = printed(report(incident(None, FIRST, VICTIM, candidates=(FIRST, VICTIM))))
    assert "The log does not decide which of these came first:" in text
    assert text.index("IndexError") < text.index("pid 75  SIGKILL")
    assert "first because" not in text
    assert text.count("pid 75  SIGKILL") == 1


def test_the_log_holds_a_consequence_alone() -> None:
    text = printed(report(incident(None, VICTIM, candidates=(VICTIM,))))
    assert "The log does not hold what came first, only this:" in text
    assert text.count("pid 75  SIGKILL") == 1


def test_nothing_happened() -> None:
    text = printed(report(incidents=(), health=("it became ready", "it was asked to stop")))
    assert text.endswith(
        "\nNo incident: the log of the last run holds no fault.\n  it became ready; it was asked to stop\n"
    )
    assert "WHAT HAPPENED" not in text


def test_several_incidents_are_counted() -> None:
    one = report().incidents[0]
    text = printed(report(incidents=(one, one)))
    assert text.index("INCIDENT 1 of 2") < text.index("INCIDENT 2 of 2")


def test_a_crowd_of_victims_is_cut() -> None:
    text = printed(report(incident(FIRST, *[VICTIM] * 100)))
    assert text.count("SIGKILL") == 6
    assert "... and 94 more" in text


def test_colour_is_for_terminals_and_says_nothing_by_itself() -> None:
    assert "\x1b" not in printed(report())
    coloured = printed(report(), force_terminal=True, color_system="standard")
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == printed(report())


# Hostile text, everywhere at once.

STEERING = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\x00\u202e\u2066\u200b\u2028\ufeff\ud800"
MARKUP = "[bold red]x[/bold red] :skull: <b>&amp; https://a.example"
# Words that our own code or the schema of a rule decides on, and no log can name.
OWN_FIELDS = {"rule", "category", "fingerprint", "certainty", "kind", "role", "outcome"}
OWN_WORDS = {"pass", "fail", "missing"}


def everywhere(value: Any, text: Callable[[str], str]) -> Any:
    """A value with each text in it replaced, at whatever depth."""
    if isinstance(value, str):
        return value if value in OWN_WORDS or not value else text(value)
    if is_dataclass(value) and not isinstance(value, type):
        names = {field.name for field in fields(value)} - OWN_FIELDS
        return replace(value, **{name: everywhere(getattr(value, name), text) for name in names})
    if isinstance(value, (tuple, frozenset)):
        return type(value)(everywhere(each, text) for each in value)
    return value


def steering(text: str) -> set[str]:
    """Characters that are not plain text."""
    bad = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {character for character in text if character != "\n" and unicodedata.category(character) in bad}


SHOWN = report(deployment=replace(report().deployment, disagreements=("a",)), notes=("n",), others=(OTHER,))
UNDECIDED = report(incident(None, FIRST, VICTIM, candidates=(FIRST, VICTIM)), diagnoses=())


@pytest.mark.parametrize("shown", [SHOWN, UNDECIDED])
def test_nothing_steers_the_terminal(shown: Report) -> None:
    hostile = everywhere(shown, lambda text: f"{STEERING}{text}{STEERING}")
    text = printed(hostile)
    assert steering(text) == set()
    assert "\\x1b[2J" in text
    assert text.count("WHAT HAPPENED") == 1
    colours = printed(hostile, force_terminal=True, color_system="truecolor")
    assert steering(re.sub(r"\x1b\[[0-9;]*m", "", colours)) == set()
    assert "\x1b[2J" not in colours


def test_markup_is_text() -> None:
    for options in ({}, {"force_terminal": True, "color_system": None}):
        text = printed(everywhere(SHOWN, lambda text: f"{text}{MARKUP}"), **options)
        assert text.count(MARKUP) > 20


def test_a_newline_in_a_name_starts_no_line_of_its_own() -> None:
    text = printed(everywhere(SHOWN, lambda text: f"{text}\nWHY  confirmed: all is well"))
    assert not any(line.startswith("WHY  confirmed: all is well") for line in text.splitlines())


def test_huge_text_is_cut() -> None:
    text = printed(everywhere(SHOWN, lambda text: text + "x" * 1_000_000))
    assert max(map(len, text.splitlines())) < 2100
    assert len(text) < 60_000


def test_many_ranks_are_cut() -> None:
    crowd = tuple(f"PP{number}" for number in range(100_000))
    many = replace(STORY_INCIDENT, initiator=replace(FIRST, ranks=frozenset(crowd)), silent_ranks=crowd)
    assert max(map(len, printed(report(many)).splitlines())) < 1000


# Every log of the corpus.


def logs() -> list[Path]:
    cases = (path.parent for path in CORPUS.glob("*/expected.yaml"))
    return sorted(
        path for case in cases for path in case.iterdir() if path.is_file() and path.name != "expected.yaml"
    )


@pytest.mark.parametrize("log", logs(), ids=lambda log: f"{log.parent.name}/{log.name}")
def test_every_log_can_be_shown(log: Path) -> None:
    diagnosed = diagnose.diagnose(LogEvidence(str(log)), KNOWLEDGE, "", open_log(str(log)))
    text = printed(diagnosed)
    assert steering(text) == set()
    assert len(list(lines(diagnosed))) == text.count("\n")
    assert max(map(len, text.splitlines())) < 1000
    assert rendered.dumps(rendered.diagnosis(diagnosed)).isascii()
    for shown in diagnosed.incidents:
        faults: tuple[Fault, ...] = (
            (shown.incident.initiator,) if shown.incident.initiator else shown.incident.candidates
        )
        assert all(fault.type[:50] in text for fault in faults[:1])

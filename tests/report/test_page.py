"""Reports of documents: nothing in them is markup, and what they draw is what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.bounds import many
from tests.cli.command import triage
from tests.report.test_text import report
from tests.verify.test_compare import figures, result
from tests.verify.test_links import LINKS, SHAPE
from triage.common.errors import UnreachableError
from triage.evidence.model import Deployment, Layout, Origin
from triage.hosts.inventory.model import Host
from triage.playbook.waves import HostRun, RollOut
from triage.report import bench as rendered_bench
from triage.report import fleet as rendered_fleet
from triage.report import json as rendered
from triage.report import links as rendered_links
from triage.report.documents import FLEET, KINDS, PLAIN, ROLLOUT, RUN, cleaned
from triage.report.markdown import markdown
from triage.report.page import charts, lanes, page
from triage.report.playbook import rollout_document
from triage.verify.model import Load, MetricChange, Request, Start, StartPhase
from triage.workflows.bench import Bench, MeasuredLayout
from triage.workflows.fleet import FleetResult, HostOutcome
from triage.workflows.links import LinksResult

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-    pool.get_value_buffer(0)\n+    pool.get_value_buffer(1)\n"
PATCH = {
    "schema": "triage.patch/1",
    "host": "gpu01",
    "patches": [
        {
            "id": "value-head-dim",
            "title": "ask for the own layer",
            "state": "applicable",
            "reason": "one site",
            "checks": [{"summary": "the pool has start_layer", "holds": True, "sites": []}],
            "diff": DIFF,
        }
    ],
    "changes": [{"id": "c1", "state": "applied", "at": "2026-05-12"}],
}


def requests(count: int, first: float, gap: float) -> tuple[Request, ...]:
    """`count` good ones, and one that failed."""
    good = Request(0.0, tuple(first + gap * n for n in range(5)), 8, 5, "length")
    return (*[good] * count, Request(0.0, (), 8, 0, None, "status 500"))


def verification() -> dict[str, Any]:
    loads = tuple(
        Load(level, 8, 5, "usage", 1.0, requests(1, 0.05 * level, 0.01 * level)) for level in (1, 4)
    )
    start = Start("i", 1, True, 40.0, (StartPhase("weights", 10.0), StartPhase("KV cache", 30.0)))
    change = MetricChange("decode rate", "tok/s", 1, 20.0, 25.0, 0.05, "better")
    more: dict[str, Any] = {"loads": loads, "start": start, "notes": ("a note",), "changes": (change,)}
    measured = result(figures(20.0, 80.0), **more)
    return cleaned(rendered.verification(measured, None))


def run() -> dict[str, Any]:
    steps = [
        {"name": name, "status": "done", "summary": "it went well", "data": data}
        for name, data in (
            ("Diagnose", rendered.diagnosis(report())),
            ("Think", {"category": "x"}),
            ("Patch", PATCH),
            ("Verify", verification()),
        )
    ]
    playbook = {"name": "pp8-bringup", "file": "x"}
    found = {"schema": "triage.run/1", "playbook": playbook, "host": "gpu01", "status": "done", "reason": ""}
    return cleaned({**found, "steps": steps})


def bench() -> dict[str, Any]:
    slow = result(figures(20.0, 80.0), verdict="failed", reason="it died")
    measured = (
        MeasuredLayout(Layout(tp=8), slow, "confirmed: the layer"),
        MeasuredLayout(Layout(pp=8), result(figures(25.0, 90.0))),
    )
    found = Bench("kimi", Layout(tp=8), measured, Layout(pp=8), "only pp8 became ready", ("a note",))
    return cleaned(rendered_bench.document(found))


def fleet() -> dict[str, Any]:
    outcomes = [
        *(HostOutcome(Host(name), value=report()) for name in ("gpu01", "gpu02")),
        HostOutcome(Host("gpu03"), value=replace(report(), incidents=(), health=("it became ready",))),
        HostOutcome(Host("gpu04"), error=UnreachableError("reaching", "gpu04", "no route", "ping gpu04")),
    ]
    return cleaned(rendered_fleet.document(FleetResult(tuple(outcomes))))


def rollout() -> dict[str, Any]:
    done = HostRun("gpu01", 0, run())
    lost = HostRun("gpu02", 3, None, "reaching gpu02: no route")
    return cleaned(rollout_document(RollOut(((done,), (lost,)), ("gpu03",), "pp8-bringup")))


def links() -> dict[str, Any]:
    return cleaned(rendered_links.document(LinksResult(LINKS, SHAPE, {"tp3": 26.0})))


class Tags(HTMLParser):
    """The tags with their attributes' names, and the text, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def every() -> tuple[dict[str, Any], ...]:
    return run(), bench(), fleet(), rollout(), links()


def renamed(value: Any, text: str, kept: tuple[str, ...] = ("schema", "status", "state", "role")) -> Any:
    """The document with every text in it, but for our own words, replaced."""
    if isinstance(value, dict):
        return {key: item if key in kept else renamed(item, text, kept) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, text, kept) for item in value]
    return text if isinstance(value, str) else value


def test_a_page_of_a_run_has_all_its_parts():
    text = Tags(page([run()])).text
    for said in ("pp8-bringup on gpu01", "From the symptom to the cause", "IndexError", "get_value_buffer(0)",
                 "Before and now", "time to first token, ms", "a note"):  # fmt: skip
        assert said in text, said


def test_a_page_loads_nothing_and_runs_nothing():
    written = page([run()])
    assert not re.search(r"<script|src=|href=|url\(|@import", written)
    assert "default-src 'none'" in written


@pytest.mark.parametrize(
    "write", [lambda document: Tags(page([document])).text, lambda document: markdown([document])]
)
def test_a_bench_has_its_table_and_each_layout(write: Callable[[Any], str]):
    text = write(bench())
    for said in ("layouts of kimi", "pp8", "recommended", "25.0", "only pp8 became ready", "a note",
                 "confirmed: the layer", "it died"):  # fmt: skip
        assert said in text, said


@pytest.mark.parametrize(
    "write", [lambda document: Tags(page([document])).text, lambda document: markdown([document])]
)
def test_a_fleet_has_every_host_and_each_incident_once(write: Callable[[Any], str]):
    text = write(fleet())
    for said in ("4 hosts", "gpu01, gpu02", "gpu03", "no incident", "gpu04", "reaching gpu04: no route"):
        assert said in text, said
    assert text.count("From the symptom to the cause") == 1


@pytest.mark.parametrize(
    "write", [lambda document: Tags(page([document])).text, lambda document: markdown([document])]
)
def test_a_roll_out_has_its_waves_and_every_part_of_each_run(write: Callable[[Any], str]):
    text = write(rollout())
    for said in ("pp8-bringup on 3 hosts", "gpu01: Verify", "gpu02", "reaching gpu02: no route", "gpu03",
                 "not touched", "From the symptom to the cause", "get_value_buffer(0)"):  # fmt: skip
        assert said in text, said


def test_a_roll_out_begins_with_what_became_of_each_host():
    text = Tags(page([rollout()])).text
    assert "stopped; 1 not touched" in text
    order = ("wave 1: gpu01", "wave 2: gpu02", "pp8-bringup on gpu01", "gpu01: Diagnose")
    assert sorted(order, key=text.index) == list(order)


def test_a_bench_that_was_cut_recommends_nothing_yet():
    found = {**bench(), "left": ["ep8"]}
    for text in (Tags(page([found])).text, markdown([found])):
        assert "not measured: ep8" in text.replace("`", "")
        assert "best so far" in text
        assert "recommended" not in text


def test_what_has_no_form_of_its_own_is_tables():
    text = Tags(page([links()])).text
    for said in (
        "triage links",
        "yes, yes, no; yes, yes, yes",
        "estimates",
        "all_reduce 122",
        "81.97",
        "pairs",
        "NVIDIA H200",
    ):
        assert said in text, said
    assert "| `tp3` | `all_reduce 122` |" in markdown([links()])


@pytest.mark.parametrize(
    "write", [lambda document: Tags(page([document])).text, lambda document: markdown([document])]
)
def test_a_layout_is_compared_with_the_others_alone(write: Callable[[Any], str]):
    """Not with the last verification of the service, which may have run another one."""
    found = bench()
    found["layouts"][1]["verification"] |= {"verdict": "worse", "reason": "decode rate 40 -> 25"}
    assert "40 -> 25" not in write(found)
    assert write(found).count("it died") == 1


def test_a_list_longer_than_a_page_says_so():
    found = {"schema": "triage.records/1", "records": [{"text": f"line {n}"} for n in range(600)]}
    assert "100 more are not shown" in Tags(page([found])).text
    assert "100 more are not shown" in markdown([found])


def test_every_document_that_is_printed_is_described_and_makes_a_report():
    sources = "".join(path.read_text() for path in Path("triage").rglob("*.py"))
    printed = set(re.findall(r'"(triage\.[a-z-]+/\d)"', sources)) - {"triage.progress/1"}  # a file of ours
    described = set(re.findall(r"triage\.[a-z-]+/\d", Path("docs/json.md").read_text()))
    assert described == printed
    assert {*KINDS, RUN, FLEET, ROLLOUT, *PLAIN} == printed - {"triage.case/1"}


OURS = ("kind", "result", "outcome", "certainty", "verdict", "rule", "category")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</pre></style><b>",
    "&lt;b&gt;",
    "\u202egnp.exe\x1b[31m",
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_is_markup_on_a_page(hostile: str):
    plain, attacked = (
        page([cleaned(renamed(each, text, ("schema", "status", "state", "role", *OURS))) for each in every()])
        for text in ("plain", hostile)
    )
    assert Tags(attacked).tags == Tags(plain).tags
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", attacked)


@pytest.mark.parametrize(
    "hostile", ["` `` ```", "<b>x</b>", "[a](http://b)", "\n# heading\n", "~~~\n```\n|x|"]
)
def test_no_text_is_markup_in_a_ticket(hostile: str):
    documents = [cleaned(renamed(each, hostile, ("schema",))) for each in every()]
    tokens = MarkdownIt("commonmark").parse(markdown(documents))
    assert not {token.type for token in tokens} & {"html_block", "code_block", "hr", "blockquote_open"}
    inline = [child for token in tokens for child in token.children or ()]
    wanted = {"text", "code_inline", "softbreak", "strong_open", "strong_close"}
    assert {child.type for child in inline} <= wanted


@settings(max_examples=many(30), deadline=None)
@given(st.sampled_from(range(5)), st.text(max_size=40))
def test_whatever_stands_in_a_document(which: int, text: str):
    kept = ("schema", "status", "state", "role", *OURS)
    line = " ".join(text.split()) or "x"  # for a diff has an element a line
    plain, attacked = (cleaned(renamed(every()[which], words, kept)) for words in ("plain", line))
    assert Tags(page([attacked])).tags == Tags(page([plain])).tags
    markdown([attacked])


def test_lanes_are_the_ranks_in_order_with_the_initiator_marked():
    incident = cleaned(rendered.diagnosis(report()))["incidents"][0]
    drawn = lanes.lanes(incident)
    marked = {lane.name for lane in drawn.lanes for mark in lane.marks if mark and mark.role == "initiator"}
    assert marked == set(incident["initiator"]["ranks"])
    assert {lane.name for lane in drawn.lanes if lane.silent} == set(incident["silent_ranks"])


def test_of_many_lanes_and_moments_the_initiator_stays():
    incident = cleaned(rendered.diagnosis(report()))["incidents"][0]
    victim = {**incident["initiator"], "role": "victim"}
    crowd = [
        {**victim, "ranks": [f"TP{n}"], "time": f"2026-05-12T14:{n % 60:02}:00", "position": {"line": n}}
        for n in range(300)
    ]
    drawn = lanes.lanes({**incident, "faults": [*crowd, {**incident["initiator"], "role": "initiator"}]})
    assert len(drawn.lanes) == lanes.MAX_LANES
    assert len(drawn.moments) == lanes.MAX_MOMENTS
    assert drawn.hidden > 200
    assert any(mark and mark.role == "initiator" for lane in drawn.lanes for mark in lane.marks)


def test_without_times_no_lanes_are_drawn():
    incident = cleaned(rendered.diagnosis(report()))["incidents"][0]
    timeless = [{**fault, "time": None} for fault in incident["faults"]]
    assert lanes.lanes({**incident, "faults": timeless, "phases": []}).lanes == ()


def test_curves_rise_to_the_whole_and_have_the_median():
    first, gaps = charts.curves(verification())
    assert [curve.name for curve in first.curves] == ["1 stream", "4 streams"]
    assert [round(curve.median) for curve in first.curves] == [50, 200]
    assert [round(curve.median) for curve in gaps.curves] == [10, 40]
    assert [curve.samples for curve in gaps.curves] == [4, 4]  # the failed request has no figures
    for curve in (*first.curves, *gaps.curves):
        heights = [float(point.partition(",")[2]) for point in curve.points.split()]
        assert heights == sorted(heights, reverse=True)
        assert heights[-1] == charts.TOP


def test_the_phases_of_a_start_make_the_whole():
    steps = list(charts.phases(verification()["start"]))
    assert [(step.name, step.seconds) for step in steps] == [
        ("before the first word", 10.0),
        ("weights", 20.0),
        ("KV cache", 10.0),
    ]
    assert sum(step.share for step in steps) == pytest.approx(100)


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_the_command_writes_a_report(tmp_path: Path, name: str):
    (tmp_path / "run.json").write_text(json.dumps(run()))
    done = triage("report", "run.json", "-o", name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "pp8-bringup on gpu01" in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("content", "output", "said"),
    [
        ("{}", "r.html", "its schema is none of"),
        ("[" * 100_000, "r.html", "it is not JSON"),
        ('{"schema": "triage.fleet/1", "alike": [], "hosts": [3]}', "r.html", "not as docs/json.md has it"),
        (
            '{"schema": "triage.bench/1", "deployment": "x", "layouts": 1}',
            "r.md",
            "not as docs/json.md has it",
        ),
        ('{"schema": "triage.run/1"}', "r.html", "not as docs/json.md has it"),
        ('{"schema": "triage.diagnosis/1", "deployment": 3}', "r.md", "not as docs/json.md has it"),
        ("{}", "r.pdf", "a report ends in .html, .md or .xml"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, content: str, output: str, said: str):
    (tmp_path / "d.json").write_text(content)
    done = triage("report", "d.json", "-o", output, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / output).exists()


def test_a_number_that_no_float_holds_is_no_defect(tmp_path: Path):
    document = verification()
    document["loads"][0]["requests"][0]["chunks"][0] = 10**400
    (tmp_path / "d.json").write_text(json.dumps(document))
    done = triage("report", "d.json", "-o", "r.html", cwd=tmp_path)
    assert (done.returncode, "not as docs/json.md has it" in done.stderr) == (2, True)


def test_what_would_be_too_deep_is_no_document(tmp_path: Path):
    (tmp_path / "d.json").write_text('{"schema": "triage.bench/1", "x": ' + "[" * 500 + "]" * 500 + "}")
    done = triage("report", "d.json", "-o", "r.html", cwd=tmp_path)
    assert (done.returncode, "it is not JSON" in done.stderr) == (2, True)


def test_what_is_written_at_once_is_as_clean_as_what_was_printed():
    found = rendered.verification(replace(result(figures(20, 80)), notes=("\x1b[31m\u202ered",)), None)
    assert cleaned(found) == cleaned(json.loads(rendered.dumps(found)))
    assert not re.search("[\x1b\u202e]", page([cleaned(found)]))


def test_diagnose_writes_one_of_what_it_found(tmp_path: Path):
    log = Path("tests/corpus/sglang-0.5.11-pp8-triton/log").resolve()
    done = triage("diagnose", "--log", str(log), "--report", "r.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "wrote r.html\n")
    assert "From the symptom to the cause" in (tmp_path / "r.html").read_text()
    assert triage("diagnose", "--log", str(log), "--report", "r.pdf", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("kind", "name", "title"),
    [("host", "gpu01", "# `kimi.service on gpu01`"), ("log", "crash.log", "# `crash.log`")],
)
def test_a_log_is_named_once_in_the_title(kind: Any, name: str, title: str) -> None:
    of = report(origin=Origin(kind, name))
    if kind == "log":
        of = replace(of, deployment=Deployment(name))
    assert markdown([cleaned(rendered.diagnosis(of))]).splitlines()[0] == title

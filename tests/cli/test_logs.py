"""`triage logs`: what a person sees of a log, and what is written of it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from io import BytesIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.logs.corpus import CORPUS, cases
from triage.cli.app import app
from triage.logs import open_log
from triage.logs.model import LogSource
from triage.logs.views import splitting
from triage.logs.views.splitting import split_ranks

STORY = CORPUS / "sglang-0.5.11-pp8-triton-interleaved" / "log"
RANKS = [f"PP{number}" for number in range(8)]


def triage(*arguments: object, given: bytes | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "triage", *map(str, arguments)], input=given, capture_output=True, timeout=120
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def records(*arguments: object, given: bytes | None = None) -> list[dict]:
    done = triage("logs", *arguments, "--format", "json", given=given)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["schema"] == "triage.records/1"
    return found["records"]


def timeline(*arguments: object) -> dict:
    found = json.loads(triage("logs", *arguments, "--format", "json").stdout)
    assert found["schema"] == "triage.timeline/1"
    return found


# the timeline


def test_phases_then_the_initiator_then_its_victims():
    done = triage("logs", STORY)
    assert done.returncode == 1
    head, *rows = done.stdout.splitlines()
    assert head.startswith("RUN 1 of 1  sglang · pp8 · 2026-05-12 14:02:45 to 14:04:00 · ")
    assert [row.split()[-1] for row in rows[:4]] == ["begin", "ends", "begin", "end"]
    (first,) = [row for row in rows if "▶" in row]
    assert "14:04:00  PP3, PP5  ▶ initiator  IndexError: list index out of range  (2 times)" in first
    assert first.endswith("at triton_backend.py:120 in __init__")
    assert rows.index(first) > [number for number, row in enumerate(rows) if "phase" in row][-1]
    assert "victim" in rows[rows.index(first) + 1]
    assert rows[-1] == "  silent: PP0, PP1, PP2, PP4, PP6, PP7"


def test_runs_are_apart_and_repeats_are_counted():
    done = triage("logs", CORPUS / "two-runs-two-causes" / "log")
    assert [line for line in done.stdout.splitlines() if line.startswith("RUN")][1].startswith("RUN 2 of 2")
    assert done.stdout.count("▶ initiator") == 2
    loop = timeline(CORPUS / "systemd-restart-loop" / "journal.log")
    assert [incident["count"] for incident in loop["incidents"]] == [4]
    assert "failed 4 times alike" in triage("logs", CORPUS / "systemd-restart-loop" / "journal.log").stdout


def test_the_log_does_not_decide():
    done = triage("logs", CORPUS / "only-sigquit" / "journal.json")
    assert "? candidate" in done.stdout
    assert "▶" not in done.stdout
    assert "does not decide" in done.stdout


def test_a_healthy_log():
    done = triage("logs", CORPUS / "healthy-that-looks-ill" / "log")
    assert (done.returncode, done.stdout) == (0, "No incident: the log holds no fault.\n")


def test_several_files_are_one_deployment():
    (incident,) = timeline(*sorted((CORPUS / "two-nodes").glob("*.log")))["incidents"]
    (first,) = [entry for entry in incident["entries"] if entry["role"] == "initiator"]
    assert first["ranks"] == ["TP11"]
    assert first["position"]["source"].endswith("node1.log")
    assert first["because"]


def test_a_timeline_within_times():
    entries = timeline(STORY, "--since", "-1s")["incidents"][0]["entries"]
    assert {entry["time"] for entry in entries} == {"2026-05-12T14:03:59", "2026-05-12T14:04:00"}
    assert timeline(STORY, "--until", "14:03:50")["incidents"] == []


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_labelled_log_has_a_timeline_and_nothing_of_it_steers_a_terminal(case: Path):
    files = sorted(path for path in case.iterdir() if path.name != "expected.yaml")
    done = CliRunner().invoke(app, ["logs", *map(str, files)])
    assert done.exit_code in (0, 1)
    assert done.stderr == ""
    assert not [
        c for c in done.stdout if c != "\n" and (c < " " or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066")
    ]
    assert ("RUN 1 of" in done.stdout) == bool(done.exit_code)


# its records


def test_the_records_of_ranks():
    rows = records(STORY, "--rank", "PP3")
    assert {tuple(row["ranks"]) for row in rows} == {("PP3",)}
    assert rows[-2]["text"] == "IndexError: list index out of range"
    assert rows[-2]["time"] == "2026-05-12T14:04:00"
    both = records(STORY, "--rank", "PP3", "--rank", "main")
    assert {tuple(row["ranks"]) for row in both} == {("PP3",), ()}
    assert [row["position"]["line"] for row in both] == sorted(row["position"]["line"] for row in both)


def test_a_rank_of_several_labels():
    log = CORPUS / "sglang-context-parallel-tags" / "log"
    for name in ("PP2 ATTN_CP3", "ATTN_CP3-PP2", "EP3"):
        assert {row["ranks"][0] for row in records(log, "--rank", name)} == {"ATTN_CP3"}


def test_the_last_records_that_match():
    assert [row["ranks"] for row in records(STORY, "--grep", "^IndexError")] == [["PP5"], ["PP3"]]
    assert [row["ranks"] for row in records(STORY, "--grep", "^IndexError", "--last", "1")] == [["PP3"]]
    done = triage("logs", STORY, "--grep", "^IndexError")
    assert done.stdout.splitlines() == [
        f"2026-05-12 14:04:00  {rank}     IndexError: list index out of range" for rank in ("PP5", "PP3")
    ]


def test_records_between_times():
    whole = records(STORY, "--grep", "")
    for since, until in (("14:03:57", "14:03:59"), ("2026-05-12T14:03:57", "-1s"), ("-3s", "05-12 14:03:59")):
        rows = records(STORY, "--grep", "", "--since", since, "--until", until)
        wanted = [row for row in whole if row["time"] and "14:03:57" <= row["time"][11:] <= "14:03:59"]
        assert rows == wanted != []


def test_records_of_several_files_are_in_order_of_time():
    rows = records(*sorted((CORPUS / "two-nodes").glob("*.log")), "--grep", "exception|sigquit")
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
    assert len({row["position"]["source"] for row in rows}) == 2


def test_standard_input_compressed_files_and_a_secret(tmp_path: Path):
    data = b"[2026-05-12 14:03:59 PP3] HF_TOKEN=hf_abcdefghijklmnopqrstuvwx\x1b[2J \xe2\x80\xaeevil\n"
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(data))
    for arguments, given in (((packed,), None), (("-",), data)):
        done = triage("logs", *arguments, "--rank", "PP3", given=given)
        assert "abcdefgh" not in done.stdout
        assert "\x1b" not in done.stdout
        assert "\u202e" not in done.stdout
        assert done.stdout.startswith("2026-05-12 14:03:59  PP3     HF_TOKEN=<")


# a format that is named


def test_a_format_is_named(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text(
        "web-1  | ValueError: x\nnode | y\nother text\nmore text\n"
    )  # too few bars to be taken for it
    assert records(log, "--last", "4")[0]["text"] == "web-1  | ValueError: x"
    assert records(log, "--last", "4", "--log-format", "compose")[0]["text"] == "ValueError: x"
    assert [row["ranks"] for row in records(STORY, "--last", "1", "--log-format", "journal,vllm")] == [[]]
    done = triage("diagnose", "--log", CORPUS / "compose-prefix" / "log", "--log-format", "sglang")
    assert done.returncode == 1
    assert "KeyError" not in done.stdout
    assert "of a traceback only the first line can be read" in done.stdout
    done = triage("diagnose", "--log", CORPUS / "compose-prefix" / "log", "--log-format", "compose, vllm")
    assert done.returncode == 1
    assert "PP1  KeyError" in done.stdout


@pytest.mark.parametrize("command", [("logs",), ("diagnose", "--log")])
def test_an_unknown_format_lists_the_known_ones(command: tuple[str, ...]):
    done = triage(*command, STORY, "--log-format", "nope")
    assert done.returncode == 2
    assert "'nope'" in done.stderr
    for name in ("sglang", "vllm", "journal-export", "compose"):
        assert name in done.stderr


# what cannot be


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--grep", "(a"), "this is no pattern"),
        (("--grep", "x", "--since", "yesterday"), "this is no time"),
        (("--rank", "PP9"), "the log has PP0, PP1"),
        (("--rank", "TP0"), "no record is of this rank"),
        (("--since", "2026-05-12T14:00:00Z"), "the log does not say its zone"),
        (("--last", "0"), "greater than or equal to 1"),
        (("--split-ranks", "new", "--rank", "PP3"), "the whole log"),
    ],
)
def test_usage(arguments: tuple[str, ...], said: str):
    done = triage("logs", STORY, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_a_log_without_times():
    done = triage("logs", CORPUS / "sglang-undated" / "log", "--since", "-10min")
    assert done.returncode == 2
    assert "no record of this log has a time" in done.stderr


# one file a rank


def rows_of(data: bytes) -> list[bytes]:
    return BytesIO(data).readlines()


def split(where: Path, *files: Path) -> dict[str, bytes]:
    done = triage("logs", *files, "--split-ranks", where)
    assert (done.returncode, done.stderr) == (0, "")
    found = {path.name: path.read_bytes() for path in where.iterdir()}
    assert {line.split()[0] for line in done.stdout.splitlines()} == {str(where / name) for name in found}
    return found


def test_each_rank_has_its_traceback_whole(tmp_path: Path):
    found = split(tmp_path / "ranks", STORY)
    assert sorted(found) == [*(f"{rank}.log" for rank in RANKS), "main.log"]
    for rank in ("PP3", "PP5"):
        text = found[f"{rank}.log"].decode()
        trace = text[text.index("Traceback") :].rstrip().splitlines()
        assert trace[-1] == "IndexError: list index out of range"
        assert sum(line.startswith("  File ") for line in trace) == 14
    # the two are alike but for the tag of their first line
    first, second = (found[f"{rank}.log"].partition(b"Traceback")[2] for rank in ("PP3", "PP5"))
    assert first.strip() == second.strip()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_no_line_is_lost_or_changed(case: Path, tmp_path: Path):
    for number, path in enumerate(sorted(path for path in case.iterdir() if path.name != "expected.yaml")):
        source = open_log(str(path))
        where = tmp_path / str(number)
        counts = split_ranks([source], where)
        found = {path.stem: path.read_bytes() for path in where.iterdir()}
        assert {name: len(rows_of(text)) for name, text in found.items()} == counts
        data = source.data
        whole = Counter(rows_of(bytes(data[:])))
        parted = Counter(row for text in found.values() for row in rows_of(text))
        assert not whole - parted
        assert parted.keys() <= whole.keys()


def test_a_torn_line_is_with_both_ranks(tmp_path: Path):
    log = CORPUS / "sglang-records-torn" / "log"
    found = split(tmp_path / "ranks", log)
    (torn,) = (row for row in rows_of(log.read_bytes()) if row.startswith(b"  File ") and b"PP5" in row)
    assert [name for name in sorted(found) if torn in found[name]] == ["PP3.log", "PP5.log"]


def test_parts_of_a_line_are_with_their_rank(tmp_path: Path):
    stamp = "2026-06-24T12:05:21.085308861Z stderr"
    log = tmp_path / "log"
    log.write_text(
        f"{stamp} P [2026-06-24 12:05:21 PP1] be\n{stamp} F gin\n{stamp} P [2026-06-24 12:05:21 PP2] cut\n"
    )
    found = split(tmp_path / "ranks", log)
    rows = log.read_bytes().splitlines(keepends=True)
    assert found == {"PP1.log": rows[0] + rows[1], "PP2.log": rows[2]}


def test_newest_first_becomes_oldest_first(tmp_path: Path):
    log = CORPUS / "gcp-newest-first-stripped" / "log"
    found = split(tmp_path / "ranks", log)
    text = found["PP3.log"]
    assert 0 < text.index(b"Traceback") < text.index(b"get_value_buffer(0)") < text.index(b"IndexError: ")


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path):
    (tmp_path / "mine").write_text("x")
    done = triage("logs", STORY, "--split-ranks", tmp_path)
    assert done.returncode == 4
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    done = triage("logs", STORY, "--split-ranks", tmp_path / "mine")
    assert done.returncode == 4
    assert (tmp_path / "mine").read_text() == "x"


def test_an_empty_directory_is_taken(tmp_path: Path):
    where = tmp_path / "ranks"
    where.mkdir()
    assert "PP3.log" in split(where, STORY)


def test_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(splitting._Files, "flush", fail)
    with pytest.raises(KeyboardInterrupt):
        split_ranks([open_log(str(STORY))], tmp_path / "ranks")
    assert list(tmp_path.iterdir()) == []


def test_more_ranks_than_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(splitting, "MAX_FILES", 3)
    data = b"".join(b"[2026-05-12 14:03:59 PP%d] x\n" % number for number in range(9))
    counts = split_ranks([LogSource("log", data)], tmp_path / "ranks")
    assert counts == {"PP0": 1, "PP1": 1, "PP2": 1, "main": 6}


def test_a_line_without_an_end_is_not_glued_to_the_next(tmp_path: Path):
    stamp = b"[2026-05-12 14:03:59 PP0]"
    first, second = LogSource("a", stamp + b" one\n" + stamp + b" cut"), LogSource("b", stamp + b" two")
    split_ranks([first, second], tmp_path / "ranks")
    assert (tmp_path / "ranks" / "PP0.log").read_bytes() == b"%b one\n%b cut\n%b two" % (stamp, stamp, stamp)

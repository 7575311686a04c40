"""A case gives the diagnosis that its host gave, field by field, and says what it must give from now on."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.evidence.conftest import ScriptedHost, exec_start, ps_text, tree_text, unit_text
from tests.patching.wheels import WheelTree, wheel
from triage.common.errors import RefusedError
from triage.evidence.catalogue import GpuInventory, Journal, KernelLog, ListeningPorts, MemoryInfo, OsRelease
from triage.hosts import Output
from triage.logs.model import LogSource
from triage.report import json as rendered
from triage.workflows import capture, diagnose, replay

JOURNAL = Path(__file__).parents[1] / "corpus/sglang-0.5.11-pp8-triton-live-journal/journal.json.gz"
SITE_PACKAGES = "/opt/sglang/lib/python3.12/site-packages"
SOURCES = (
    "sglang/srt/layers/attention/triton_backend.py",
    "sglang/srt/mem_cache/",
    "sglang/srt/distributed/",
)
SERVE = "/opt/sglang/bin/python -m sglang.launch_server --model-path /srv/models/Kimi-K2.6 --pp-size 8"
CONFIG = json.dumps({"text_config": {"num_hidden_layers": 61, "num_attention_heads": 64}})
UNIT = "sglang-kimi.service"
TOKEN = "hf_" + "a1" * 16
KNOWLEDGE = diagnose.load_knowledge()


@cache
def journal() -> bytes:
    """The recorded journal in the form in which journalctl exports it."""
    return b"\n".join(
        _exported(json.loads(line)) for line in gzip.decompress(JOURNAL.read_bytes()).splitlines()
    )


def _exported(entry: dict[str, str | list[int]]) -> bytes:
    told = []
    for name, value in entry.items():
        data = value.encode() if isinstance(value, str) else bytes(value)
        if isinstance(value, list) or "\n" in value:
            told.append(name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n")
        else:
            told.append(f"{name}={value}\n".encode())
    return b"".join(told)


@cache
def sources() -> dict[str, bytes | str]:
    archive = WheelTree(wheel("sglang", "0.5.11")).archive
    names = [name for name in archive.namelist() if name.startswith(SOURCES) and name.endswith(".py")]
    return {f"{SITE_PACKAGES}/{name}": archive.read(name) for name in names}


class StoryHost(ScriptedHost):
    """The machine of the story as its commands answer. Its kernel has nothing to say."""

    def run(self, argv: Sequence[str], **options: Any) -> Output:
        if "_TRANSPORT=kernel" in argv:
            return Output(0, b"", b"")
        return super().run(argv, **options)


@pytest.fixture
def host() -> StoryHost:
    invocation = json.loads(gzip.decompress(JOURNAL.read_bytes()).splitlines()[0])["INVOCATION_ID"]
    failed = {
        "ActiveState": "failed",
        "Result": "signal",
        "ExecMainCode": 2,
        "ExecMainStatus": 9,
        "InvocationID": invocation,
        "Environment": f"HF_TOKEN={TOKEN}",
        "ExecStart": exec_start(*SERVE.split()),
    }
    return StoryHost(
        files={"/srv/models/Kimi-K2.6/config.json": CONFIG, **sources()},
        commands={
            "systemctl show": unit_text(UNIT, **failed),
            "ps": ps_text((1, 0, "root", "init")),
            "id": "root\n",
            "uname": "gpu-node7\n",
            "env -i": tree_text(f"{SITE_PACKAGES}/sglang"),
            "journalctl": journal(),
        },
    )


def healthy(host: StoryHost) -> None:
    host.commands["systemctl show"] = unit_text(UNIT, ExecStart=exec_start(*SERVE.split()))
    host.commands["journalctl"] = _exported({"__REALTIME_TIMESTAMP": "1778594639000000", "MESSAGE": "ready"})


def written(directory: Path) -> dict[str, Any]:
    expected: dict[str, Any] = yaml.safe_load((directory / replay.EXPECTED).read_text())
    return expected


def test_the_case_gives_the_diagnosis_of_the_host(host: StoryHost, tmp_path: Path) -> None:
    live = diagnose.diagnose(host.evidence, KNOWLEDGE)
    capture.capture(host.evidence, KNOWLEDGE, tmp_path / "case")
    recorded = replay.diagnose_case(tmp_path / "case", KNOWLEDGE)
    (found,) = live.incidents
    assert found.verdict.certainty == "confirmed"
    assert (recorded.origin.kind, recorded.origin.name) == ("case", "case")
    there, here = (
        json.dumps(rendered.diagnosis(replace(each, origin=live.origin))) for each in (live, recorded)
    )
    assert here.replace("triage patch HOST", "triage patch gpu01") == there


def test_the_expectation_is_that_of_the_host(host: StoryHost, tmp_path: Path) -> None:
    case = capture.capture(host.evidence, KNOWLEDGE, tmp_path / "case")
    assert written(case.directory) == {
        "category": "pp-rank-assumption",
        "certainty": "confirmed",
        "rule": "sglang-pp-value-head-dim",
        "initiator": "IndexError: list index out of range",
        "initiator_line": 156,
        "ranks": ["PP3", "PP5"],
        "silent_ranks": ["PP0", "PP1", "PP2", "PP4", "PP6", "PP7"],
    }
    (again,) = replay.replay([case.directory], KNOWLEDGE)
    assert again.differences == ()


def test_what_was_read_and_what_a_person_wants_to_know_besides(host: StoryHost, tmp_path: Path) -> None:
    host.commands["nvidia-smi"] = (
        "<nvidia_smi_log><gpu><product_name>H200</product_name></gpu></nvidia_smi_log>"
    )
    host.files["/proc/meminfo"] = "MemTotal: 1 kB\n"
    case = capture.capture(host.evidence, KNOWLEDGE, tmp_path / "case")
    manifest = json.loads((case.directory / "manifest.json").read_text())
    asked = {answer["key"].partition(" ")[0]: answer for answer in manifest["answers"]}
    assert {each.name for each in (Journal, KernelLog, OsRelease, MemoryInfo)} <= asked.keys()
    assert "H200" in (case.directory / asked[GpuInventory.name]["file"]).read_text()
    assert asked[ListeningPorts.name]["missing"] == "the command is not on this host"
    assert case.answered == sum("file" in answer for answer in manifest["answers"])
    assert case.missing == sum("missing" in answer for answer in manifest["answers"])


def test_no_secret_leaves_the_host(host: StoryHost, tmp_path: Path) -> None:
    log = LogSource("crash.log", f"[2026-05-12 14:03:59] ValueError: bad token {TOKEN}\n".encode())
    for name, logs in (("journal", ()), ("log", (log,))):
        case = capture.capture(host.evidence, KNOWLEDGE, tmp_path / name, UNIT, *logs)
        for path in case.directory.rglob("*"):
            assert path.is_dir() or TOKEN.encode() not in path.read_bytes(), path
    assert written(tmp_path / "log")["initiator"] == "ValueError: bad token <token-1>"


def test_without_program_text_the_probes_that_read_it_are_open(host: StoryHost, tmp_path: Path) -> None:
    case = capture.capture(host.evidence, KNOWLEDGE, tmp_path / "case", source=False)
    assert not any(b"class TritonAttnBackend" in path.read_bytes() for path in case.directory.rglob("*.txt"))
    assert written(case.directory)["certainty"] == "likely"
    (again,) = replay.replay([case.directory], KNOWLEDGE)
    assert again.differences == ()


def test_a_healthy_service_is_a_case_too(host: StoryHost, tmp_path: Path) -> None:
    healthy(host)
    case = capture.capture(host.evidence, KNOWLEDGE, tmp_path / "case")
    assert written(case.directory) == {"category": "none"}


def test_a_second_capture_may_replace_the_first_and_what_the_first_expected(
    host: StoryHost, tmp_path: Path
) -> None:
    first = capture.capture(host.evidence, KNOWLEDGE, tmp_path / "case")
    healthy(host)
    with pytest.raises(RefusedError, match="a case already") as caught:
        capture.capture(host.evidence, KNOWLEDGE, tmp_path / "case")
    assert "--replace" in caught.value.next
    second = capture.capture(host.evidence, KNOWLEDGE, tmp_path / "case", replacing=True)
    assert first.directory == second.directory
    assert written(second.directory) == {"category": "none"}


def test_an_archive_gives_what_the_directory_gives(host: StoryHost, tmp_path: Path) -> None:
    directory, packed = (
        capture.capture(host.evidence, KNOWLEDGE, tmp_path / name).directory
        for name in ("case", "case.tar.zst")
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case", "case.tar.zst"]
    one, other = replay.replay(replay.find_cases([tmp_path]), KNOWLEDGE)
    assert (one.name, other.name) == (str(directory), str(packed))
    assert one.differences == other.differences == ()
    assert one.found == other.found
    diagnosed = [
        rendered.diagnosis(replay.diagnose_case(path, KNOWLEDGE))["incidents"] for path in (directory, packed)
    ]
    assert diagnosed[0] == diagnosed[1]


def test_a_full_case_has_what_a_bug_report_needs(host: StoryHost, tmp_path: Path) -> None:
    asked = []
    for full in (False, True):
        case = capture.capture(host.evidence, KNOWLEDGE, tmp_path / f"full-{full}", full=full)
        manifest = json.loads((case.directory / "manifest.json").read_text())
        asked.append({answer["key"] for answer in manifest["answers"]})
        (again,) = replay.replay([case.directory], KNOWLEDGE)
        assert again.differences == ()
    assert asked[0] < asked[1]
    more = {key.partition(" ")[0] for key in asked[1] - asked[0]}
    assert {"list-directory", "disk-free", "unit-properties"} <= more


def test_something_else_in_its_place_stays(host: StoryHost, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RefusedError):
        capture.capture(host.evidence, KNOWLEDGE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evidence.conftest import ScriptedHost, exec_start, ps_text, tree_text, unit_text
from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.evidence.cases.case import MANIFEST, read_case, write_case
from triage.evidence.catalogue import GpuInventory, ReadFile
from triage.evidence.discovery.deployments import discover
from triage.evidence.log_sources import log_sources
from triage.evidence.recorded import RecordedEvidence
from triage.logs.model import LogSource

TOKEN = "hf_" + "a1" * 16
ROOT = "/home/mira/venv/lib/python3.11/site-packages/sglang"
SERVE = (
    "/home/mira/venv/bin/python",
    "-m",
    "sglang.launch_server",
    "--model-path",
    "/home/mira/m",
    "--api-key",
    TOKEN,
)


@pytest.fixture
def crashed(host: ScriptedHost) -> ScriptedHost:
    """A host full of names: of a person, the machine, and addresses."""
    host.commands |= {
        "systemctl show": unit_text(
            "kimi.service",
            ActiveState="failed",
            Result="signal",
            ExecMainCode=2,
            ExecMainStatus=9,
            ExecMainExitTimestamp="Sun 2026-11-29 17:05:00 UTC",
            User="mira",
            WorkingDirectory="/home/mira",
            Environment="PYTHONPATH=/home/mira/code MASTER_ADDR=10.20.30.40",
            ExecStart=exec_start(*SERVE),
        ),
        "ps": ps_text((1, 0, "root", "init"), (77, 1, "mira", "bash")),
        "id": "mira\n",
        "uname": "gpu-node7.fleet.example\n",
        "env -i PYTHONPATH=/home/mira/code /home/mira/venv/bin/python": tree_text(ROOT),
        "journalctl": b"__REALTIME_TIMESTAMP=1795972538000000\n_PID=7\n"
        b"MESSAGE=peer 10.20.30.40 gone, token " + TOKEN.encode() + b" of mira on gpu-node7\n\n",
    }
    host.files[f"{ROOT}/srt/pool.py"] = b"\xef\xbb\xbfx = '\xff'\r\n"
    host.name = "mira@gpu-node7"
    return host


def ask_everything(evidence: RecordedEvidence) -> object:
    """What a diagnosis reads, in order."""
    (deployment,) = discover(evidence)
    sources = log_sources(evidence, deployment)
    source = evidence.ask(ReadFile(f"{deployment.package_root}/srt/pool.py"))
    return deployment, sources, source.value, evidence.ask(GpuInventory()).missing


def written(crashed: ScriptedHost, directory: Path) -> Path:
    evidence = crashed.evidence
    ask_everything(evidence)  # type: ignore[arg-type]
    write_case(directory, evidence, "kimi.service", replacing=True)
    return directory


def test_a_case_answers_what_the_host_answered(crashed: ScriptedHost, tmp_path: Path) -> None:
    case = read_case(written(crashed, tmp_path / "case"))
    assert (case.name, case.unit, case.log) == ("case", "kimi.service", None)
    replayed = RecordedEvidence(case)
    assert (replayed.origin.kind, replayed.origin.name) == ("case", "case")
    deployment, sources, source, missing = ask_everything(replayed)  # type: ignore[misc]
    assert deployment.exit_status == "9/KILL"
    assert deployment.version == "0.5.11"
    assert deployment.package_root == ROOT.replace("mira", "<user-1>")
    assert deployment.environment["MASTER_ADDR"] == "<address-1>"
    assert "peer <address-1> gone, token <token-1> of <user-1> on <host-1>" in sources[0].data.decode()
    assert source.encode("utf-8", "surrogateescape") == b"\xef\xbb\xbfx = '\xff'\r\n"
    assert missing == "the command is not on this host"


def test_what_was_not_asked_is_missing(crashed: ScriptedHost, tmp_path: Path) -> None:
    replayed = RecordedEvidence(read_case(written(crashed, tmp_path / "case")))
    answer = replayed.ask(ReadFile("/etc/passwd"))
    assert (answer.value, answer.missing) == (None, "the case does not hold it")
    assert answer.command == "cat -- /etc/passwd"


def test_no_name_and_no_secret_is_in_any_file(crashed: ScriptedHost, tmp_path: Path) -> None:
    directory = written(crashed, tmp_path / "case")
    for path in directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for name in (TOKEN.encode(), b"mira", b"gpu-node7", b"fleet.example", b"10.20.30.40"):
                assert name not in data, path
            assert b"mira" not in path.name.encode()


def test_the_manifest_says_what_was_asked(crashed: ScriptedHost, tmp_path: Path) -> None:
    directory = written(crashed, tmp_path / "case")
    manifest = json.loads((directory / MANIFEST).read_text())
    assert manifest["schema"] == "triage.case/1"
    names = {answer["file"] for answer in manifest["answers"] if "file" in answer}
    assert {"answers/service-units.txt", "answers/journal-kimi.service.jsonl"} <= names
    assert all((directory / name).is_file() for name in names)
    assert all(answer.get("sha256") or answer.get("missing") for answer in manifest["answers"])


def test_a_log_that_was_given_by_hand(crashed: ScriptedHost, tmp_path: Path) -> None:
    log = LogSource("/home/mira/crash.log", f"10.20.30.40 {TOKEN} \udcff".encode("utf-8", "surrogateescape"))
    evidence = crashed.evidence
    ask_everything(evidence)  # type: ignore[arg-type]
    write_case(tmp_path / "case", evidence, log=log)
    found = read_case(tmp_path / "case").log
    assert found == LogSource("/home/<user-1>/crash.log", b"<address-1> <token-1> \xff")


def test_writing_again_replaces_the_bundle_and_keeps_the_rest(crashed: ScriptedHost, tmp_path: Path) -> None:
    directory = written(crashed, tmp_path / "case")
    (directory / "expected.yaml").write_text("category: x\n")
    (directory / "answers" / "stray").touch()
    written(crashed, directory)
    assert (directory / "expected.yaml").read_text() == "category: x\n"
    assert not (directory / "answers" / "stray").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case"]


def test_something_else_is_not_overwritten(crashed: ScriptedHost, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / MANIFEST).write_text('{"name": "web app"}')
    for name in ("home", "file", "link", "other"):
        with pytest.raises(RefusedError, match="no case"):
            write_case(tmp_path / name, crashed.evidence)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"


def test_an_empty_directory_is_taken(crashed: ScriptedHost, tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    assert read_case(written(crashed, tmp_path / "case")).recorded


def test_what_cannot_be_written_is_an_error(crashed: ScriptedHost, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnreachableError, match="writing the case"):
        write_case(tmp_path / "file" / "case", crashed.evidence)


def changed(directory: Path, **changes: object) -> None:
    manifest = json.loads((directory / MANIFEST).read_text())
    manifest["answers"][0] |= changes
    (directory / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "file",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "answers/../../x",
        "answers/a/b",
        "answers/..",
        "answers/.x",
        "manifest.json",
        "answers/\0",
    ],
)
def test_a_path_that_leads_out_is_refused(crashed: ScriptedHost, tmp_path: Path, file: str) -> None:
    directory = written(crashed, tmp_path / "case")
    changed(directory, file=file)
    with pytest.raises(UsageError, match=r"answers\.0\.file"):
        read_case(directory)


def test_a_link_that_leads_out_is_refused(crashed: ScriptedHost, tmp_path: Path) -> None:
    directory = written(crashed, tmp_path / "case")
    answer = directory / "answers" / "service-units.txt"
    (tmp_path / "outside").write_bytes(answer.read_bytes())
    answer.unlink()
    answer.symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="plain file"):
        read_case(directory)


def test_answers_that_are_a_link_are_refused(crashed: ScriptedHost, tmp_path: Path) -> None:
    directory = written(crashed, tmp_path / "case")
    (directory / "answers").rename(tmp_path / "elsewhere")
    (directory / "answers").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="plain file"):
        read_case(directory)


def test_changed_bytes_are_noticed(crashed: ScriptedHost, tmp_path: Path) -> None:
    directory = written(crashed, tmp_path / "case")
    (directory / "answers" / "processes.txt").write_text("[]\n")
    with pytest.raises(UsageError, match="processes") as caught:
        read_case(directory)
    assert "not those that were captured" in caught.value.happened


def test_a_file_that_is_gone_is_named(crashed: ScriptedHost, tmp_path: Path) -> None:
    directory = written(crashed, tmp_path / "case")
    (directory / "answers" / "processes.txt").unlink()
    with pytest.raises(UsageError, match=r"processes\.txt"):
        read_case(directory)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "the file"),
        ("{", "the file"),
        ("[]", "the file"),
        ("null", "the file"),
        ('{"schema": "triage.case/9", "created": "", "answers": []}', "schema"),
        ('{"schema": "triage.case/1", "answers": []}', "created"),
        ('{"schema": "triage.case/1", "created": "", "answers": [], "extra": 1}', "extra"),
        (
            '{"schema": "triage.case/1", "created": "", "answers": [{"key": 5, "command": ""}]}',
            r"answers\.0\.key",
        ),
        (
            '{"schema": "triage.case/1", "created": "", "answers": [{"key": "", "command": "", "size": -1}]}',
            r"answers\.0\.size",
        ),
    ],
)
def test_a_broken_manifest_names_file_and_key(tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UsageError, match=rf"{MANIFEST}: {key}"):
        read_case(tmp_path)


def test_a_directory_that_is_no_case(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="manifest"):
        read_case(tmp_path)
    with pytest.raises(UsageError, match="manifest"):
        read_case(tmp_path / "nowhere")

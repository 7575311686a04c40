"""Secrets of every common kind in every source of a host: none is in anything that is written or printed."""

from __future__ import annotations

import base64
import io
import json
import random
import string
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from rich.console import Console

from tests.evidence.conftest import ScriptedHost, exec_start, ps_text, tree_text, unit_text
from tests.evidence.journal import export
from tests.patching.wheels import WheelTree, wheel
from triage.evidence.catalogue import ReadFile
from triage.evidence.live import LiveEvidence
from triage.hosts import Output
from triage.report import bugreport, text
from triage.report import json as rendered
from triage.workflows import capture, diagnose

UNIT, PID = "sglang-kimi.service", 241
RUN = "c915d3cfd26845938b76a4178eaab2e1"
ROOT = "/opt/sglang/lib/python3.12/site-packages"
BACKEND = "sglang/srt/layers/attention/triton_backend.py"
KNOWLEDGE = diagnose.load_knowledge()
LETTERS = string.ascii_letters + string.digits

# What stands in the text for the secret, and is looked for, is between « and ».
KINDS: Mapping[str, str] = {
    "hugging face": "downloading with «hf_{34}»",
    "hugging face, organisation": "«api_org_{34}»",
    "openai": "«sk-proj-9{46}»",
    "openai, old": "key «sk-9{46}»",
    "anthropic": "«sk-ant-api03-9{46}»",
    "github": "cloning with «ghp_{36}»",
    "github, app": "«ghs_{36}»",
    "github, fine": "«github_pat_{60}»",
    "gitlab": "«glpat-{20}»",
    "slack": "«xoxb-{30}»",
    "aws, id": "«AKIAIOSFODNN7{upper}»",
    "aws, secret": "aws_secret_access_key = «{40}»",
    "aws, environment": "AWS_SECRET_ACCESS_KEY=«{40}»",
    "aws, session": "AWS_SESSION_TOKEN=«{60}»",
    "gcp": "«AIza{35}»",
    "gcp, access": "«ya29.{70}»",
    "gcp, client": "«GOCSPX-{28}»",
    "jwt": "«eyJ{30}.eyJ{30}.{40}»",
    "bearer": "Authorization: Bearer «{32}»",
    "bearer, in a dict": "headers={'authorization': 'Bearer «{32}»'}",
    "basic": "Authorization: Basic «{basic}»",
    "header": "X-Api-Key: «{32}»",
    "url": "pulling https://svc:«{20}»@registry.example/v2/",
    "url, redis": "redis://:«{20}»@cache:6379/0",
    "url, query": "GET /v1/models?api_key=«{32}»&limit=1",
    "flag": "python -m sglang.launch_server --api-key «{24}» --port 1",
    "flag with =": "vllm serve m --api-key=«{24}»",
    "flag, admin": "--admin-api-key «{24}»",
    "flag, in a list": "['--hf-token', '«{24}»']",
    "flag, in a list over lines": '"Args": [\n    "--api-key",\n    "«{24}»"\n  ]',
    "flag, over lines": "serve --api-key \\\n   «{24}» \\\n  --port 1",
    "set": "'api_keys': {'«{24}»', '«{24}»'}",
    "lists": "api_key=[['«{24}»'], ('«{24}»', '«{24}»')]",
    "mapping": "api_keys={'alice': '«{24}»'}",
    "name and value": '{"name": "HF_TOKEN", "value": "«{24}»"}',
    "arguments": "ServerArgs(model_path='/m', api_key='«{24}»', port=1)",
    "environment": "WANDB_API_KEY=«{40}»",
    "environment, password": "DB_PASSWORD=«{16}»",
    "json": '{"client_secret": "«{32}»", "n": 1}',
    "json in json": '{"a": "{\\"password\\": \\"«{20}»\\"}"}',
    "yaml": "password: «{20}»",
    "key": "-----BEGIN RSA PRIVATE KEY-----\n«{64}»\n«{64}»\n-----END RSA PRIVATE KEY-----",
    "key of a service account": '{"private_key": "-----BEGIN PRIVATE KEY-----\\n«{64}»\\n«{64}»\\n-----END"}',
}


class Planted:
    """Texts with secrets of every kind, new ones each time; it remembers all of them."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.secrets: dict[str, str] = {}  # secret -> where it was planted

    def texts(self, where: str) -> Iterator[str]:
        for kind, shape in KINDS.items():
            yield self.filled(shape, f"{kind} in {where}")

    def lines(self, where: str) -> list[str]:
        return [line for each in self.texts(where) for line in each.splitlines()]

    def words(self, where: str) -> str:
        return " ".join(each for each in self.texts(where) if "\n" not in each)

    def filled(self, shape: str, where: str) -> str:
        parts = shape.split("«")
        told = parts[0]
        for part in parts[1:]:
            form, _, after = part.partition("»")
            secret = self._secret(form)
            self.secrets[secret] = where
            told += secret + after
        return told

    def _secret(self, form: str) -> str:
        while "{" in form:
            before, _, rest = form.partition("{")
            size, _, after = rest.partition("}")
            form = before + self._word(size) + after
        return form

    def _word(self, size: str) -> str:
        if size == "basic":
            return base64.b64encode(f"svc:{self._word('24')}".encode()).decode()
        if size == "upper":
            return "".join(self._chance.choices(string.ascii_uppercase, k=7))
        word = "".join(self._chance.choices(LETTERS, k=int(size) - 2))
        return f"{word}7q"


def entry(message: str, at: int, **fields: bytes) -> dict[str, bytes]:
    return {
        "__REALTIME_TIMESTAMP": b"%d" % (1_795_972_507_000_000 + at),
        "_PID": b"%d" % PID,
        "SYSLOG_IDENTIFIER": b"python",
        "MESSAGE": message.encode(),
        **fields,
    }


CRASH = f"""\
[2026-11-29 17:00:59 PP3] Scheduler hit an exception: Traceback (most recent call last):
  File "{ROOT}/{BACKEND}", line 120, in __init__
    self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(0).shape[-1]
  File "{ROOT}/sglang/srt/mem_cache/memory_pool.py", line 400, in get_value_buffer
    return self.v_buffer[layer_id]
IndexError: list index out of range
[2026-11-29 17:00:59 PP4] Scheduler hit an exception: Traceback (most recent call last):
  File "{ROOT}/{BACKEND}", line 120, in __init__
    f()
ValueError: {{}}
""".splitlines()


class Host(ScriptedHost):
    """A machine that tells secrets wherever it is asked."""

    def run(self, argv: Sequence[str], **options: Any) -> Output:
        return super().run(("kernel",) if "_TRANSPORT=kernel" in argv else argv, **options)


def telling(planted: Planted) -> Host:
    crash = [line.replace("{}", planted.words("exception")) for line in CRASH]
    told = [*planted.lines("journal"), *crash, *planted.lines("end")]
    journal = [entry(line, at, _SYSTEMD_INVOCATION_ID=RUN.encode()) for at, line in enumerate(told)]
    kernel = [entry(line, at, SYSLOG_IDENTIFIER=b"kernel") for at, line in enumerate(planted.lines("kernel"))]
    environment = "\0".join(["PATH=/bin", "PYTHONPATH=/srv", *planted.lines("environ")])
    arguments = ["/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path", "/srv/model"]
    arguments += ["--api-key", planted.filled("«{24}»", "arguments")]
    config = {
        "num_hidden_layers": 61,
        "more": list(planted.texts("config")),
        "auth_token": planted.filled("«{32}»", "config, as a value"),
    }
    source = WheelTree(wheel("sglang", "0.5.11")).archive.read(BACKEND)
    return Host(
        files={
            "/srv/model/config.json": json.dumps(config),
            f"/proc/{PID}/environ": environment,
            f"/proc/{PID}/cmdline": "\0".join(arguments) + "\0",
            f"/proc/{PID}/cwd": "/srv\n",
            f"/proc/{PID}/cgroup": f"0::/system.slice/{UNIT}\n",
            "/etc/os-release": "\n".join(planted.lines("os-release")),
            "/proc/meminfo": "MemTotal: 1 kB\n",
            f"{ROOT}/{BACKEND}": source
            + (
                "\n".join(
                    f"# {each}"
                    for each in (
                        planted.filled("«hf_{34}»", "source"),
                        planted.filled("«ghp_{36}»", "source"),
                    )
                )
            ).encode(),
        },
        commands={
            "systemctl show": unit_text(
                UNIT,
                ActiveState="active",
                MainPID=PID,
                InvocationID=RUN,
                Environment=" ".join(f'"{line}"' for line in planted.lines("unit")),
                ExecStart=exec_start(*arguments, *planted.words("command").split()),
            ),
            "ps": ps_text((1, 0, "root", "init"), (PID, 1, "svc", f"python {planted.words('processes')}")),
            "id": "root\n",
            "uname": "gpu-node7\n",
            "env -i": tree_text(f"{ROOT}/sglang"),
            "find": "f 10 config.json\0",
            "nvidia-smi": "<nvidia_smi_log>" + "\n".join(planted.lines("nvidia-smi")) + "</nvidia_smi_log>",
            "ss": planted.words("ports"),
            "df": planted.words("df"),
            "journalctl": export(*journal),
            "kernel": Output(0, export(*kernel)),
        },
    )


def printed(report: diagnose.Report) -> Iterator[tuple[str, bytes]]:
    """Everything that a diagnosis is shown as."""
    console = Console(file=io.StringIO(), width=200)
    text.render(report, console)
    yield "text", console.file.getvalue().encode()  # type: ignore[attr-defined]
    yield "json", json.dumps(rendered.diagnosis(report), ensure_ascii=False).encode()
    yield "bug report", bugreport.bug_report(report).encode("utf-8", "backslashreplace")


def held(archive: Path) -> Iterator[tuple[str, bytes]]:
    with (
        archive.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        for member in tar:
            data = tar.extractfile(member)
            yield f"archive: {member.name}", data.read() if data else b""


@pytest.mark.parametrize("seed", range(3))
def test_no_secret_of_a_host_is_in_anything_that_is_written(seed: int, tmp_path: Path) -> None:
    planted = Planted(seed)
    host = telling(planted)
    outputs = dict(printed(diagnose.diagnose(LiveEvidence(host), KNOWLEDGE, UNIT)))
    for name in ("case", "case.tar.zst"):
        evidence = LiveEvidence(host)
        evidence.ask(ReadFile(f"{ROOT}/{BACKEND}"))
        capture.capture(evidence, KNOWLEDGE, tmp_path / name, UNIT, full=True)
    outputs |= dict(held(tmp_path / "case.tar.zst"))
    for path in (tmp_path / "case").rglob("*"):
        if path.is_file():
            outputs[str(path.relative_to(tmp_path))] = path.read_bytes()
    told = b"".join(outputs.values())
    for read in (b"IndexError", b"class TritonAttnBackend", b"num_hidden_layers", b"MemTotal"):
        assert read in told
    found = {
        (where, name)
        for secret, where in planted.secrets.items()
        for name, data in outputs.items()
        if secret.encode() in data
    }
    assert not found

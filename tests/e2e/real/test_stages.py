"""Models whose head is tied, on a real engine with two stages on a CPU: dead before the patches, and with
them the same words as on one stage. (OPT dies of its loader.)

The engines are whole and unmodified but for the patches; the models are small and random.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.real import environments, test_sglang, test_vllm
from tests.verify.conftest import free_port

SGLANG = (
    "-m", "sglang.launch_server", "--device=cpu", "--attention-backend=triton", "--disable-overlap-schedule",
    "--max-total-tokens=4096", "--context-length=1024", "--triton-attention-num-kv-splits=1",
    "--skip-server-warmup", "--dtype=float32", "--model-path",
)  # fmt: skip
VLLM = ("--max-model-len=1024", "--enforce-eager", "-pp")
RULES = ("pp-placeholder-tied-embedding", "pp-weight-of-another-stage", "sglang-pp-placeholder-called")
# model: what fixes it
SGLANG_MODELS = {
    "llama": ["sglang-llama-tied-head"],
    "exaone4": ["sglang-exaone4-own-layers", "sglang-exaone4-tied-head"],
    "granite": ["sglang-granite-load-weights", "sglang-granite-tied-head"],
    "apertus": ["sglang-apertus-tied-head"],
    "opt": ["sglang-opt-load-weights"],
}
VLLM_MODELS = {
    "ernie": ["vllm-ernie-moe-tied-head", "vllm-eager-intermediate-tensors"],
    "falcon": ["vllm-falcon-h1-tied-head", "vllm-eager-intermediate-tensors"],
}


@pytest.mark.real
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [*SGLANG_MODELS, *VLLM_MODELS])
def test_two_stages_say_what_one_says(name: str, tmp_path: Path) -> None:
    engine = "sglang" if name in SGLANG_MODELS else "vllm"
    place = environments.sglang() if engine == "sglang" else environments.vllm()
    maker = Path(environments.__file__).with_name("tied.py")
    subprocess.run([place / "bin" / "python", maker, tmp_path, name], check=True)
    whole = said(engine, place, tmp_path / name, 1, tmp_path / "whole.log")
    assert whole

    assert said(engine, place, tmp_path / name, 2, tmp_path / "dead.log") is None
    (incident,) = triage("diagnose", "--log", tmp_path / "dead.log", code=1)["incidents"]
    assert incident["diagnoses"][0]["rule"] in RULES
    proposed = [remedy.get("id") for remedy in incident["diagnoses"][0]["remedies"]]
    patches = (SGLANG_MODELS | VLLM_MODELS)[name]
    assert set(patches) & set(proposed)

    patched = tmp_path / "patched"
    patched.mkdir()
    packages = environments.site_packages(place)
    for part in (packages / engine, *packages.glob(f"{engine}*.dist-info")):
        subprocess.run(["cp", "-rl", part, patched], check=True)
    ids = [f"--id={patch}" for patch in patches]
    triage("patch", patched, *ids, "--apply", "--yes", "--ledger", tmp_path / "ledger")
    assert said(engine, place, tmp_path / name, 2, tmp_path / "alive.log", PYTHONPATH=str(patched)) == whole


def triage(*arguments: object, code: int = 0) -> dict[str, object]:
    argv = [sys.executable, "-m", "triage", *map(str, arguments), "--format", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout)


def said(engine: str, place: Path, model: Path, stages: int, log: Path, **variables: str) -> list[str] | None:
    """What a server says to a prompt, token by token; None where it dies of it or before."""
    port = free_port()
    if engine == "sglang":
        argv = [*SGLANG, model, f"--pp-size={stages}"]
    else:
        argv = ["-m", "vllm.entrypoints.cli.main", "serve", model, *VLLM, stages]
    known = test_sglang.ENVIRONMENT if engine == "sglang" else test_vllm.ENVIRONMENT
    argv = [place / "bin" / "python", *argv, "--served-model-name=tiny", "--host=127.0.0.1", f"--port={port}"]
    with running([str(part) for part in argv], {**os.environ, **known, **variables}, log) as server:
        while server.poll() is None:
            if "Application startup complete" in log.read_text(errors="replace"):
                return answer(port, server)
            time.sleep(1)
    return None


def answer(port: int, server: subprocess.Popen[bytes]) -> list[str] | None:
    body = {"model": "tiny", "prompt": "The def statement", "temperature": 0, "max_tokens": 12, "logprobs": 1}
    url = f"http://127.0.0.1:{port}/v1/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as reply:
            return json.load(reply)["choices"][0]["logprobs"]["tokens"]
    except OSError:
        server.wait(60)
        return None


@contextmanager
def running(
    argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A server and all that it starts, ended at the end."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            argv, env=dict(environment), stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()

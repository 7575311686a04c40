"""The story on a real SGLang, whole and unmodified, with a pipeline of four stages on a CPU.

Real: every line of sglang, its schedulers, attention backend, memory pools and HTTP server, torch and gloo,
systemd, journald and sshd. Stand-in: the CUDA kernels, which are not reached, and Triton's interpreter for
its compiler.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.box import Bind, Box, Overlay, interpreter
from tests.e2e.real import environments
from tests.e2e.real.conftest import BRIEF, show, tells_what_runs

HOST = "real01"
UNIT = "sglang-tiny.service"
RULE, PATCH = "sglang-pp-value-head-dim", "sglang-triton-value-head-dim"
ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "TRITON_INTERPRET": "1",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "SGLANG_LOCAL_IP_NIC": "lo",
    "HOST_IP": "127.0.0.1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
}


def unit(place: Path, models: Path, port: int) -> str:
    command = (
        f"{place}/bin/python -m sglang.launch_server --model-path {models}/tiny-llama-8L "
        f"--served-model-name tiny --device cpu --host 127.0.0.1 --port {port} "
        "--attention-backend triton --disable-overlap-schedule "
        "--pp-size 4 --max-total-tokens 8192 --context-length 2048 --triton-attention-num-kv-splits 1"
    )
    variables = "\n".join(f"Environment={name}={value}" for name, value in ENVIRONMENT.items())
    return f"[Unit]\nDescription=SGLang\n[Service]\n{variables}\nExecStart={command}\nTimeoutStopSec=30\n"


@pytest.fixture
def box(rootfs, port):
    place, models = environments.sglang(), environments.models()
    files = {f"/etc/systemd/system/{UNIT}": unit(place, models, port)}
    with Box(HOST, binds=[*interpreter(), Bind(models)], overlays=[Overlay(place)], files=files) as box:
        box.run(["systemctl", "daemon-reload"])
        yield box


@pytest.mark.real
@pytest.mark.timeout(2400)
def test_the_story_on_a_real_sglang(box, triage, port):
    died = triage("verify", HOST, "--unit", UNIT, "--timeout", "600", code=1)
    assert died["verdict"] == "failed"
    assert died["diagnosis"]["incidents"][-1]["diagnoses"][0]["rule"] == RULE

    (incident,) = triage("diagnose", HOST, code=1)["incidents"]
    assert incident["initiator"]["type"] == "IndexError"
    assert incident["initiator"]["frame"]["file"].endswith("/layers/attention/triton_backend.py")
    assert incident["diagnoses"][0]["outcome"] == "confirmed"

    triage("patch", HOST, "--id", PATCH, "--apply", "--yes")
    proof = triage("verify", HOST, "--timeout", "900", *BRIEF, "--tool")
    assert proof["start"]["ready"]
    assert proof["sample"]
    print(f"ready after {proof['start']['seconds']:.0f} s; it answers {proof['sample']!r}")
    show(proof)
    tells_what_runs(port, tokens=24)
    assert triage("diagnose", HOST)["incidents"] == []

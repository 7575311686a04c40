"""vLLM's eager pipeline on a real vLLM, whole and unmodified, with two stages on a CPU.

It starts, its health check answers, and the first request ends it: the second stage never made the buffers
for what the first one hands over. With the patch it answers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.box import Bind, Box, Overlay, interpreter
from tests.e2e.real import environments
from tests.e2e.real.conftest import BRIEF, show, tells_what_runs

HOST = "real02"
UNIT = "vllm-tiny.service"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnuma.so.1"  # the wheel is linked to it, and the box lacks it
RULE, PATCH = "vllm-pp-intermediate-tensors", "vllm-eager-intermediate-tensors"
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PYTHONUNBUFFERED": "1",
    "TORCHDYNAMO_DISABLE": "1",  # log probabilities are compiled when asked for; the box has no compiler
    "HOME": "/root",
}


def unit(place: Path, models: Path, port: int) -> str:
    command = (
        f"{place}/bin/python {place}/bin/vllm serve {models}/tiny-llama-8L --served-model-name tiny "
        f"--host 127.0.0.1 --port {port} --max-model-len 2048 --enforce-eager -pp 2"
    )
    variables = "\n".join(f"Environment={name}={value}" for name, value in ENVIRONMENT.items())
    return f"[Unit]\nDescription=vLLM\n[Service]\n{variables}\nExecStart={command}\nTimeoutStopSec=30\n"


@pytest.fixture
def box(rootfs, port):
    place, models = environments.vllm(), environments.models()
    files = {f"/etc/systemd/system/{UNIT}": unit(place, models, port), LIBRARY: Path(LIBRARY).read_bytes()}
    with Box(HOST, binds=[*interpreter(), Bind(models)], overlays=[Overlay(place)], files=files) as box:
        box.run(["systemctl", "daemon-reload"])
        yield box


@pytest.mark.real
@pytest.mark.timeout(2400)
def test_an_eager_pipeline_answers_after_the_patch(box, triage, port):
    died = triage("verify", HOST, "--unit", UNIT, "--timeout", "900", *BRIEF, code=1)
    assert died["verdict"] == "failed"
    assert died["diagnosis"]["incidents"][-1]["diagnoses"][0]["rule"] == RULE

    triage("patch", HOST, "--unit", UNIT, "--id", PATCH, "--apply", "--yes")
    proof = triage("verify", HOST, "--unit", UNIT, "--timeout", "900", *BRIEF, "--tool")
    assert proof["start"]["ready"]
    assert proof["sample"]
    print(f"ready after {proof['start']['seconds']:.0f} s; it answers {proof['sample']!r}")
    show(proof)
    tells_what_runs(port, tokens=1500)


@pytest.mark.real
@pytest.mark.timeout(2400)
def test_layouts_are_measured_and_the_unit_is_as_it_was(box, triage):
    """Of three layouts one is that of the defect: the others are measured, and it is named."""
    own = box.run(["systemctl", "show", "-p", "ExecStart", UNIT]).stdout
    tp1, tp2, pp2 = layouts(triage, "tp1,tp2,pp2")
    assert is_measured(tp1)
    assert is_measured(tp2)
    assert pp2["verification"]["verdict"] == "failed"
    assert pp2["cause"].startswith("confirmed: a later pipeline stage has no buffer")

    triage("patch", HOST, "--unit", UNIT, "--id", PATCH, "--apply", "--yes")
    assert all(map(is_measured, layouts(triage, "tp1,pp2")))
    assert box.run(["systemctl", "show", "-p", "ExecStart", UNIT]).stdout == own
    assert box.run(["ls", f"/run/systemd/system/{UNIT}.d"]).returncode == 2


def layouts(triage, names: str):
    """As measured, and shown."""
    found = triage("bench", HOST, "--unit", UNIT, "--layouts", names, "--yes", *BRIEF)
    for one in found["layouts"]:
        figures = [one[name] for name in ("decode_rate", "output_throughput", "ttft_ms", "start")]
        told = "  ".join("-" if value is None else f"{value:.1f}" for value in figures)
        print(f"  {one['name']:4} {told}  {one['verification']['reason']}  {one['cause']}")
    print(f"  recommended {found['best']}: {found['reason']}")
    return found["layouts"]


def is_measured(layout) -> bool:
    result = layout["verification"]
    failed = sum(one["failed"] for one in result["metrics"])
    return bool(result["start"]["ready"] and layout["output_throughput"] and not failed)

"""llama.cpp's own server, built from its sources, with a model that is made on the spot: no Python serves."""

from __future__ import annotations

import pytest

from tests.e2e.box import Box
from tests.e2e.real import environments
from tests.e2e.real.conftest import BRIEF, tells_what_runs
from tests.e2e.real.gguf import gguf

HOST, UNIT = "real03", "llama-tiny.service"
ON = (HOST, "--unit", UNIT)
PROGRAM, MODELS = "/opt/llama.cpp/llama-server", "/srv/models"
ENVIRONMENT = "/etc/llama.env"
SERVICE = """\
[Unit]
Description=llama.cpp
[Service]
Environment=MODEL={models}/tiny.gguf MORE=
EnvironmentFile=-{environment}
ExecStart={program} --model ${{MODEL}} --alias tiny --port {port} --ctx-size 4096 --threads 1 --metrics $MORE
"""
pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]


@pytest.fixture
def box(rootfs, port):
    whole = gguf()
    unit = SERVICE.format(models=MODELS, environment=ENVIRONMENT, program=PROGRAM, port=port)
    files = {
        PROGRAM: environments.llama_cpp(),
        f"/etc/systemd/system/{UNIT}": unit,
        f"{MODELS}/tiny.gguf": whole,
        f"{MODELS}/truncated.gguf": whole[: len(whole) // 2],
        f"{MODELS}/unknown.gguf": gguf("abc"),
        f"{MODELS}/text.gguf": b"version https://git-lfs.github.com/spec/v1\n",
    }
    with Box(HOST, files=files) as box:
        box.run(["chmod", "+x", PROGRAM], check=True)
        box.run(["systemctl", "daemon-reload"], check=True)
        yield box


def test_it_is_found_and_proven(box, triage, port):
    proof = triage("verify", *ON, *BRIEF)
    assert proof["start"]["ready"]
    assert [phase["name"] for phase in proof["start"]["phases"]][:1] == ["loading model"]
    assert proof["sample"]
    assert {(one["concurrency"], one["failed"]) for one in proof["metrics"]} == {(1, 0), (2, 0)}
    found = triage("diagnose", HOST)
    assert found["incidents"] == []
    deployment = found["deployment"]
    assert (deployment["engine"], deployment["unit"], deployment["python"]) == ("llama.cpp", UNIT, "")
    assert deployment["endpoint"] == f"127.0.0.1:{port}"
    assert deployment["model"] == f"{MODELS}/tiny.gguf"
    tells_what_runs(port, tokens=3500)
    again = triage("verify", *ON, *BRIEF)
    assert again["verdict"] in ("same", "better", "worse", "inconclusive")
    refused = triage("verify", *ON, *BRIEF, "--tool", code=4)
    assert "where the service's interpreter is known" in refused


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        (f"MODEL={MODELS}/none.gguf", "llama-cpp-model-file-missing"),
        (f"MODEL={MODELS}/truncated.gguf", "llama-cpp-model-truncated"),
        (f"MODEL={MODELS}/unknown.gguf", "llama-cpp-architecture-unknown"),
        (f"MODEL={MODELS}/text.gguf", "llama-cpp-model-not-gguf"),
        ("MORE=--n-gpu-layer 3", "argument-unknown"),
        ("MORE=--flash-attn maybe", "argument-value-refused"),
    ],
)
def test_a_start_that_fails_is_explained(box, triage, setting, rule):
    box.put(ENVIRONMENT, f"{setting}\n")
    died = triage("verify", *ON, *BRIEF, code=1)
    assert died["verdict"] == "failed"
    for told in (died["diagnosis"], triage("diagnose", *ON, code=1)):
        incident = told["incidents"][-1]
        assert incident["diagnoses"][0]["rule"] == rule
        assert incident["verdict"]["certainty"] == "confirmed"


def test_a_port_that_is_taken_is_seen_on_the_host(box, triage, port):
    box.run(["systemd-run", "--unit=other", PROGRAM, "--model", f"{MODELS}/tiny.gguf", "--port", str(port)])
    box.run(["systemctl", "restart", UNIT])
    told = triage("diagnose", *ON, code=1)
    incident = told["incidents"][-1]
    assert incident["diagnoses"][0]["rule"] == "llama-cpp-socket-not-bound"
    assert incident["verdict"] == {"category": "port-in-use", "certainty": "confirmed"}


def test_a_server_that_was_killed_is_seen(box, triage):
    box.run(["systemctl", "start", UNIT], check=True)
    box.run(["systemctl", "kill", "--signal=KILL", UNIT], check=True)
    (incident,) = triage("diagnose", *ON, code=1)["incidents"]
    assert incident["verdict"] == {"category": "engine-dead", "certainty": "possible"}
    assert incident["diagnoses"][0]["rule"] == "unit-killed-without-a-word"

from __future__ import annotations

from triage.verify.service.phases import StartLog

SGLANG = """\
[2026-05-12 14:02:41] server_args=ServerArgs(model_path='/srv/models/kimi', pp_size=2)
[2026-05-12 14:02:44 PP1] Init torch distributed begin.
[2026-05-12 14:02:44 PP0] Init torch distributed begin.
[2026-05-12 14:02:45 PP0] Init torch distributed ends. elapsed=0.62 s, mem usage=0.01 GB
[2026-05-12 14:02:46 PP0] Load weight begin. avail mem=19.54 GB
shards:   0% Completed | 0/1 [00:00<?, ?it/s][2026-05-12 14:02:46 PP1] Load weight begin. avail mem=9.5 GB
[2026-05-12 14:02:47 PP0] Load weight end. elapsed=0.05 s, type=LlamaForCausalLM
[2026-05-12 14:03:50 PP1] Load weight end. elapsed=64 s, type=LlamaForCausalLM
[2026-05-12 14:03:51 PP0] KV Cache is allocated. #tokens: 8192, K size: 0.00 GB, V size: 0.00 GB
[2026-05-12 14:03:51 PP0] Memory pool end. avail mem=19.44 GB
[2026-05-12 14:03:52 PP0] Capture cuda graph begin. This can take up to several minutes. avail mem=9 GB
[2026-05-12 14:03:59 PP0] Capture cuda graph end. Time elapsed: 7.00 s. mem usage=1 GB.
[2026-05-12 14:04:00] INFO:     Started server process [15240]
[2026-05-12 14:04:00] INFO:     Application startup complete.
[2026-05-12 14:04:00] INFO:     127.0.0.1:46680 - "GET /model_info HTTP/1.1" 200 OK
[2026-05-12 14:04:02] The server is fired up and ready to roll!
"""
VLLM = """\
(EngineCore_DP0 pid=95) \x1b[0;36mINFO\x1b[0m 11-29 14:37:00 [core.py:133] Initializing a V1 LLM engine\r
\x1b[1;36m(Worker_PP1 pid=21)\x1b[0;0m INFO 11-29 14:37:58 [runner.py:68] Starting to load model /srv/m...\r
(Worker_PP0 pid=20) INFO 11-29 14:37:58 [default_loader.py:501] Loading weights took 0.03 seconds
(EngineCore_DP0 pid=95) INFO 11-29 14:38:06 [kv_cache_utils.py:2327] GPU KV cache size: 1,048,576 tokens
(Worker_PP0 pid=20) INFO 11-29 14:38:07 [runner.py:2327] Graph capturing finished in 9 secs, took 0.3 GiB
(EngineCore_DP0 pid=95) INFO 11-29 14:38:14 [core.py:402] init engine (profile, create kv cache) took 14.63 s
(APIServer pid=97) INFO 11-29 14:38:15 [api_server.py:140] Starting vLLM API server 0 on http://127.0.0.1:8000
INFO:     Waiting for application startup.
INFO:     Application startup complete.
"""


def read(text: str) -> tuple[StartLog, list[str]]:
    """The log after every line, and the ready state after each."""
    log, states = StartLog(), []
    for number, line in enumerate(text.split("\n")):
        log.feed(line, float(number))
        states.append("ready" if log.ready else "health" if log.health_counts else "wait")
    return log, states


def test_sglang_is_ready_at_its_own_line_and_not_before():
    log, states = read(SGLANG)
    assert [(phase.name, phase.at) for phase in log.phases] == [
        ("Init torch distributed begin", 1.0),
        ("Init torch distributed ends", 3.0),
        ("Load weight begin", 4.0),
        ("Load weight end", 7.0),  # of the last rank
        ("KV Cache is allocated", 8.0),
        ("Memory pool end", 9.0),
        ("Capture cuda graph begin", 10.0),
        ("Capture cuda graph end", 11.0),
        ("ready", 15.0),
    ]
    assert states[0] == "health"  # nothing that is known was logged yet
    assert set(states[1:15]) == {"wait"}
    assert states[15] == "ready"


def test_vllm_is_ready_when_its_server_has_started():
    log, states = read(VLLM)
    assert [phase.name for phase in log.phases] == [
        "Initializing a V1 LLM engine",
        "Starting to load model",
        "Loading weights took",
        "KV cache size",
        "Graph capturing finished",
        "init engine",
        "Starting vLLM server",
        "ready",
    ]
    assert states == ["wait"] * 6 + ["health"] * 2 + ["ready"] * 2


def test_each_phase_is_told_once():
    log = StartLog()
    told = [log.feed(line, 0.0) for line in SGLANG.splitlines() * 2]
    assert len([phase for phase in told if phase]) == len(log.phases)


def test_other_spellings_of_a_phase():
    for line, name in {
        "[2026-08-21 10:00:00 TP3] Capture decode CUDA graph begin. backend=full": "Capture cuda graph begin",
        "[2026-08-21 10:00:00] SWAKVPool mem usage: 1.0 GB, swa size: 5": "KV Cache is allocated",
        "INFO 03-01 10:00:00 [runner.py:1] Model loading took 14.9 GiB and 3 s": "Loading weights took",
        "INFO 03-01 10:00:00 [loader.py:1] Loading model weights took 14.9 GB": "Loading weights took",
        "INFO 11-29 14:38:15 [entry.py:140] Starting vLLM server on http://x": "Starting vLLM server",
    }.items():
        phase = StartLog().feed(line, 1.0)
        assert phase is not None, line
        assert phase.name == name


def test_words_inside_other_lines_are_no_phases():
    log = StartLog()
    for line in (
        "prompt='say The server is fired up and ready to roll!'",
        "I heard that Load weight begin is logged",
        "INFO:     Application startup complete.",
        "",
        "] " * 50_000,
        ": " + " " * 60_000,
    ):
        assert log.feed(line, 0.0) is None
    assert not log.ready

"""How exactly the load client measures, and what it costs, beside aiperf and guidellm in the same run.

All of them ask one server of known timing, which records what it really sent and when. The two peers are
installed from PyPI into environments of their own, once. Figures are printed; goals are stated, not asserted.
triage runs three times at each level and the peers once: `late` is how late the server itself was.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.story.prepare import CACHE
from triage.hosts.local import LocalConnection
from triage.verify.load.client import Client
from triage.verify.load.metrics import metrics_of
from triage.verify.load.other_tools import read_foreign
from triage.verify.load.plan import LoadShape
from triage.verify.model import Metrics

ROOT = Path(__file__).resolve().parents[2]
TTFT, ITL, TOKENS = 0.100, 0.040, 32  # seconds; at 256 streams the server has 6,400 pieces/s to send
RUNS = 3
LEVELS = ((1, 4), (32, 128), (256, 768))  # streams, requests
PEERS = CACHE / "peers"
TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = ["<unk>", "<s>", "</s>", *(f"w{n}" for n in range(2000))]
made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
PreTrainedTokenizerFast(tokenizer_object=made, **names).save_pretrained(sys.argv[1])
"""


@dataclass(frozen=True)
class Measured:
    metrics: Metrics
    processor: float  # seconds of CPU, the tool's own start included
    truth: dict[str, float]


class Server:
    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def truth(self) -> dict[str, float]:
        with urllib.request.urlopen(f"{self.url}/truth", timeout=10) as answer:
            return dict(json.load(answer))


@pytest.fixture
def server() -> Iterator[Server]:
    argv = [sys.executable, "-m", "tests.benchmarks.timed_server", str(TTFT), str(ITL)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield Server(int(process.stdout.readline()))
        process.terminate()


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_accuracy_and_cost(server: Server, tmp_path: Path) -> None:
    tools: dict[str, Callable[[Server, int, int, Path], Metrics]] = {"triage": ours}
    for name, run in (("aiperf", aiperf), ("guidellm", guidellm)):
        if install(name):
            tools[name] = run
    print(f"\nserver: first token after {1000 * TTFT:.0f} ms, then one every {1000 * ITL:.0f} ms")
    titles = f"{'TTFT error':>21} {'ITL error':>21} {'late':>9} {'CPU ms a request':>17}"
    print(f"{'streams':>8} {'tool':10} {titles}")
    for streams, count in LEVELS:
        base = 0.0
        for name, run in tools.items():
            for number in range(RUNS if name == "triage" else 1):
                found = measured(run, server, streams, count, tmp_path / f"{name}-{streams}-{number}")
                cost = 1000 * found.processor / count
                base = base or cost
                errors = f"{error(found, 'ttft_ms')} {error(found, 'itl_ms')}"
                late = f"{found.truth['late_ms']:6.2f} ms"
                print(f"{streams:8} {name:10} {errors} {late} {cost:17.1f} {cost / base:7.1f}x", flush=True)
    print("goals: TTFT and ITL within 1 ms at 1 stream, 2 % at 256")


def measured(
    run: Callable[[Server, int, int, Path], Metrics], server: Server, streams: int, count: int, place: Path
) -> Measured:
    server.truth()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    metrics = run(server, streams, count, place)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    time.sleep(0.5)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(metrics, processor, server.truth())


def error(found: Measured, figure: str) -> str:
    """The tool's median against what the server wrote. ITL of a tool that has none but means is its TPOT."""
    value = getattr(found.metrics, figure)
    value = found.metrics.tpot_ms if value is None else value
    difference = value - found.truth[figure]
    return f"{difference:+10.2f} ms {100 * difference / found.truth[figure]:+7.2f}%"


def ours(server: Server, streams: int, count: int, place: Path) -> Metrics:
    client = Client(LocalConnection(), sys.executable, "127.0.0.1", server.port)
    like = client.complete(("hello",), 2)
    server.truth()
    shape = LoadShape(count, streams, (64, 64), (TOKENS, TOKENS))
    return metrics_of(client.load(like, shape, seed=str(place), deadline=300))


def aiperf(server: Server, streams: int, count: int, place: Path) -> Metrics:
    tool(
        "aiperf", "profile", "-m", "tiny", "--endpoint-type", "completions", "--streaming", "-u", server.url,
        "--concurrency", str(streams), "--request-count", str(count), "--synthetic-input-tokens-mean", "64",
        "--output-tokens-mean", str(TOKENS), "--tokenizer", "local/tokenizer", "--artifact-dir", str(place),
        "--ui", "none",
    )  # fmt: skip
    return read_foreign(place / "profile_export_aiperf.json").metrics[0]


def guidellm(server: Server, streams: int, count: int, place: Path) -> Metrics:
    output = place.with_suffix(".json")
    settings = {
        "--backend": f"kind=openai_http,target={server.url}",
        "--profile": f"kind=concurrent,streams={streams}",
        "--constraint": f"kind=max_requests,count={count}",
        "--tokenizer": f"kind=hf_auto,model={PEERS / 'tokenizer'}",
        "--data": f"kind=synthetic_text,prompt_tokens=64,output_tokens={TOKENS}",
        "--output": f"kind=json,path={output}",
    }
    tool("guidellm", "run", "--disable-console", *(word for pair in settings.items() for word in pair))
    return read_foreign(output).metrics[0]


def tool(name: str, *arguments: str) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(PEERS / "hub")}
    argv = [str(PEERS / name / "bin" / name), *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def install(name: str) -> bool:
    """Put a peer into an environment of its own, once, with a tokenizer that needs no network."""
    place = PEERS / name
    if not (place / "bin" / name).exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", name, "torch==2.13.0"]
        if subprocess.run(pip, check=False).returncode != 0:
            print(f"{name} could not be installed, and is left out")
            return False
    if not (PEERS / "tokenizer").exists():
        subprocess.run([str(place / "bin" / "python"), "-c", TOKENIZER, str(PEERS / "tokenizer")], check=True)
        model = PEERS / "hub" / "hub" / "models--local--tokenizer"
        (model / "refs").mkdir(parents=True)
        (model / "snapshots").mkdir()
        (model / "refs" / "main").write_text("one")
        (model / "snapshots" / "one").symlink_to(PEERS / "tokenizer", target_is_directory=True)
    return True

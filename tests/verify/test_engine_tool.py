"""An engine's own benchmark, run by the real runner. A module that writes what the real one wrote plays the
engine's package; the real ones run in tests/e2e/real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verify.server import FakeServer
from triage.common.errors import RefusedError, UnreachableError
from triage.engines import engine_named
from triage.engines.sglang import SGLANG
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.remote import tool_agent
from triage.report.documents import cleaned
from triage.report.json import verification
from triage.report.markdown import markdown
from triage.report.page import page
from triage.report.verification import lines
from triage.verify.history import History
from triage.verify.load.engine_tool import command_of, measure, require
from triage.verify.load.plan import LoadShape
from triage.verify.options import Options
from triage.workflows.verify import verify

FOREIGN = Path(__file__).parent / "foreign"
RESULT = FOREIGN / "sglang-0.5.10.post1.jsonl"
PACKAGE = """
import json, os, pathlib, subprocess, sys
here = pathlib.Path({here!r})
with (here / "calls").open("a") as calls:
    calls.write(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), os.getpid()]) + "\\n")
{body}
"""
WRITES = f"""
output = sys.argv[sys.argv.index("--output-file") + 1]
open(output, "a").write(pathlib.Path({str(RESULT)!r}).read_text())
"""
HANGS = (
    'child = subprocess.Popen(["sleep", "600"]); (here / "child").write_text(str(child.pid)); child.wait()'
)
ONE, FOUR = LoadShape(8, 1, (64, 64), (32, 32)), LoadShape(12, 4, (64, 64), (32, 32))

Engine = Callable[[str], Deployment]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """`engine(body)`: a deployment whose interpreter finds a benchmark that does this."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    def engine(body: str) -> Deployment:
        package = tmp_path / "packages" / "sglang"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "bench_serving.py").write_text(PACKAGE.format(here=str(tmp_path), body=body))
        monkeypatch.setenv("PYTHONPATH", str(package.parent))
        return Deployment("kimi", engine="sglang", python=sys.executable, port=30000, model="/models/kimi")

    return engine


def calls(tmp_path: Path) -> list[tuple[list[str], dict[str, str], str, int]]:
    return [tuple(json.loads(line)) for line in (tmp_path / "calls").read_text().splitlines()]


def left(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "temporary").iterdir()]


def wait_for(path: Path) -> str:
    for _ in range(600):
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.05)
    raise AssertionError(f"no {path}")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_gone(pid: int) -> None:
    for _ in range(600):
        if not lives(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} goes on living")


def test_every_load_is_measured_in_the_tools_own_words(engine: Engine, tmp_path: Path):
    found = measure(LocalConnection(), engine(WRITES), [ONE, FOUR], "kimi-k2", 60, key="sk-1")
    assert (found.tool, found.failure) == ("sglang.bench_serving", "")
    assert [round(one.output_throughput) for one in found.metrics] == [772, 772]
    assert "does not say how many requests failed" in found.note
    first, second = calls(tmp_path)
    assert "--max-concurrency 1" in " ".join(first[0])
    assert "--num-prompts 12 --max-concurrency 4" in " ".join(second[0])
    assert first[0][first[0].index("--seed") + 1] != second[0][second[0].index("--seed") + 1]
    environment = first[1]
    assert (environment["HF_HUB_OFFLINE"], environment["OPENAI_API_KEY"]) == ("1", "sk-1")
    assert environment["HOME"].startswith(str(tmp_path / "temporary"))
    assert environment["HF_HOME"] == f"{Path.home()}/.cache/huggingface"
    assert left(tmp_path) == []


def test_it_has_the_environment_of_the_service(engine: Engine, tmp_path: Path):
    deployment = engine(WRITES)
    environment = {**os.environ, "SGLANG_X": "of the service", "NOTIFY_SOCKET": "/run/x"}
    with subprocess.Popen(["sleep", "600"], env=environment) as service:
        try:
            told = measure(
                LocalConnection(),
                replace(deployment, main_pid=service.pid),
                [ONE],
                "kimi",
                60,
            )
        finally:
            service.kill()
    assert told.failure == ""
    ((_, seen, _, _),) = calls(tmp_path)
    assert seen["SGLANG_X"] == "of the service"
    assert "NOTIFY_SOCKET" not in seen


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit('Warmup failed')", "exit status 1: Warmup failed"),
        (
            "print('ValueError: no such model', file=sys.stderr); print('nanobind: leaked'); sys.exit(3)",
            "exit status 3: ValueError: no such model",
        ),
        ("raise OSError('cannot find hf_' + 'x' * 20)", "exit status 1: OSError: cannot find <token-1>"),
        ("sys.exit('no key sk-secret')", "exit status 1: no key <api-key>"),
        ("pass", "it wrote no result"),
        (
            "import nothing_like_that",
            "exit status 1: ModuleNotFoundError: No module named 'nothing_like_that'",
        ),
        (
            "open(sys.argv[sys.argv.index('--output-file') + 1], 'w').write('{}')",
            "it looks like none of theirs",
        ),
    ],
)
def test_a_failure_is_told_in_its_last_words(engine: Engine, tmp_path: Path, body: str, why: str):
    found = measure(LocalConnection(), engine(body), [ONE, FOUR], "kimi", 60, key="sk-secret")
    assert (found.metrics, found.failure) == ((), why)
    assert len(calls(tmp_path)) == (2 if "none of theirs" in why else 1)
    assert left(tmp_path) == []


def test_of_one_that_prints_without_end_only_the_last_words_are_kept(engine: Engine, tmp_path: Path):
    body = """
import time
for number in range(30_000): print("progress " * 10, number)
print("ValueError: the end", flush=True)
(here / "files").write_text(str(os.listdir(os.environ["HOME"])))
os.close(1); os.close(2); time.sleep(1)
os._exit(4)
"""
    found = measure(LocalConnection(), engine(body), [ONE], "kimi", 60)
    assert found.failure == "exit status 4: ValueError: the end"
    assert (tmp_path / "files").read_text() == "[]"


def test_one_that_is_not_installed_is_told(engine: Engine, tmp_path: Path):
    deployment = engine("")
    (tmp_path / "packages" / "sglang" / "bench_serving.py").unlink()
    found = measure(LocalConnection(), deployment, [ONE], "kimi", 60)
    assert "No module named sglang.bench_serving" in found.failure


def test_it_ends_when_its_time_is_up_with_all_that_it_started(engine: Engine, tmp_path: Path):
    deployment = engine("print('waiting', flush=True)\n" + HANGS)
    found = measure(LocalConnection(), deployment, [ONE], "kimi", 3)
    assert found.failure == "it took too long: waiting"
    wait_gone(int((tmp_path / "child").read_text()))
    assert left(tmp_path) == []


@pytest.mark.parametrize("how", ["Ctrl-C", "nobody reads", "killed"])
def test_it_ends_with_who_started_it(engine: Engine, tmp_path: Path, how: str):
    deployment = engine(HANGS)
    job = {
        "commands": [command_of(SGLANG.benchmark, deployment, ONE, "x")],
        "environment": {},
        "pid": None,
        "timeout": 600,
    }
    argv = [sys.executable, "-I", "-S", "-B", str(tool_agent.__file__)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, start_new_session=True) as runner:
        assert runner.stdin is not None
        assert runner.stdout is not None
        runner.stdin.write(json.dumps(job).encode())
        runner.stdin.close()
        child = int(wait_for(tmp_path / "child"))
        if how == "nobody reads":
            runner.stdout.close()
        else:
            runner.send_signal(signal.SIGINT if how == "Ctrl-C" else signal.SIGKILL)
        assert runner.wait(60) != 0
    ((_, _, _, tool),) = calls(tmp_path)
    wait_gone(tool)
    if how == "killed":  # nobody is left to do more
        os.kill(child, signal.SIGKILL)
    else:
        wait_gone(child)
        assert left(tmp_path) == []


def test_it_ends_what_it_started_also_when_it_is_told_again_and_again(tmp_path: Path):
    """As `timeout` does, which passes on to it what its whole group was sent already."""
    begun = tmp_path / "begun"
    started = "import os, subprocess; subprocess.run(['sh', '-c', 'echo $$ > %s; exec sleep 60'])"
    job = {"commands": [[sys.executable, "-c", started % begun]], "environment": {}, "timeout": 60}
    argv = [sys.executable, "-I", "-S", "-B", str(tool_agent.__file__)]
    for _ in range(5):
        begun.unlink(missing_ok=True)
        agent = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert agent.stdin is not None
        with agent.stdin as stdin:
            stdin.write(json.dumps(job).encode())
        pid = int(wait_for(begun))
        while agent.poll() is None:
            agent.terminate()
        wait_gone(pid)


def test_an_engine_without_a_tool_is_refused():
    for deployment in (Deployment("x", python="/p"), Deployment("x", engine="sglang")):
        with pytest.raises(RefusedError, match="own benchmark"):
            require(LocalConnection(), deployment)


def test_an_interpreter_that_is_none_is_said(tmp_path: Path):
    for python in ("/no/such", "/bin/echo"):
        with pytest.raises(UnreachableError, match=r"run vllm bench serve with /"):
            measure(LocalConnection(), Deployment("x", engine="vllm", python=python, port=1), [ONE], "m", 5)


def test_how_vllm_is_asked():
    deployment = Deployment(
        "x",
        engine="vllm",
        python="/venv/bin/python",
        host="::",
        port=8000,
        model="org/model",
        arguments={"tokenizer": "/models/t", "trust-remote-code": ""},
    )
    words = " ".join(
        command_of(
            engine_named(deployment.engine).benchmark,
            deployment,
            LoadShape(20, 256, (10, 30), (5, 7), rate=2.5),
            "served",
        )
    )
    assert words.startswith("/venv/bin/python -m vllm.entrypoints.cli.main bench serve --backend openai ")
    for part in (
        "--base-url http://[::1]:8000",
        "--model served --tokenizer /models/t",
        "--num-prompts 20 --max-concurrency 256",
        "--random-input-len 20 --random-output-len 6",
        "--request-rate 2.5",
        "--result-dir DIRECTORY --result-filename result.json",
        "--trust-remote-code",
    ):
        assert part in words


def test_its_figures_stand_beside_ours(engine: Engine, tmp_path: Path):
    options = Options(restart=False, requests=2, repeats=1, most_repeats=1, max_tokens=8, tool=True)
    with FakeServer() as server:
        deployment = replace(engine(WRITES), port=server.port)
        result = verify(LocalConnection(), deployment, options, history=History(tmp_path / "history"))
    assert result.by_tool is not None
    assert [one.concurrency for one in result.by_tool.metrics] == [4, 4]
    assert result.metrics[0].completed == 2
    assert list(History(tmp_path / "history").read("local", "kimi")) == [result]
    text = "\n".join(line.plain for line in lines(result))
    assert "the same by sglang.bench_serving (sglang does not say" in text
    assert text.count("decode tok/s") == 2
    told = cleaned(verification(result, None))
    assert "| 4, `sglang.bench_serving` | " in markdown([told])
    assert "<td>4, sglang.bench_serving</td>" in page([told])
    assert verification(result, None)["by_tool"]["metrics"][0]["ttft_ms"] == result.by_tool.metrics[0].ttft_ms


def test_a_tool_that_fails_is_told_beside_our_figures(engine: Engine, tmp_path: Path):
    options = Options(restart=False, requests=2, repeats=1, most_repeats=1, max_tokens=8, tool=True)
    with FakeServer() as server:
        deployment = replace(engine("sys.exit('Warmup failed')"), port=server.port)
        result = verify(LocalConnection(), deployment, options, history=History(tmp_path / "history"))
    assert result.verdict == "inconclusive"
    assert result.notes == ("sglang.bench_serving measured nothing: exit status 1: Warmup failed",)
    assert "the same by" not in "\n".join(line.plain for line in lines(result))


def test_without_a_tool_nothing_is_restarted(tmp_path: Path):
    service = Deployment("x", unit="no-such.service", port=9)
    with pytest.raises(RefusedError, match="own benchmark"):
        verify(LocalConnection(), service, Options(tool=True), history=History(tmp_path))

"""The story deployment: the real SGLang dies of the real defect, and serves once its source is fixed."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from examples.story import setup

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("TRIAGE_CACHE") or ROOT / ".cache") / "story"
BACKEND = "sglang/srt/layers/attention/triton_backend.py"
CALL = "get_value_buffer(0)"
FIXED = "get_value_buffer(model_runner.token_to_kv_pool.start_layer)"
EXCEPTION = re.compile(r"^\[[\d :-]+ PP(\d)\] Scheduler hit an exception: Traceback", re.MULTILINE)


class Service:
    """The service as a plain process of its own session."""

    def __init__(self, directory: Path, log: Path, *options: str, **command: Any) -> None:
        self.port = free_port()
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                setup.command(directory, *options, port=self.port, **command),
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(log.parent)},
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def status(self, timeout: float = 60) -> int:
        """Wait for the end, of all its processes."""
        status = self.process.wait(timeout)
        until(lambda: not self.alive(), "its processes end")
        return status

    def alive(self) -> bool:
        """Whether any process of its session is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 0)
            return True
        return False

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """HTTP status and what the JSON says."""
        status, text = self.read(path, body)
        return status, json.loads(text) if text else None

    def read(self, path: str, body: Any = None) -> tuple[int, str]:
        """HTTP status and text."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def events(self, path: str, body: dict[str, Any]) -> list[Any]:
        """What a stream brings, less its mark of the end."""
        _, text = self.read(path, body | {"stream": True, "stream_options": {"include_usage": True}})
        *events, end, nothing = text.split("\n\n")
        assert (end, nothing) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]

    def complete(self, prompt: str, tokens: int = 16) -> Any:
        """The deterministic completion of a prompt."""
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        status, answer = self.ask("/v1/completions", body)
        assert status == 200, answer
        return answer

    def until_ready(self) -> None:
        """Wait for its own word, which must not take longer than its life."""

        def said() -> bool:
            assert self.process.poll() is None, self.log
            return "The server is fired up and ready to roll!" in self.log

        until(said, "the service is ready")


def free_port() -> int:
    """A port that nobody listens on; SGLang wants one that leaves room for another 10000 above it."""
    while True:
        port = random.randrange(20000, 30000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def until(condition: Callable[[], bool], what: str, timeout: float = 60) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:g} s until {what}"
        time.sleep(0.05)


@contextlib.contextmanager
def serving(directory: Path, log: Path, *options: str, **command: Any) -> Iterator[Service]:
    """A service that is ended with the test."""
    service = Service(directory, log, *options, **command)
    try:
        yield service
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(service.process.pid, signal.SIGKILL)
        service.process.wait()


@pytest.fixture(scope="session")
def story() -> Path:
    """The environment of the version in question, kept between runs of the tests."""
    directory = CACHE / setup.VERSION
    setup.prepare(directory)
    return directory


@pytest.fixture(scope="session")
def fixed(story: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the one call changed as upstream did."""
    directory = tmp_path_factory.mktemp("fixed") / "story"
    shutil.copytree(story, directory, symlinks=True)
    source = setup.site_packages(directory) / BACKEND
    text = source.read_text(encoding="utf-8")
    assert text.count(CALL) == 1
    source.write_text(text.replace(CALL, FIXED), encoding="utf-8")
    return directory


def crash_of(directory: Path, log: Path, *options: str, **command: Any) -> str:
    """The log of a service that kills itself."""
    with serving(directory, log, *options, **command) as service:
        assert service.status() == -signal.SIGKILL, service.log
        return service.log


def raised(log: str, error: str) -> dict[int, str]:
    """Rank and traceback of those that raised an error; any other lost its neighbours afterwards."""
    found = {int(one[1]): log[one.start() :].partition("\n[")[0].rstrip() for one in EXCEPTION.finditer(log)}
    first, *_ = found
    culprits = {rank: text for rank, text in found.items() if text.endswith(f"\n{error}")}
    assert first in culprits
    for rank in set(found) - set(culprits):
        assert re.search("RuntimeError: .*gloo.*by peer", found[rank]), found[rank]
    return culprits


def test_ranks_2_to_7_die_by_the_real_error(story: Path, tmp_path: Path) -> None:
    log = crash_of(story, tmp_path / "log")
    culprits = raised(log, "IndexError: list index out of range")
    assert set(culprits) <= set(range(2, 8))
    packages = setup.site_packages(story)
    for text in culprits.values():
        frames = re.findall(r'File "(.+?)", line (\d+), in (\w+)', text)
        assert frames[-2] == (str(packages / BACKEND), "120", "__init__")
        pool = str(packages / "sglang/srt/mem_cache/memory_pool.py")
        assert frames[-1][::2] == (pool, "get_value_buffer")
        assert all(Path(file).is_relative_to(packages / "sglang") for file, *_ in frames)
    assert "server_args=ServerArgs(" in log
    assert " PP3] Load weight end." in log
    assert "KV Cache is allocated. #tokens: " in log
    assert "] Received sigquit from a child process. It usually means the child failed.\n" in log


@pytest.mark.parametrize(("size", "partition"), [(2, None), (8, None), (8, "20,6,6,6,6,6,6,5")])
def test_a_rank_raises_when_it_starts_behind_its_number_of_layers(
    story: Path, size: int, partition: str | None
) -> None:
    environment = {**os.environ, "SGLANG_PP_LAYER_PARTITION": partition} if partition else None
    done = subprocess.run(
        [story / "bin" / "python", Path(__file__).with_name("ranks.py"), "61", str(size)],
        env=environment,
        capture_output=True,
        check=True,
    )
    ranks = json.loads(done.stdout)
    assert sum(rank["layers"] for rank in ranks) == 61
    for rank in ranks:
        start, layers = rank["start"], rank["layers"]
        # A negative index that is still inside the list reads another layer, without a word.
        otherwise = None if start > layers else layers
        assert rank["read"] == (0 if start == 0 else otherwise)


def test_another_pool_another_frame(story: Path, tmp_path: Path) -> None:
    options = ("--attention-backend", "triton")
    log = crash_of(story, tmp_path / "log", *options, model="Qwen3-235B-A22B")
    for text in raised(log, "IndexError: list index out of range").values():
        assert re.findall(r"in (\w+)\n", text)[-3:] == ["__init__", "get_value_buffer", "_get_value_buffer"]


def test_a_sliding_window_pool_dies_otherwise_fixed_or_not(fixed: Path, tmp_path: Path) -> None:
    options = ("--attention-backend", "triton", "--pp-size", "2")
    log = crash_of(fixed, tmp_path / "log", *options, model="gpt-oss-120b")
    assert "SWAKVPool mem usage: " in log
    assert set(raised(log, "KeyError: 0")) == {1}


def test_fixed_it_serves(fixed: Path, tmp_path: Path) -> None:
    with serving(fixed, tmp_path / "log") as service:
        service.until_ready()
        assert service.read("/health") == (200, "")
        _, models = service.ask("/v1/models")
        assert [model["id"] for model in models["data"]] == ["kimi-k2.6"]
        _, information = service.ask("/get_server_info")
        assert (information["pp_size"], information["version"]) == (8, setup.VERSION)
        assert stages_of(service) == {f"sglang::scheduler_PP{rank}" for rank in range(8)}

        answers_are_deterministic(service)
        streams_end_with_usage(service)
        bad_requests_are_refused(service)

        service.process.terminate()
        assert service.status() == -signal.SIGKILL  # as SGLang does
        assert "Gracefully exiting... Remaining number of requests 0." in service.log


def answers_are_deterministic(service: Service) -> None:
    alone = service.complete("A pipeline of eight stages")
    assert alone["usage"]["prompt_tokens"] == 5
    assert alone["usage"]["completion_tokens"] == 16
    choice = alone["choices"][0]
    assert (choice["finish_reason"], len(choice["text"].split())) == ("length", 16)
    assert service.complete("Another prompt")["choices"] != alone["choices"]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(service.complete, ["A pipeline of eight stages", "Another prompt"] * 6))
    assert {answer["choices"][0]["text"] for answer in together[::2]} == {choice["text"]}


def streams_end_with_usage(service: Service) -> None:
    body = {"max_tokens": 5, "temperature": 0, "ignore_eos": True}
    *parts, last = service.events("/v1/completions", body | {"prompt": "one two"})
    assert [part["choices"][0]["finish_reason"] for part in parts] == [None] * 4 + ["length"]
    text = "".join(part["choices"][0]["text"] for part in parts)
    assert text == service.complete("one two", 5)["choices"][0]["text"]
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 5)

    chat = body | {"messages": [{"role": "user", "content": "one two"}]}
    first, *parts, last = service.events("/v1/chat/completions", chat)
    assert first["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(part["choices"][0]["delta"]["content"] for part in parts)
    _, whole = service.ask("/v1/chat/completions", chat)
    assert whole["choices"][0]["message"]["content"] == text
    assert whole["usage"] == last["usage"]

    stop = text.split()[2]
    _, stopped = service.ask("/v1/chat/completions", chat | {"stop": stop})
    choice = stopped["choices"][0]
    assert (choice["finish_reason"], choice["matched_stop"]) == ("stop", stop)
    assert text.startswith(choice["message"]["content"])
    assert stop not in choice["message"]["content"]


def bad_requests_are_refused(service: Service) -> None:
    long = "word " * 2000
    bodies: list[Any] = [[], {}, {"prompt": []}, {"prompt": "x", "max_tokens": "many"}, {"prompt": long}]
    for body in bodies:
        status, refusal = service.ask("/v1/completions", body)
        assert (status, refusal["type"]) == (400, "BadRequestError")
    assert service.ask("/v1/nothing")[0] == 404


def stages_of(service: Service) -> set[str]:
    """Titles of the scheduler processes among its children."""
    task = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children")
    titles = {Path(f"/proc/{pid}/cmdline").read_text().strip("\0 ") for pid in task.read_text().split()}
    return {title for title in titles if "scheduler" in title}


def test_two_stages_serve_unfixed_until_one_is_killed(story: Path, tmp_path: Path) -> None:
    with serving(story, tmp_path / "log", "--pp-size", "2") as service:
        until(lambda: "Uvicorn running on" in service.log, "it listens")
        assert service.read("/v1/models")[0] == 200
        assert service.read("/health")[0] == 503  # the warm-up comes first
        service.until_ready()
        assert service.complete("Still a wrong layer, silently")["usage"]["completion_tokens"] == 16
        children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text()
        os.kill(int(children.split()[1]), signal.SIGKILL)
        assert service.status() == -signal.SIGKILL
        assert re.search(r"Subprocess scheduler_1 \(pid=\d+\) crashed with exit code -9\.", service.log)


def test_another_backend_needs_no_fix(story: Path, tmp_path: Path) -> None:
    with serving(story, tmp_path / "log", "--attention-backend", "flashinfer") as service:
        service.until_ready()
        assert service.complete("No such call")["usage"]["completion_tokens"] == 16


def test_a_fixed_version_serves(tmp_path: Path) -> None:
    directory = CACHE / "0.5.18"
    setup.prepare(directory, "0.5.18")
    with serving(directory, tmp_path / "log") as service:
        service.until_ready()
        assert service.complete("Fixed upstream")["usage"]["completion_tokens"] == 16


def test_a_version_without_pipelines_is_there_to_be_read(tmp_path: Path) -> None:
    directory = CACHE / "0.4.6.post1"
    setup.prepare(directory, "0.4.6.post1")
    assert "start_layer" not in (setup.site_packages(directory) / BACKEND).read_text(encoding="utf-8")
    with serving(directory, tmp_path / "log") as service:
        assert service.status() == 1
        assert service.log == "story: sglang 0.4.6.post1 is here to be read; what runs is 0.5.10 and newer\n"


def test_it_is_installed_as_pip_installs(story: Path) -> None:
    packages = setup.site_packages(story)
    record = (packages / f"sglang-{setup.VERSION}.dist-info" / "RECORD").read_text(encoding="utf-8")
    (line,) = [line for line in record.splitlines() if line.startswith(f"{BACKEND},")]
    digest = hashlib.sha256((packages / BACKEND).read_bytes()).digest()
    assert line.split(",")[1] == "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    question = "import importlib.util as u, importlib.metadata as m, torch; "
    question += "print(m.version('sglang'), u.find_spec('sglang').origin, u.find_spec('zmq'))"
    asked = subprocess.run([story / "bin" / "python", "-c", question], capture_output=True, text=True)
    # Nothing stands in for anything outside of the service.
    assert asked.stdout.split() == [setup.VERSION, str(packages / "sglang" / "__init__.py"), "None"]


def test_the_unit_starts_the_same_command(story: Path) -> None:
    unit = (story / setup.UNIT).read_text(encoding="utf-8")
    (command,) = re.findall("^ExecStart=(.*)$", unit, re.MULTILINE)
    assert shlex.split(command) == setup.command(story)
    assert "@" not in unit


def test_setup_is_quick_when_there_is_nothing_to_do(story: Path) -> None:
    before = story.stat()
    assert not setup.prepare(story)
    assert story.stat() == before


def test_setup_spares_what_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("x")
    with pytest.raises(setup.SetupError, match="holds something else"):
        setup.prepare(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["theirs"]


def test_run_tells_the_status_that_a_shell_would(story: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-m", "examples.story.run", story, "--log", log, "--tp-size", "2"], cwd=ROOT
    )
    assert done.returncode == 1
    assert "only --pp-size spreads the model here" in log.read_text(encoding="utf-8")

"""The engine's own benchmark, run beside ours: where two measure the same, each vouches for the other.

It runs in the service's interpreter on its host, with prompts of random tokens and without the network.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.engines import ENGINES, engine_named, titles
from triage.engines.engine import Benchmark
from triage.evidence.model import Deployment
from triage.evidence.redaction.redactor import Redactor
from triage.hosts.connection import Connection
from triage.hosts.sender import send
from triage.remote import TOOL_AGENT
from triage.verify.load.other_tools import foreign_of
from triage.verify.load.plan import LoadShape
from triage.verify.model import ByTool
from triage.verify.service.containers import place_of

SLACK = 30.0  # seconds for the interpreter and the way to the host
LOOPBACK = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",  # the tree is its owner's
    "NO_COLOR": "1",
    "NO_PROXY": "*",
    "no_proxy": "*",
}
_ERROR = re.compile(r"^(?:[\w.]*(?:Error|Exception)\b|.*\berror: |.*No module named ).*$", re.MULTILINE)


def measure(
    connection: Connection,
    deployment: Deployment,
    shapes: Sequence[LoadShape],
    model: str,
    timeout: float,
    key: str = "",
) -> ByTool:
    """What the tool measures, each load once, within `timeout` seconds. Its failure is part of the result.

    Raises as `require`; UnreachableError when the host cannot be used.
    """
    tool = require(connection, deployment)
    job = {
        "commands": [command_of(tool, deployment, shape, model) for shape in shapes],
        "environment": {**OFFLINE, **tool.environment, **({"OPENAI_API_KEY": key} if key else {})},
        "pid": None if deployment.container else deployment.serving_pid or deployment.main_pid,
        "timeout": timeout,
    }
    reply = _run(place_of(connection, deployment, deployment.python), deployment, tool.name, job)
    results, why = reply["results"], str(reply["why"])
    if why:
        return ByTool(tool.name, (), "", f"{why}: {_last_word(str(reply['words']), key)}".removesuffix(": "))
    try:
        found = [foreign_of(str(text).encode("utf-8", "replace"), tool.name) for text in results]
    except UsageError as error:
        return ByTool(tool.name, (), "", error.happened)
    note = found[0].note
    if any(low != high for shape in shapes for low, high in (shape.prompts, shape.outputs)):
        note += "; its lengths were all alike, the middle of those that were asked for"
    return ByTool(tool.name, tuple(metrics for one in found for metrics in one.metrics), note)


def require(connection: Connection, deployment: Deployment) -> Benchmark:
    """Its engine's benchmark. Raises RefusedError for a deployment that has none."""
    tool = engine_named(deployment.engine).benchmark
    if tool is None or not deployment.python:
        having = [engine for engine in ENGINES.values() if engine.benchmark]
        raise RefusedError(
            "run the engine's own benchmark for",
            f"{deployment.name} on {connection.name}",
            f"it is there for {titles('and', having)}, where the service's interpreter is known",
            "repeat without --tool",
        )
    return tool


def command_of(tool: Benchmark, deployment: Deployment, shape: LoadShape, model: str) -> list[str]:
    """The command for one load; lengths that vary are asked for as their middle."""
    host = LOOPBACK.get(deployment.host, deployment.host)
    where = f"http://{f'[{host}]' if ':' in host else host}:{deployment.port}"
    prompt, output = (sum(lengths) // 2 for lengths in (shape.prompts, shape.outputs))
    arguments = deployment.arguments
    named = arguments.get("tokenizer-path") or arguments.get("tokenizer")
    load = {
        "base-url": where,
        "model": model,
        "tokenizer": named or deployment.model,
        "num-prompts": shape.requests,
        "max-concurrency": shape.concurrency,
        "random-input-len": prompt,
        "random-output-len": output,
        "request-rate": f"{shape.rate:g}" if shape.rate else "inf",
        "seed": secrets.randbelow(1 << 31),  # the same prompts again would find their answers cached
    }
    passed_on = [f"--{switch}" for switch in tool.passed_on if switch in arguments]
    options = _given({**tool.options, **load})
    return [deployment.python, *tool.start, *options, *tool.switches, *passed_on]


def _given(options: Mapping[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def _run(
    connection: Connection, deployment: Deployment, tool: str, job: Mapping[str, Any]
) -> Mapping[str, Any]:
    about = (f"run {tool} with {deployment.python} on", connection.name)
    reply = send(
        connection,
        TOOL_AGENT,
        job,
        python=deployment.python,
        about=about,
        next="repeat without --tool",
        timeout=job["timeout"] + SLACK,
        user=deployment.user,
    )
    try:
        if not isinstance(reply["results"], list):
            raise TypeError
        return {name: reply[name] for name in ("results", "why", "words")}
    except (LookupError, TypeError):
        raise UnreachableError(*about, "its answer makes no sense", "repeat without --tool") from None


def _last_word(words: str, key: str) -> str:
    """The line that says why a tool ended: the last that names an error, else the last at all."""
    lines = _ERROR.findall(words) or [line for line in words.splitlines() if line.strip()]
    told = lines[-1].strip()[:300] if lines else ""
    return Redactor().redact(told.replace(key, "<api-key>") if key else told)

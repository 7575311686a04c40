"""Results of other tools, in our words: the engines' own benchmarks, guidellm, aiperf.

What these tools call what is in docs/benchmarks.md. A figure that a tool does not give is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from triage.common.errors import UsageError
from triage.common.files import read_json_file
from triage.common.json import parse_json
from triage.engines import ENGINES
from triage.engines.engine import Benchmark
from triage.verify.model import Metrics, Start, Verification

_BENCHMARKS = {name: engine.benchmark for name, engine in ENGINES.items() if engine.benchmark}
NOTES = {
    **{name: tool.note for name, tool in _BENCHMARKS.items()},
    "guidellm": "its ITL is a mean of each request, which is our TPOT",
    "aiperf": "its inter token latency is a mean of each request, which is our TPOT",
}


@dataclass(frozen=True)
class Foreign:
    """What another tool measured. `at` is ISO 8601 or ""; `note` says where its words mean something else."""

    tool: str
    version: str
    model: str
    at: str
    metrics: tuple[Metrics, ...]
    note: str


@dataclass(frozen=True)
class ToolRun:
    metrics: Metrics
    version: str = ""
    model: str = ""
    at: str = ""


def read_foreign(path: Path) -> Foreign:
    """The results in a file. Raises UsageError where none of the tools wrote it."""
    try:
        data = read_json_file(path)
    except ValueError as error:
        raise _unfit(str(path), str(error)) from None
    return foreign_of(data, str(path))


def foreign_of(data: bytes, name: str) -> Foreign:
    """The results that `name` holds. Raises UsageError where none of the tools wrote them."""
    try:
        results = list(_documents(data))
        if not results:
            raise ValueError("it is empty")
        for tool, (sign, read) in _TOOLS.items():
            if all(sign <= one.keys() for one in results):
                runs = [run for one in results for run in read(one)]
                last = runs[-1]
                metrics = tuple(run.metrics for run in runs)
                return Foreign(tool, last.version, last.model, last.at, metrics, NOTES[tool])
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise _unfit(name, f"{type(error).__name__}: {error}") from None
    raise _unfit(name, "it looks like none of theirs")


def verification_of(foreign: Foreign, deployment: str, now: str) -> Verification:
    """Return it as a verification of a service that was not restarted and not asked for a sample."""
    return Verification(
        at=foreign.at or now,
        deployment=deployment,
        engine=foreign.tool,
        version=foreign.version,
        arguments={},
        patches=(),
        model=foreign.model,
        start=Start("", None, True, 0.0, (), restarted=False),
        sample="",
        loads=(),
        metrics=foreign.metrics,
        verdict="failed" if any(one.failed for one in foreign.metrics) else "inconclusive",
        reason=f"measured by {foreign.tool}",
        notes=(foreign.note,),
    )


def _documents(data: bytes) -> Iterator[Mapping[str, Any]]:
    """One JSON object, or one in each line, where a tool appends."""
    try:
        found = [parse_json(data)]
    except ValueError:
        found = [parse_json(line) for line in data.splitlines() if line.strip()]
    for one in found:
        if not isinstance(one, dict):
            raise ValueError("it holds no JSON object")
        yield one


def _own(tool: Benchmark, one: Mapping[str, Any]) -> Iterator[ToolRun]:
    """The engines' benchmarks, which are of one descent."""
    completed = int(one["completed"])
    each = max(1, completed)
    metrics = _metrics(
        streams=one.get("max_concurrency") or one.get("concurrency") or completed,
        completed=completed,
        failed=int(one[tool.failed]) if tool.failed else 0,
        ttft=(one["median_ttft_ms"], one.get("p99_ttft_ms")),
        itl=(one.get("median_itl_ms"), one.get("p99_itl_ms")),
        tpot=one.get("median_tpot_ms"),
        whole=one.get(f"median_{tool.end_to_end}_ms"),
        throughput=one["output_throughput"],
        effective=one.get("concurrency"),
        tokens=(one["total_input_tokens"] / each, one["total_output_tokens"] / each),
    )
    at = _date(str(one.get(tool.date, ""))) if tool.date else ""
    yield ToolRun(metrics, _told(one, tool.version), _told(one, tool.model), at)


def _told(one: Mapping[str, Any], keys: Sequence[str]) -> str:
    """What stands there under keys, one in the other; "" where one is missing."""
    found: Any = one if keys else None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return str(found or "")


def _guidellm(one: Mapping[str, Any]) -> Iterator[ToolRun]:
    for run in one["benchmarks"]:
        measured, totals = run["metrics"], run["metrics"]["request_totals"]
        first, latency, gaps, prompt, output, streams = (
            measured[name]["successful"]
            for name in (
                "time_to_first_token_ms",
                "request_latency",
                "inter_token_latency_ms",
                "prompt_token_count",
                "output_token_count",
                "request_concurrency",
            )
        )
        config = run["config"]
        metrics = _metrics(
            streams=config["strategy"].get("streams") or streams["mean"],
            completed=totals["successful"],
            failed=totals["errored"],
            ttft=(first["median"], first["percentiles"]["p99"]),
            itl=(None, None),
            tpot=gaps["median"],
            whole=1000 * latency["median"],
            throughput=measured["output_tokens_per_second"]["total"]["mean"],
            effective=streams["mean"],
            tokens=(prompt["median"], output["median"]),
        )
        version = str(one["metadata"].get("guidellm_version", ""))
        yield ToolRun(metrics, version, str(config["backend"].get("model", "")), _moment(run["start_time"]))


def _aiperf(one: Mapping[str, Any]) -> Iterator[ToolRun]:
    phase = one["input_config"]["phases"][-1]
    first, gaps = one["time_to_first_token"], one["inter_chunk_latency"]
    completed = int(one["request_count"]["avg"])
    effective = one["effective_concurrency"]["avg"]
    metrics = _metrics(
        streams=phase.get("concurrency") or effective,
        completed=completed,
        failed=max(0, int(phase.get("requests") or completed) - completed),
        ttft=(first["p50"], first["p99"]),
        itl=(gaps["p50"], gaps["p99"]),
        tpot=one["inter_token_latency"]["p50"],
        whole=one["request_latency"]["p50"],
        throughput=one["output_token_throughput"]["avg"],
        effective=effective,
        tokens=(one["input_sequence_length"]["p50"], one["output_sequence_length"]["p50"]),
    )
    model = str(one["input_config"]["models"]["items"][0]["name"])
    yield ToolRun(metrics, str(one.get("aiperf_version", "")), model, str(one.get("start_time", "")))


def _metrics(
    *,
    streams: Any,
    completed: int,
    failed: int,
    ttft: tuple[Any, Any],
    itl: tuple[Any, Any],
    tpot: Any,
    whole: Any,
    throughput: Any,
    effective: Any,
    tokens: tuple[float, float],
) -> Metrics:
    per_token = _number(tpot)
    return Metrics(
        concurrency=max(1, round(float(streams))),
        completed=int(completed),
        failed=int(failed),
        failures={"as the tool counts": int(failed)} if failed else {},
        ttft_ms=_number(ttft[0]),
        itl_ms=_number(itl[0]),
        tpot_ms=per_token,
        e2e_ms=_number(whole),
        decode_rate=1000 / per_token if per_token else None,
        output_throughput=_number(throughput) or 0.0,
        near_zero_gaps=0.0,
        ttft_p99_ms=_number(ttft[1]),
        itl_p99_ms=_number(itl[1]),
        effective_concurrency=_number(effective) or 0.0,
        prompt_tokens=round(tokens[0]),
        max_tokens=round(tokens[1]),
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _date(text: str) -> str:
    """`20260512-140351`, in ISO 8601."""
    digits = text.replace("-", "")
    if len(digits) != 14 or not digits.isdecimal():
        return ""
    year, month, day, hour, minute, second = (digits[:4], *(digits[n : n + 2] for n in range(4, 14, 2)))
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}"


def _moment(seconds: Any) -> str:
    return datetime.fromtimestamp(float(seconds), timezone.utc).isoformat(timespec="seconds")


def _unfit(name: str, happened: str) -> UsageError:
    return UsageError(
        "reading the result of another tool from",
        name,
        happened,
        f"it must be the JSON of {', '.join(_TOOLS)}",
    )


Read = Callable[[Mapping[str, Any]], Iterator[ToolRun]]
_TOOLS: Mapping[str, tuple[Set[str], Read]] = {
    **{
        name: (tool.result_keys, partial(_own, tool))
        for name, tool in sorted(_BENCHMARKS.items(), key=lambda item: -len(item[1].result_keys))
    },
    "guidellm": ({"benchmarks", "metadata"}, _guidellm),
    "aiperf": ({"input_config", "time_to_first_token", "request_count"}, _aiperf),
}

"""The loads of a verification: repeated, level by level."""

from __future__ import annotations

import time
import uuid

from triage.verify.client import Client, Reply
from triage.verify.events import Listener, LoadEnded, LoadStarted
from triage.verify.metrics import metrics_of
from triage.verify.model import Load
from triage.verify.options import Options


def measure(client: Client, like: Reply, options: Options, on_event: Listener) -> tuple[Load, ...]:
    """Every load as often as asked for, or as often as the time allows."""
    end = time.monotonic() + options.load_timeout
    run = uuid.uuid4().hex  # other prompts in every run, or a prefix cache would answer

    def load(concurrency: int, requests: int, seed: str) -> Load:
        return client.load(
            like,
            requests=requests,
            concurrency=concurrency,
            prompt_tokens=options.prompt_tokens,
            max_tokens=options.max_tokens,
            seed=seed,
            deadline=end - time.monotonic(),
        )

    load(1, 1, f"{run} warm-up")
    loads: list[Load] = []
    took = 0.0
    for repeat in range(1, options.repeats + 1):
        began = time.monotonic()
        if loads and began + took > end:
            break
        for level in sorted({1, options.concurrency, *options.sweep}):
            count = max(options.requests, level)
            on_event(LoadStarted(level, count, repeat, options.repeats))
            loads.append(load(level, count, f"{run} {repeat} {level}"))
            on_event(LoadEnded(metrics_of(loads[-1]), repeat, options.repeats))
        took = time.monotonic() - began
    return tuple(loads)

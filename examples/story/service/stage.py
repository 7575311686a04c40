"""One pipeline stage: SGLang's own scheduler, worker and model runner, and a plain loop that serves.

`run` is the target of a stage's process. SGLang's code makes the scheduler, the runner, the pool and
the attention backend; what is here bounds the pool and replaces the event loop.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from sglang.srt.managers import scheduler
from torch import Tensor

from . import words
from .absent import Absent
from .link import Request, Token
from .model import PRECISE, WIDTH, Span, StageModel
from .standins import OnThisMachine

TOKENS = 4096  # that the pools have room for
RUNNING = 8  # requests at a time
DECODE_LOG_INTERVAL = 40
FOREVER = timedelta(days=3650)

logger = logging.getLogger(__name__)


class StageScheduler(scheduler.Scheduler):  # type: ignore[misc]
    """The scheduler, less the parts that only serving needs."""

    link: Connection  # to the front, in the first stage
    launching: ExitStack  # what holds until the stage serves

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(name)

    def run_event_loop(self) -> None:
        """Serve until the process is ended."""
        self.launching.close()
        runner = self.tp_worker.model_runner
        runner.model.bind(runner.token_to_kv_pool)
        stage = Stage(runner.model)
        if stage.rank == 0:
            stage.lead(self.link)
        else:
            stage.follow()


def run(link: Connection, server_args: Any, *args: Any) -> None:
    """Target of a stage's process."""
    # Later versions refuse assignments once the arguments are resolved.
    vars(server_args).update(
        max_total_tokens=server_args.max_total_tokens or TOKENS, max_running_requests=RUNNING
    )
    StageScheduler.link = link
    StageScheduler.launching = ExitStack()
    scheduler.Scheduler = StageScheduler
    StageScheduler.launching.enter_context(OnThisMachine())
    scheduler.run_scheduler_process(server_args, *args)


@dataclass
class Sequence:
    """An answer that is being made in the first stage."""

    request: Request
    base: int
    draw: torch.Generator = field(default_factory=torch.Generator)
    done: int = 0
    made: int = 0
    next: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw.manual_seed(self.request.seed)
        self.next = self.request.tokens

    @property
    def span(self) -> Span:
        return Span(self.base, self.done, len(self.next))

    def choose(self, logits: Tensor) -> Token:
        """Take the next token from PRECISE [words.ANSWERS]."""
        request = self.request
        if request.temperature > 0:
            chances = (logits / request.temperature).softmax(-1)
            token = int(chances.multinomial(1, generator=self.draw))
        else:
            token = int(logits.argmax())
        self.done += len(self.next)
        self.next = [token]
        self.made += 1
        finish = None
        if token == words.END and not request.ignore_end:
            finish = "stop"
        elif self.made == request.max_new:
            finish = "length"
        return Token(request.number, token, finish)


class Stage:
    """Passes batches along: a header of spans, then hidden states; logits go back to the first stage."""

    def __init__(self, model: StageModel) -> None:
        self.model = model
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        # SGLang's own groups give up after half an hour, in which no request may come.
        self.group = dist.new_group(timeout=FOREVER)
        # Every sequence owns as many rows of the pool as fit in the smallest buffer of all stages.
        rows = torch.tensor(min(min(len(layer.keys), len(layer.values)) for layer in model.layers))
        dist.all_reduce(rows, dist.ReduceOp.MIN)
        self.span = int(rows) // RUNNING
        self.log = BatchLog(self.span * RUNNING)

    def lead(self, link: Connection) -> None:
        """The first stage: take requests, batch them, choose tokens."""
        link.send(self.span)
        waiting: list[Request] = []
        running: list[Sequence] = []
        free = [slot * self.span for slot in range(RUNNING)]
        while True:
            while link.poll(0 if running or waiting else None):
                message = link.recv()
                if isinstance(message, Request):
                    waiting.append(message)
                else:
                    waiting = [request for request in waiting if request.number != message]
                    free += [one.base for one in running if one.request.number == message]
                    running = [one for one in running if one.request.number != message]
            while waiting and free:
                running.append(Sequence(waiting.pop(0), free.pop()))
            if not running:
                continue
            logits = self._run_batch(running, len(waiting))
            for one, row in zip(list(running), logits, strict=True):
                token = one.choose(row)
                link.send(token)
                if token.finish:
                    running.remove(one)
                    free.append(one.base)

    def follow(self) -> None:
        """A later stage: run what comes and pass it on."""
        header = torch.empty(2 + 3 * RUNNING, dtype=torch.int64)
        while True:
            dist.recv(header, self.rank - 1, self.group)
            count, queued, *numbers = header.tolist()
            spans = [Span(*numbers[3 * at : 3 * at + 3]) for at in range(count)]
            hidden = torch.empty(sum(span.new for span in spans), WIDTH, dtype=PRECISE)
            dist.recv(hidden, self.rank - 1, self.group)
            self._pass_on(self.model.forward(hidden, spans), spans, header)
            self.log.add(spans, queued)

    def _run_batch(self, running: list[Sequence], queued: int) -> Tensor:
        spans = [one.span for one in running]
        tokens = torch.tensor([token for one in running for token in one.next])
        numbers = [number for span in spans for number in span]
        header = torch.tensor([len(spans), queued, *numbers, *[0] * (3 * RUNNING - len(numbers))])
        hidden = self.model.forward(tokens, spans)
        if self.size == 1:
            logits = self.model.logits(hidden, spans)
        else:
            self._pass_on(hidden, spans, header)
            logits = torch.empty(len(spans), words.ANSWERS, dtype=PRECISE)
            dist.recv(logits, self.size - 1, self.group)
        self.log.add(spans, queued)
        return logits

    def _pass_on(self, hidden: Tensor, spans: list[Span], header: Tensor) -> None:
        if self.rank == self.size - 1:
            dist.send(self.model.logits(hidden, spans), 0, self.group)
        else:
            dist.send(header, self.rank + 1, self.group)
            dist.send(hidden, self.rank + 1, self.group)


class BatchLog:
    """SGLang's lines about prefill and decode batches, as every stage writes them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.decoded = 0  # tokens since the last line
        self.batches = 0
        self.prefilled_at = self.decoded_at = time.perf_counter()

    def add(self, spans: list[Span], queued: int) -> None:
        """Count a batch and write its line when one is due."""
        new = [span for span in spans if span.done == 0]
        used = sum(span.done + span.new for span in spans)
        now = time.perf_counter()
        if new:
            tokens = sum(span.new for span in new)
            logger.info(
                f"Prefill batch, #new-seq: {len(new)}, #new-token: {tokens}, #cached-token: 0, "
                f"token usage: {used / self.capacity:.2f}, #running-req: {len(spans) - len(new)}, "
                f"#queue-req: {queued}, #pending-token: 0, cuda graph: False, "
                f"input throughput (token/s): {tokens / (now - self.prefilled_at):.2f}"
            )
            self.prefilled_at = now
        self.decoded += len(spans) - len(new)
        self.batches += len(spans) > len(new)
        if self.batches == DECODE_LOG_INTERVAL:
            logger.info(
                f"Decode batch, #running-req: {len(spans)}, #token: {used}, "
                f"token usage: {used / self.capacity:.2f}, cuda graph: True, "
                f"gen throughput (token/s): {self.decoded / (now - self.decoded_at):.2f}, "
                f"#queue-req: {queued}"
            )
            self.decoded = self.batches = 0
            self.decoded_at = now

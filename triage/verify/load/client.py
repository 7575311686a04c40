"""Runs the agent on the service's host: one call, one job, one typed reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

from annotated_types import Ge

from triage.common.errors import RefusedError, UnreachableError
from triage.engines import ENGINES
from triage.evidence.model import Deployment
from triage.evidence.redaction.redactor import Redactor
from triage.hosts.connection import Connection
from triage.hosts.sender import send
from triage.hosts.typed_command import there
from triage.remote import LOAD_AGENT
from triage.remote.load_agent import MAX_TIME
from triage.verify.load.plan import LoadShape, RequestPlan, planned
from triage.verify.model import Api, Lengths, Load, Request
from triage.verify.service.containers import place_of

SAID = 500  # characters of a host's own words in an error
SLACK = 45.0  # seconds for the interpreter, the way to the host, and the agent's own last resort
TLS = tuple(dict.fromkeys(flag for engine in ENGINES.values() for flag in engine.command.tls))

_REQUESTS = [engine.requests for engine in ENGINES.values()]
_COUNTED = {  # where an engine, of whatever name, tells how many requests it has
    "paths": list(dict.fromkeys(path for each in _REQUESTS for path in each.paths)),
    "gauges": [name for each in _REQUESTS for name in each.gauges],
    "counters": [names for each in _REQUESTS for names in each.counters],
}

T = TypeVar("T")


@dataclass(frozen=True)
class Health:
    """`status` of GET /health, 0 when there was none. `foreign`: who listens there instead, "" for nobody."""

    status: int
    error: str
    foreign: str


@dataclass(frozen=True)
class Models:
    models: tuple[str, ...]
    error: str


@dataclass(frozen=True)
class Running:
    """How many requests the engine has, of whomever; None where it does not tell, and then why."""

    count: Annotated[int, Ge(0)] | None
    error: str


@dataclass(frozen=True)
class Completion:
    """One answer, its tokens as the server counted them. `error` is "KIND: DETAIL", "" when all came."""

    sent: float
    chunks: tuple[float, ...]
    prompt_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    model: str
    error: str
    text: str = ""
    finite: bool | None = None  # are the log probabilities that were asked for numbers?


@dataclass(frozen=True)
class Reply:
    """The answers of one job, and how they were asked for."""

    model: str
    api: Api
    ignore_eos: bool
    wall: float
    requests: tuple[Completion, ...]


class Client:
    """A service's endpoint, seen from its own host. Every method raises UnreachableError when the agent
    cannot run there or refuses the job; what the service itself does wrong is in the replies."""

    def __init__(
        self,
        connection: Connection,
        python: str,
        host: str,
        port: int,
        *,
        key: str = "",
        timeout: float = 120.0,
        api: Api | None = None,
        inside: bool = False,
        pids: tuple[int, ...] = (),
    ) -> None:
        self.address = f"{host}:{port}"
        self._connection = connection
        self._python = python
        self._job = {"host": host, "port": port, "key": key}
        self._key = key
        self.pids = pids  # of the service: to whom else listens there the key is not sent
        self._inside = inside  # of a container, where processes have other numbers
        self._redactor = Redactor()
        self._timeout = min(timeout, MAX_TIME)  # seconds, one request
        self._apis = [api] if api else []  # none: whatever the server knows

    def redact(self, text: str) -> str:
        """Text of the service without secrets, its API key among them."""
        return self._redactor.redact(text.replace(self._key, "<api-key>") if self._key else text)

    def health(self, pid: int | None) -> Health:
        job = {"op": "health", "timeout": min(self._timeout, 25.0)}
        if not self._inside:
            job |= {"pid": pid}
        return self._run(Health, job, deadline=30.0)

    def models(self) -> Models:
        return self._run(Models, {"op": "models"}, deadline=self._timeout)

    def running(self) -> Running:
        return self._run(Running, {"op": "running", "timeout": 5.0, **_COUNTED}, deadline=10.0)

    def complete(
        self,
        prompts: Sequence[str],
        max_tokens: int,
        *,
        like: Reply | None = None,
        concurrency: int = 1,
        timeout: float | None = None,
        logprobs: bool = False,
    ) -> Reply:
        """Deterministic completions. Without `like` the first finds out how the server wants to be asked."""
        job = {
            "op": "complete",
            "prompts": list(prompts),
            "max_tokens": max_tokens,
            "concurrency": concurrency,
            "logprobs": logprobs,
            "apis": self._apis,
        }
        timeout = min(timeout or self._timeout, self._timeout)
        job |= {"timeout": timeout, **_manner(like)}
        return self._ask(job, len(prompts), deadline=timeout * len(prompts))

    def load(self, like: Reply, shape: LoadShape, *, seed: str, deadline: float) -> Load:
        """One run of streamed requests, each with a prompt of its own whose words `seed` determines."""
        plan = [(ask.prompt_tokens, ask.max_tokens, ask.due) for ask in planned(shape)]
        job = {"op": "load", "plan": plan, "concurrency": shape.concurrency}
        job |= {"seed": seed, "timeout": self._timeout, **_manner(like)}
        return load_of(self._ask(job, len(plan), deadline), shape)

    def _ask(self, job: Mapping[str, object], count: int, deadline: float) -> Reply:
        reply = self._run(Reply, job, deadline)
        if len(reply.requests) != count:
            raise UnreachableError(
                f"measure {self.address} with {self._python} on",
                self._connection.name,
                f"its answer makes no sense: {len(reply.requests)} of {count} requests",
                there(self._connection.name, f"{self._python} --version"),
            )
        clean = tuple(replace(one, error=self.redact(one.error)) for one in reply.requests)
        return replace(reply, requests=clean)

    def _run(self, kind: type[T], job: Mapping[str, object], deadline: float) -> T:
        from pydantic import TypeAdapter, ValidationError

        deadline = max(1.0, min(deadline, MAX_TIME))
        about = (f"measure {self.address} with {self._python} on", self._connection.name)
        version = there(self._connection.name, f"{self._python} --version")
        whose: dict[str, object] = {"inside": True} if self._inside else {"pids": self.pids}
        reply = send(
            self._connection,
            LOAD_AGENT,
            {**self._job, **whose, "timeout": self._timeout, **job, "deadline": deadline},
            python=self._python,
            about=about,
            next=version,
            timeout=deadline + SLACK,
        )
        if "refused" in reply:
            models = there(self._connection.name, f"curl http://{self.address}/v1/models")
            raise UnreachableError(*about, str(reply["refused"])[:SAID], models)
        try:
            return TypeAdapter(kind).validate_python(reply)
        except ValidationError as error:
            happened = f"its answer makes no sense: {error}"[:SAID]
            raise UnreachableError(*about, happened, version) from None


def client_of(
    connection: Connection,
    deployment: Deployment,
    *,
    key: str = "",
    timeout: float = 120.0,
    api: Api | None = None,
) -> Client:
    """The client of a deployment, with its own interpreter; python3 where that is not known.

    Raises UnreachableError where its port is not known, RefusedError where it speaks TLS.
    """
    port, named = deployment.port, f"{deployment.name} on {connection.name}"
    if port is None:
        why = "; ".join(deployment.disagreements) or "neither its arguments nor its engine say it"
        raise UnreachableError("find the port of", named, why, there(connection.name, "ss -tlnp"))
    secured = next((flag for flag in TLS if flag in deployment.arguments), "")
    if secured:
        raise RefusedError(
            "ask",
            named,
            f"it speaks TLS (--{secured}), and triage asks over plain HTTP alone",
            f"prove it by hand: curl -k https://{deployment.host}:{port}/v1/models",
        )
    python = deployment.python or "python3"
    connection, inside = place_of(connection, deployment, python), bool(deployment.container)
    pids = tuple(pid for pid in (deployment.serving_pid, deployment.main_pid) if pid)
    return Client(
        *(connection, python, deployment.host, port),
        key=key,
        timeout=timeout,
        api=api,
        inside=inside,
        pids=pids,
    )


def load_of(reply: Reply, shape: LoadShape) -> Load:
    """A load as measured; the reply has an answer for each of its requests.

    Tokens are those that the server counted. Where it counted in no answer, chunks stand for tokens, and
    the load says so; where it counted in some, the others failed with "no usage".
    """
    counted = any(one.output_tokens is not None for one in reply.requests)
    return Load(
        concurrency=shape.concurrency,
        prompt_tokens=shape.prompts[1],
        max_tokens=shape.outputs[1],
        token_source="usage" if counted else "chunks",
        wall=reply.wall,
        requests=tuple(
            _request(one, ask, counted) for one, ask in zip(reply.requests, planned(shape), strict=True)
        ),
        api=reply.api,
        ignore_eos=reply.ignore_eos,
        rate=shape.rate,
        arrivals=shape.arrivals,
        prompt_lengths=_range(shape.prompts),
        output_lengths=_range(shape.outputs),
    )


def _range(lengths: Lengths) -> Lengths | None:
    return lengths if lengths[0] != lengths[1] else None


def _request(one: Completion, ask: RequestPlan, counted: bool) -> Request:
    missing = counted and one.output_tokens is None
    return Request(
        sent=one.sent,
        chunks=one.chunks,
        prompt_tokens=one.prompt_tokens,
        output_tokens=len(one.chunks) if one.output_tokens is None else one.output_tokens,
        finish_reason=one.finish_reason,
        error=one.error or ("no usage" if missing else ""),
        asked_prompt=ask.prompt_tokens,
        asked_tokens=ask.max_tokens,
        due=ask.due,
    )


def _manner(like: Reply | None) -> dict[str, object]:
    return {"model": like.model, "api": like.api, "ignore_eos": like.ignore_eos} if like else {}

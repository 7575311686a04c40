"""Client of an OpenAI-compatible server that runs on the server's own host.

One file, standard library alone, Python 3.7 or newer, because it is sent to the host and run by the
service's own interpreter: it is given one JSON object, and answers with one on standard output. It talks
to addresses of its own host only, and is bounded in requests, bytes and time, so that it always ends by
itself.

    {"op": "health", "host": ..., "port": ..., "pid": MAIN_PID, "inside": false}    inside: of a container
        -> {"status": 200, "error": "", "foreign": "process 4711, which is older than this start"}
    {"op": "models", ...}    -> {"models": ["tiny"], "error": ""}
    {"op": "running", ..., "paths": ["/metrics", ...], "gauges": [...], "counters": [["num_reqs"], ...]}
        -> {"count": 3, "error": ""}, null where the server does not tell. The paths are asked in turn; it is
           the sum of the metrics in `gauges`, or of the first of `counters` whose keys an answer all has
    {"op": "complete", ..., "prompts": [...], "max_tokens": 16, "concurrency": 1, "logprobs": false}
        -> {"model": ..., "api": ..., "ignore_eos": true, "wall": 1.2, "requests": [{..., "text": ...}]}
    {"op": "load", ..., "plan": [[64, 32, 0.5], ...], "concurrency": 4, "seed": 1}
        -> the same, streamed, each request without its text. A plan has for each request the tokens of its
           prompt and of its answer and when it is sent, at the earliest; `concurrency` may hold it back

Each of `requests` has `sent`, `chunks` (when text arrived), `prompt_tokens`, `output_tokens`,
`finish_reason`, `model`, `error`, "KIND: DETAIL" or "", and `finite`: whether the log probabilities that were
asked for are numbers, null where there are none. Times are seconds after the run's start.
Everything else that a job may hold: `key` (sent as a bearer token); `model`; `api` with `ignore_eos`, found
out by the first prompt, among `apis`, when empty: "completions", "chat" or SGLang's "generate"; `timeout`
(seconds, one request) and `deadline` (seconds, all of them). A job that cannot be done is answered by
{"refused": WHY}.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import gc
import json
import os
import random
import re
import selectors
import signal
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

OPERATIONS = ("health", "models", "running", "complete", "load")
MAX_HEAD = 64 << 10
MAX_LINE = 1 << 20
MAX_RESPONSE = 64 << 20
MAX_TOTAL = 256 << 20
LINE_COST = 128  # bytes that keeping one line takes beside its text
MAX_REQUESTS = 10_000
MAX_CONCURRENCY = 512
MAX_WORDS = 4_000_000
MAX_TOKENS = 100_000
MAX_TIME = 7200  # seconds
LOOK = 1.0  # seconds between two looks at who listens, while requests with a key are sent
DETAIL = 300  # characters of a server's own words that are kept
SO_TIMESTAMPNS = 35  # Linux; the module of Python 3.7 has no name for it
MAX_LATE = 1.0  # seconds; a program that is later than that has a clock that was set

GAUGE = re.compile(rb"^([A-Za-z_:][A-Za-z0-9_:]{0,100})(?:\{[^\n]*\})? ([0-9.e+]{1,20})$")
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions", "generate": "/generate"}
NO_ANSWER = {"prompt_tokens": None, "output_tokens": None, "finish_reason": None, "model": "", "finite": None}
FINISHED = {"stop", "length", "tool_calls", "function_call", "content_filter"}
TEXTS = ("text", "reasoning_content", "reasoning", "content")  # keys of a choice or delta that carry text
WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "localhost": "127.0.0.1", "::": "::1"}
VOCABULARY = """time year people way day man thing woman life child world school state family student group
country problem hand part place case week company system program question work number night point home
water room mother area money story fact month lot right study book eye job word"""

if TYPE_CHECKING:
    from collections.abc import Iterator

    Target = tuple[int, Any]  # address family and address
    Json = dict[str, Any]

clock = time.perf_counter


class JobRefused(Exception):
    """The job cannot be done; the message says why."""


class Broken(Exception):
    """A server's answer is cut, wrong or makes no sense; the message is "KIND: DETAIL"."""


class Ask(NamedTuple):
    """One request to be made, `due` seconds after the run's start at the earliest."""

    prompt: str
    max_tokens: int
    due: float


class Manner(NamedTuple):
    """How a server is asked."""

    model: str
    api: str
    ignore_eos: bool
    stream: bool


class Response:
    """One HTTP answer, decoded as it arrives. `lines` holds (time of the last byte, line) of the body."""

    def __init__(self) -> None:
        self.status = 0
        self.streamed = False
        self.complete = False
        self.size = 0
        self.lines: list[tuple[float, bytes]] = []
        self._head = bytearray()
        self._line = bytearray()
        self._chunk_head = b""
        self._chunked = False
        self._left = -1  # bytes to come of the chunk or the body; negative: until the connection closes

    def feed(self, at: float, data: bytes) -> None:
        """Take bytes that arrived at a time. Raises Broken."""
        self.size += len(data)
        if self.size > MAX_RESPONSE:
            raise Broken(f"too much data: more than {MAX_RESPONSE >> 20} MiB")
        if not self.status:
            data = self._take_head(data)
        if self._chunked:
            self._take_chunks(at, data)
        elif self._left < 0:
            self._take_text(at, data)
        else:
            self._take_text(at, data[: self._left])
            self._left -= min(self._left, len(data))
            self.complete = self.status > 0 and self._left == 0

    def close(self) -> None:
        """The server closed the connection. Raises Broken when more was to come."""
        if not self.status:
            raise Broken("connection dropped: before an answer")
        if self._chunked or self._left > 0:
            raise Broken("connection dropped: in the middle of an answer")
        self.complete = True

    def body(self) -> bytes:
        return b"\n".join([line for _, line in self.lines] + [bytes(self._line)])

    def _take_head(self, data: bytes) -> bytes:
        searched = max(0, len(self._head) - 3)
        self._head += data
        end = self._head.find(b"\r\n\r\n", searched)
        if end < 0:
            if len(self._head) > MAX_HEAD:
                raise Broken(f"not HTTP: headers of more than {MAX_HEAD >> 10} KiB")
            return b""
        first, *fields = bytes(self._head[:end]).split(b"\r\n")
        status = re.match(rb"HTTP/1\.\d ([1-5]\d\d)\b", first)
        if not status:
            raise Broken(f"not HTTP: {plain(first)}")
        headers = {}
        for field in fields:
            name, _, value = field.partition(b":")
            headers[name.strip().lower()] = value.strip().lower()
        self.status = int(status.group(1))
        self.streamed = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        if headers.get(b"transfer-encoding") == b"chunked":
            self._chunked, self._left = True, 0
        elif b"content-length" in headers:
            self._left = natural(headers[b"content-length"], 10)
        rest, self._head = bytes(self._head[end + 4 :]), bytearray()
        return rest

    def _take_chunks(self, at: float, data: bytes) -> None:
        position = 0
        while position < len(data) and not self.complete:
            if self._left:
                piece = data[position : position + self._left]
                position += len(piece)
                self._left -= len(piece)
                self._take_text(at, piece)
                continue
            end = data.find(b"\n", position)
            self._chunk_head += data[position : end if end >= 0 else len(data)]
            if len(self._chunk_head) > 1024:
                raise Broken("not HTTP: a chunk without a size")
            if end < 0:
                return
            position = end + 1
            size, self._chunk_head = self._chunk_head.partition(b";")[0].strip(), b""
            if size:  # an empty line ends the chunk before
                self._left = natural(size, 16)
                self.complete = self._left == 0

    def _take_text(self, at: float, data: bytes) -> None:
        start = 0
        while True:
            end = data.find(b"\n", start)
            if end < 0:
                break
            self._line += data[start:end]
            if self._line.strip():
                self.lines.append((at, bytes(self._line)))
                self.size += LINE_COST
            self._line = bytearray()
            start = end + 1
        self._line += data[start:]
        if len(self._line) > MAX_LINE:
            raise Broken(f"too much data: a line of more than {MAX_LINE >> 20} MiB")


class Exchange:
    """One request on a connection of its own, and what came back. `due`: not sent before, on the clock."""

    def __init__(self, data: bytes, due: float = 0.0, unfit: Any = None) -> None:
        self.response = Response()
        self.due = due
        self._unfit = unfit  # tells why nothing is to be sent to who listens now
        self.sent = 0.0
        self.ended = 0.0
        self.error = ""
        self._begun = False
        self._data = memoryview(data)
        self._socket: socket.socket | None = None

    def open(self, selector: selectors.BaseSelector, target: Target) -> int:
        self.sent = clock()
        self._socket = connection = socket.socket(target[0], socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask_for_stamps(connection)
        code = connection.connect_ex(target[1])
        if code not in (0, errno.EINPROGRESS):
            raise Broken(f"no connection: {os.strerror(code)}")
        selector.register(connection, selectors.EVENT_WRITE, self)
        return self.advance(selector, True)  # on its own host a connection stands at once

    def advance(self, selector: selectors.BaseSelector, writable: bool) -> int:
        """Send or receive what is possible; returns by how much the answer grew."""
        assert self._socket is not None
        if writable:
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise Broken(f"no connection: {os.strerror(code)}")
            why = "" if self._begun or self._unfit is None else self._unfit()
            if why:
                raise Broken(f"no connection: {why}")
            now = clock()
            taken = self._socket.send(self._data)
            self._data = self._data[taken:]
            if not self._begun:  # opening the connection is not the request's time
                self._begun, self.sent = True, now
            if not self._data:
                selector.modify(self._socket, selectors.EVENT_READ, self)
            return 0
        before = self.response.size
        data, stamps, _, _ = self._socket.recvmsg(1 << 16, 64)
        if data:
            self.response.feed(clock() - lateness(stamps), data)
        else:
            self.response.close()
        return self.response.size - before

    def end(self, selector: selectors.BaseSelector, error: str = "") -> None:
        self.error = error
        self.ended = clock()
        if self._socket is not None:
            with contextlib.suppress(KeyError, ValueError):
                selector.unregister(self._socket)
            self._socket.close()


def ask_for_stamps(connection: socket.socket) -> None:
    """Of when the kernel had what is received. It stamps a while after the first socket that asks for it."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def lateness(stamps: Any) -> float:
    """Seconds since the kernel had the bytes that were just received, 0 where it does not say."""
    for level, kind, data in stamps:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(data) == struct.calcsize("@ll"):
            seconds, nanoseconds = struct.unpack("@ll", data)
            late = time.time() - seconds - nanoseconds / 1e9
            return late if 0 < late < MAX_LATE else 0.0
    return 0.0


def exchange_all(
    target: Target, exchanges: list[Exchange], concurrency: int, timeout: float, deadline: float
) -> None:
    """Send all, each when it is due, at most `concurrency` at a time. Returns by `deadline` on the clock."""
    waiting = collections.deque(exchanges)
    active: Any = collections.OrderedDict()  # oldest first, and cheap to look at there
    received = 0
    selector = selectors.DefaultSelector()

    def end(one: Exchange, error: str = "") -> None:
        active.pop(one, None)
        one.end(selector, error)

    def attempt(one: Exchange, step: Any, argument: Any) -> int:
        try:
            return int(step(selector, argument))
        except (BlockingIOError, InterruptedError):
            pass
        except Broken as broken:
            end(one, str(broken))
        except OSError as error:
            end(one, f"connection dropped: {error.strerror or error}")
        return 0

    with selector:
        while waiting or active:
            now = clock()
            if now >= deadline or received > MAX_TOTAL:
                why = "timed out: the run's time is up" if now >= deadline else "too much data: in all"
                for one in list(active) + list(waiting):
                    end(one, why)
                break
            while waiting and len(active) < concurrency and waiting[0].due <= clock():
                one = waiting.popleft()
                active[one] = None
                attempt(one, one.open, target)
            while active and next(iter(active)).sent + timeout <= now:
                end(next(iter(active)), f"timed out: no full answer in {timeout:g} s")
            if not active and not waiting:
                break
            until = deadline
            if active:
                until = min(until, next(iter(active)).sent + timeout)
            if waiting and len(active) < concurrency:
                until = min(until, waiting[0].due)
            for key, mask in selector.select(max(0.0, until - now)):
                received += attempt(key.data, key.data.advance, bool(mask & selectors.EVENT_WRITE))
                if key.data.response.complete and key.data in active:
                    end(key.data)


def judge(exchange: Exchange, start: float, manner: Manner, ask: Ask) -> Json:
    """What one exchange delivered, and what is wrong with it ("" when nothing is)."""
    answer: Json = dict(NO_ANSWER)
    texts: list[str] = []
    chunks = []
    error = exchange.error
    try:
        for at, event in events_of(exchange.response):
            text = read_event(event, answer)
            if text and "meta_info" in event:
                text = grown(text, event, answer["output_tokens"], texts)
            if text:
                chunks.append(round(at - start, 6))
                texts.append(text)
    except Broken as broken:
        error = str(broken)
    if manner.stream and not error and not exchange.response.streamed:
        error = "not streamed: the answer came in one piece"
    answer["sent"] = round((exchange.sent or exchange.ended) - start, 6)
    answer["chunks"] = chunks
    answer["text"] = "".join(texts)
    answer["error"] = error or shortcoming(answer, ask.max_tokens, manner.ignore_eos)
    return answer


def events_of(response: Response) -> Iterator[tuple[float, Json]]:
    """(time, event) of a streamed answer, or the one object of a plain one. Raises Broken."""
    if not response.status:
        return
    if response.status != 200:
        raise Broken(f"status {response.status}: {message_of(response.body())}")
    if not response.streamed:
        if response.complete:
            yield (response.lines[-1][0] if response.lines else 0.0), decoded(response.body())
        return
    for at, line in response.lines:
        name, _, value = line.partition(b":")
        value = value.strip()
        if name == b"data" and value != b"[DONE]":
            yield at, decoded(value)


def read_event(event: Json, answer: Json) -> str:
    """Note what an event says in `answer`; returns the text that it carries. Raises Broken."""
    failure = event.get("error") or (event if event.get("object") == "error" else None)
    if failure:
        raise Broken(f"error in stream: {message_in(failure)}")
    if isinstance(event.get("model"), str):
        answer["model"] = event["model"][:DETAIL]
    note_usage(event.get("usage"), answer)
    meta = event.get("meta_info")
    if isinstance(meta, dict):
        return read_native(event, meta, answer)
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return ""
    choice = choices[0]
    if isinstance(choice.get("finish_reason"), str):
        answer["finish_reason"] = choice["finish_reason"][:DETAIL]
    numbers = log_probabilities(choice.get("logprobs"))
    if numbers:
        answer["finite"] = answer["finite"] is not False and all(map(is_finite, numbers))
    part = choice.get("delta") or choice.get("message") or choice
    if not isinstance(part, dict):
        return ""
    return "".join(part[name] for name in TEXTS if isinstance(part.get(name), str))


def note_usage(usage: Any, answer: Json) -> None:
    for ours, theirs in (("output_tokens", "completion_tokens"), ("prompt_tokens", "prompt_tokens")):
        if isinstance(usage, dict) and is_count(usage.get(theirs)):
            answer[ours] = usage[theirs]


def read_native(event: Json, meta: Json, answer: Json) -> str:
    """The same of an event of SGLang's own interface."""
    note_usage(meta, answer)
    reason = meta.get("finish_reason")
    reason = reason.get("type") if isinstance(reason, dict) else reason
    if isinstance(reason, str):
        answer["finish_reason"] = reason[:DETAIL]
    told = meta.get("output_token_logprobs")
    numbers = [one[0] for one in told if isinstance(one, list) and one] if isinstance(told, list) else []
    if numbers:
        answer["finite"] = all(map(is_finite, numbers))
    return event["text"] if isinstance(event.get("text"), str) else ""


def grown(text: str, event: Json, count: int | None, before: list[str]) -> str:
    """What an event of SGLang's own interface adds: it repeats all text so far, unless it is told not to."""
    ids = event.get("output_ids")
    in_pieces = isinstance(ids, list) and count is not None and len(ids) < count
    whole = "".join(before)
    return text[len(whole) :] if text.startswith(whole) and not in_pieces else text


def log_probabilities(told: Any) -> list[Any]:
    """Those of the tokens of an answer, in either way in which the interface tells them."""
    if not isinstance(told, dict):
        return []
    if isinstance(told.get("token_logprobs"), list):
        return [number for number in told["token_logprobs"] if number is not None]
    content = told.get("content")
    return (
        [one.get("logprob") for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    )


def names_in(told: Any) -> list[str]:
    return [name for name in told if isinstance(name, str)] if isinstance(told, list) else []


def requests_in(body: bytes, gauges: list[str], counters: list[list[str]]) -> int | None:
    """How many requests an engine says it has, over all ranks; None where it does not tell."""
    told = [found for found in map(GAUGE.match, body.split(b"\n")) if found]
    values = [float(found[2]) for found in told if found[1].decode() in gauges]
    if values:
        return int(sum(values))
    value = None
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(body.decode("utf-8", "replace"), parse_int=bounded_int)
    loads = value.get("loads") if isinstance(value, dict) else value
    counts = (
        [count_in(load, counters) for load in loads if isinstance(load, dict)]
        if isinstance(loads, list)
        else []
    )
    return sum(counts) if counts else None


def count_in(load: Json, counters: list[list[str]]) -> int:
    for names in counters:
        if all(is_count(load.get(name)) for name in names):
            return int(sum(load[name] for name in names))
    return 0


def is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == value and abs(value) != float("inf")


def shortcoming(answer: Json, max_tokens: int, ignore_eos: bool) -> str:
    """Why an answer that arrived in full is not what was asked for, "" when it is."""
    reason, count = answer["finish_reason"], answer["output_tokens"]
    if reason is None:
        return "no finish_reason"
    if reason not in FINISHED:
        return f"finish_reason {plain(reason.encode('utf-8', 'replace'))}"
    if not answer["text"]:
        return "no text"
    if count is not None and count < max_tokens and (ignore_eos or reason == "length"):
        return f"short output: {count} of {max_tokens} tokens"
    return ""


def decoded(data: bytes) -> Json:
    """A JSON object. Raises Broken for anything else."""
    value = None
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(data.decode("utf-8", "replace"), parse_int=bounded_int)
    if not isinstance(value, dict):
        raise Broken(f"not JSON: {plain(data)}")
    return value


def bounded_int(digits: str) -> int | None:
    return int(digits) if len(digits) < 16 else None


def natural(digits: bytes, base: int) -> int:
    if re.fullmatch(rb"\w{1,15}", digits):
        with contextlib.suppress(ValueError):
            return int(digits, base)
    raise Broken(f"not HTTP: a length of {plain(digits)}")


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def ids_in(listed: Any) -> list[str]:
    """The names in a list of models."""
    if not isinstance(listed, list):
        return []
    names = [one.get("id") for one in listed if isinstance(one, dict)]
    return [name[:DETAIL] for name in names if name and isinstance(name, str)]


def message_of(body: bytes) -> str:
    """The server's own words in an error answer."""
    try:
        return message_in(decoded(body))
    except Broken:
        return plain(body)


def message_in(value: Any) -> str:
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(name):
            value = value[name]
    return plain(str(value).encode("utf-8", "replace"))


def plain(data: bytes) -> str:
    return re.sub(r"\s+", " ", data[:DETAIL].decode("utf-8", "replace")).strip()


# Which server: addresses of this host, and who listens there.


def target_of(host: Any, port: Any) -> Target:
    """Where the server listens. Raises JobRefused unless that is an address of this host."""
    host = WILDCARDS.get(host, host)
    if not isinstance(host, str) or not isinstance(port, int) or not 0 < port < 65536:
        raise JobRefused(f"{host!r}, port {port!r}: no such address")
    try:
        found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise JobRefused(f"{host}: {error}") from None
    for family, kind, protocol, _, where in found:
        with socket.socket(family, kind, protocol) as probe, contextlib.suppress(OSError):
            probe.bind((where[0], 0) + where[2:])  # noqa: RUF005
            return family, where
    raise JobRefused(f"{host} is no address of this host")


def sockets_at(target: Target) -> dict[str, int]:
    """The sockets that listen at an address, and whose they are."""
    family, where = target
    own = socket.inet_pton(family, where[0].partition("%")[0])
    sockets = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for fields in rows_of(table):
            address, _, port = fields[1].partition(":")
            words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
            packed = struct.pack(f"={len(words)}I", *words)
            here = not any(packed) or packed[-4:] == own[-4:]
            if here and fields[3] == "0A" and int(port, 16) == where[1]:
                sockets[f"socket:[{fields[9]}]"] = int(fields[7])
    return sockets


def rows_of(path: str) -> list[list[str]]:
    with contextlib.suppress(OSError), open(path) as table:
        return [line.split() for line in table.readlines()[1:]]
    return []


def files_of(pid: int) -> set[str] | None:
    """What a process has open, None where this user may not see it."""
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    except PermissionError:
        return None
    except OSError:
        pass  # it has ended
    return found


def birth_of(pid: int) -> int:
    """Start of a process in clock ticks after boot, 0 when it is gone."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])
    return 0


def user_of(pid: int) -> int:
    """Whose a process is, -1 when it is gone."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/status", "rb") as status:
        return int(status.read().partition(b"\nUid:")[2].split()[1])
    return -1


def group_of(pid: int) -> str:
    """The control group of a process, where that is of a unit of systemd; else ""."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup") as told:
        for line in told:
            name = line.rpartition(":")[2].strip()
            if name.endswith(".service"):
                return name
    return ""


def belongs(pid: int, service: list[int]) -> bool:
    """Whether a process is of a service: one of those that are known, started by one, or in its group."""
    groups = {group_of(each) for each in service} - {""}
    if group_of(pid) in groups:
        return True
    for _ in range(64):
        if pid in service:
            return True
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:
                pid = int(stat.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            return False
    return False


def within(name: str, value: Any, lowest: float, highest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not lowest <= value <= highest:
        raise JobRefused(f"{name} must lie between {lowest:g} and {highest:g}")
    return value


class Agent:
    """One job: what was asked for, and the server it is asked of."""

    def __init__(self, job: Json) -> None:
        self.job = job
        self.target = target_of(job.get("host"), job.get("port"))
        self.stamping = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # for as long as this runs
        ask_for_stamps(self.stamping)
        self.timeout = self.number("timeout", 60, 0.1, MAX_TIME)
        self.deadline = clock() + self.number("deadline", 120, 0.1, MAX_TIME)
        self.known: set[str] = set()  # sockets that are the service's
        self.looked = 0.0
        self.concurrency = int(self.number("concurrency", 1, 1, MAX_CONCURRENCY))

    def number(self, name: str, default: float, lowest: float, highest: float) -> float:
        return within(name, self.job.get(name, default), lowest, highest)

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        data = b"" if body is None else json.dumps(body).encode("ascii")
        key = self.job.get("key") or ""
        if not isinstance(key, str) or not re.fullmatch(r"[\x21-\x7e]*", key):
            raise JobRefused("the API key holds characters that no header can carry")
        address, port = self.target[1][:2]
        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", "User-Agent: triage"]
        if key:
            head.append(f"Authorization: Bearer {key}")
        if body is not None:
            head.append("Content-Type: application/json")
            head.append(f"Content-Length: {len(data)}")
        return "\r\n".join([*head, "", ""]).encode("ascii") + data

    def send(self, data: bytes) -> Exchange:
        exchange = self.exchange(data)
        exchange_all(self.target, [exchange], 1, self.timeout, self.deadline)
        return exchange

    def exchange(self, data: bytes, due: float = 0.0) -> Exchange:
        return Exchange(data, due, self.unfit if self.job.get("key") else None)

    def unfit(self) -> str:
        """Why the API key is not sent to who listens now, "" where that is the service.

        Asked once a connection stands, which the one that listened then has got. A listener whose files may
        not be seen is the service's where the kernel says that it is of the same user.
        """
        if self.known and clock() - self.looked < LOOK:
            return ""
        sockets, self.looked = sockets_at(self.target), clock()
        if self.known and self.known == sockets.keys():
            return ""
        self.known = set()
        inside = self.job.get("inside") is True
        told = self.job.get("pids")
        pids = [pid for pid in told if isinstance(pid, int) and pid > 1] if isinstance(told, list) else []
        service = [pid for pid in ([1] if inside else pids) if birth_of(pid)]
        if not service:
            return "the API key is not sent, as no process of the service is known"
        files = {each: files_of(each) for each in map(int, filter(str.isdigit, os.listdir("/proc")))}
        unseen = None in files.values()
        users = {user_of(pid) for pid in service}
        for name, user in sockets.items():
            holders = [pid for pid, held in files.items() if held and name in held]
            if any(inside or belongs(pid, service) for pid in holders):
                continue
            if not holders and unseen and user in users:
                continue
            who = f"process {holders[0]}" if holders else f"a process of user {user}"
            return f"the API key is not sent to {who}, which listens there and is not of the service"
        if not sockets:
            return "the API key is not sent, as nobody is seen to listen there"
        self.known = set(sockets)
        return ""

    def health(self) -> Json:
        exchange = self.send(self.request("GET", "/health"))
        return {"status": exchange.response.status, "error": exchange.error, "foreign": self.foreign()}

    def foreign(self) -> str:
        """Who is seen to listen there instead of the service, "" where nobody is.

        Of a container's network, which may be its host's, all sockets are listed, and of processes its own.
        """
        sockets, pid = sockets_at(self.target), self.job.get("pid")
        files = {each: files_of(each) for each in map(int, filter(str.isdigit, os.listdir("/proc")))}
        listeners = [each for each, held in files.items() if held and sockets.keys() & held]
        if self.job.get("inside") is True:
            unheld = sockets and not listeners and None not in files.values()
            return "a process outside of its container" if unheld else ""
        own = birth_of(pid) if isinstance(pid, int) else 0
        if own and listeners and max(map(birth_of, listeners)) < own:
            return f"process {listeners[0]}, which is older than this start"
        return ""

    def models(self) -> Json:
        exchange = self.send(self.request("GET", "/v1/models"))
        names: list[str] = []
        error = exchange.error
        try:
            for _, event in events_of(exchange.response):
                names = ids_in(event.get("data"))[:100]
        except Broken as broken:
            error = str(broken)
        return {"models": names, "error": error or ("" if names else "no models: /v1/models names none")}

    def running(self) -> Json:
        """Requests of everybody in the engine, those that wait for their turn included."""
        gauges, counters = names_in(self.job.get("gauges")), self.job.get("counters")
        every = [names_in(each) for each in counters] if isinstance(counters, list) else []
        for path in names_in(self.job.get("paths")):
            exchange = self.send(self.request("GET", path))
            if exchange.error:
                return {"count": None, "error": exchange.error}
            body = exchange.response.body() if exchange.response.status == 200 else b""
            count = requests_in(body, gauges, every)
            if count is not None:
                return {"count": count, "error": ""}
        return {"count": None, "error": "it does not tell"}

    def completion(self, manner: Manner, ask: Ask) -> bytes:
        api, logprobs = manner.api, self.job.get("logprobs") is True
        settings: Json = {"temperature": 0}
        if manner.ignore_eos:
            settings["ignore_eos"] = True
        body: Json
        if api == "generate":
            settings["max_new_tokens"] = ask.max_tokens
            body = {"text": ask.prompt, "sampling_params": settings, "return_logprob": logprobs}
        else:
            body = {"model": manner.model, "max_tokens": ask.max_tokens}
            body.update(settings)
            if api == "chat":
                body["messages"] = [{"role": "user", "content": ask.prompt}]
            else:
                body["prompt"] = ask.prompt
            if logprobs:
                body["logprobs"] = True if api == "chat" else 1
            if manner.stream:
                body["stream_options"] = {"include_usage": True}
        body["stream"] = manner.stream
        return self.request("POST", PATHS[api], body)

    def settle(self, manner: Manner, ask: Ask) -> tuple[Manner, Json]:
        """Ask in the ways that a server may want it, best first, and tell the one that it took."""
        wanted = self.job.get("apis") or list(PATHS)
        for api in [api for api in PATHS if api in wanted] or PATHS:
            for ignore_eos in (True, False):
                manner = manner._replace(api=api, ignore_eos=ignore_eos)
                start = clock()
                exchange = self.send(self.completion(manner, ask))
                if exchange.response.status not in (400, 422):
                    break
            if exchange.response.status not in (404, 405):
                break
        return manner, judge(exchange, start, manner, ask)

    def run(self, asks: list[Ask], stream: bool) -> Json:
        """Ask all of it. Where the job does not say how, the first finds out, before the others."""
        job = self.job
        model, ignore_eos = str(job.get("model") or ""), job.get("ignore_eos") is True
        manner = Manner(model, str(job.get("api")), ignore_eos, stream)
        if not manner.model:
            listed = self.models()
            if listed["error"]:
                answer = dict(NO_ANSWER, error=listed["error"], sent=0.0, chunks=[], text="")
                return self.reply(manner._replace(api="completions"), 0.0, [answer] * len(asks))
            manner = manner._replace(model=listed["models"][0])
        answers = []
        if manner.api not in PATHS:
            manner, answer = self.settle(manner, asks.pop(0))
            answers.append(answer)
        exchanges = [self.exchange(self.completion(manner, ask), ask.due) for ask in asks]
        gc.collect()
        gc.disable()
        start = clock()
        for one in exchanges:
            one.due += start
        exchange_all(self.target, exchanges, self.concurrency, self.timeout, self.deadline)
        wall = round(clock() - start, 6)
        gc.enable()
        answers += [judge(one, start, manner, ask) for one, ask in zip(exchanges, asks)]
        return self.reply(manner, wall, answers)

    @staticmethod
    def reply(manner: Manner, wall: float, answers: list[Json]) -> Json:
        model, api, ignore_eos, _ = manner
        return {"model": model, "api": api, "ignore_eos": ignore_eos, "wall": wall, "requests": answers}

    def complete(self) -> Json:
        prompts, max_tokens = self.job.get("prompts"), int(self.number("max_tokens", 16, 1, MAX_TOKENS))
        if not isinstance(prompts, list) or not all(isinstance(one, str) for one in prompts):
            raise JobRefused("prompts must be a list of texts")
        if not 0 < len(prompts) <= MAX_REQUESTS:
            raise JobRefused(f"prompts must be 1 to {MAX_REQUESTS}")
        return self.run([Ask(prompt, max_tokens, 0.0) for prompt in prompts], False)

    def load(self) -> Json:
        reply = self.run(list(self.planned()), True)
        for one in reply["requests"]:
            del one["text"]
        return reply

    def planned(self) -> Iterator[Ask]:
        """What a plan asks for. Raises JobRefused."""
        plan = self.job.get("plan")
        if not isinstance(plan, list) or not 0 < len(plan) <= MAX_REQUESTS:
            raise JobRefused(f"a plan must be of 1 to {MAX_REQUESTS} requests")
        source, words, left = random.Random(str(self.job.get("seed"))), VOCABULARY.split(), MAX_WORDS
        for one in plan:
            if not isinstance(one, list) or len(one) != 3:
                raise JobRefused("each request of a plan has two lengths and a time")
            length = int(within("the tokens of a prompt", one[0], 1, 200_000))
            left -= length
            if left < 0:
                raise JobRefused(f"all prompts together must not exceed {MAX_WORDS} tokens")
            max_tokens = int(within("the tokens of an answer", one[1], 1, MAX_TOKENS))
            due = within("the time of a request", one[2], 0, MAX_TIME)
            yield Ask(" ".join(source.choices(words, k=length)), max_tokens, due)


def main(job: Any) -> None:
    """Do one job, and answer it on standard output."""
    try:
        if not isinstance(job, dict) or job.get("op") not in OPERATIONS:
            raise JobRefused("no such operation")
        agent = Agent(job)
        signal.alarm(int(agent.deadline - clock()) + 30)  # whatever happens, this process ends
        reply = getattr(agent, job["op"])()
    except JobRefused as refused:
        reply = {"refused": str(refused)}
    sys.stdout.write(json.dumps(reply))


if __name__ == "__main__":
    main(json.load(sys.stdin))

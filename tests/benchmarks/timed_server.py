"""An OpenAI-compatible server of known timing that streams to hundreds of clients, and tells what it did.

    python -m tests.benchmarks.timed_server TTFT ITL      seconds; prints its port

Every piece of text has a moment at which it is due; `GET /truth` tells the medians of what was sent when, of
all requests since the last time. A request is there when the kernel received its last byte, by the kernel's
own stamp; a piece is sent when the call that sends it begins, which over loopback is some 30 us before the
other side has it. How late this program is does not matter to the truth, then, and is told as well.
"""

from __future__ import annotations

import heapq
import json
import select
import socket
import sys
import time
from dataclasses import dataclass, field
from functools import cache
from itertools import count, pairwise
from statistics import median
from typing import Any

from triage.remote.load_agent import ask_for_stamps, lateness

MODEL = "tiny"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
clock = time.perf_counter


@dataclass
class Stream:
    """One request that is being answered. Times on `clock`."""

    arrived: float
    tokens: int
    chat: bool
    usage: dict[str, int] | None
    sent: list[float] = field(default_factory=list)


@dataclass
class Client:
    socket: socket.socket
    arrived: float = 0.0
    buffer: bytes = b""
    stream: Stream | None = None


class Server:
    def __init__(self, ttft: float, itl: float) -> None:
        self.ttft, self.itl = ttft, itl
        self.clients: dict[int, Client] = {}
        self.due: list[tuple[float, int, Client]] = []
        self.order = count()
        self.done: list[Stream] = []
        self.late: list[float] = []
        self.poll = select.epoll()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask_for_stamps(self.listener)  # a connection has what its listener has
        self.poll.register(self.listener, select.EPOLLIN)

    def serve(self) -> None:
        print(self.listener.getsockname()[1], flush=True)
        while True:
            wait = max(0.0, self.due[0][0] - clock()) if self.due else -1
            for descriptor, _ in self.poll.poll(wait):
                if descriptor == self.listener.fileno():
                    self.accept()
                else:
                    self.receive(self.clients[descriptor])
            while self.due and self.due[0][0] <= clock():
                due, _, client = heapq.heappop(self.due)
                self.step(client, due)

    def accept(self) -> None:
        while True:
            try:
                accepted, _ = self.listener.accept()
            except BlockingIOError:
                return
            accepted.setblocking(False)
            self.clients[accepted.fileno()] = Client(accepted)
            self.poll.register(accepted, select.EPOLLIN)
            self.receive(self.clients[accepted.fileno()])

    def receive(self, client: Client) -> None:
        try:
            data, stamps, _, _ = client.socket.recvmsg(1 << 20, 64)
        except BlockingIOError:
            return
        except ConnectionError:
            data, stamps = b"", []
        if not data:
            self.close(client)
            return
        client.arrived = clock() - lateness(stamps)
        client.buffer += data
        head, found, rest = client.buffer.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"content-length:")
        size = int(length.partition(b"\r")[0] or 0)
        if found and len(rest) >= size:
            client.buffer = rest[size:]
            self.answer(client, head.split(b" ", 2)[1].decode(), rest[:size])

    def close(self, client: Client) -> None:
        self.poll.unregister(client.socket)
        del self.clients[client.socket.fileno()]
        client.socket.close()
        client.stream = None

    def answer(self, client: Client, path: str, body: bytes) -> None:
        if not body:
            send_whole(client, self.truth() if path == "/truth" else listed())
            return
        asked = json.loads(body)
        tokens = asked.get("max_tokens") or asked.get("max_completion_tokens") or 16
        chat = "messages" in asked
        prompt = len(json.dumps(asked.get("prompt") or asked["messages"]).split())
        usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
        if not asked.get("stream"):
            text = " a" * tokens
            part = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            send_whole(client, event(chat, {**part, "finish_reason": "length"}, usage))
            return
        counted = (asked.get("stream_options") or {}).get("include_usage")
        client.stream = Stream(client.arrived, tokens, chat, usage if counted else None)
        client.socket.send(HEAD)
        heapq.heappush(self.due, (client.arrived + self.ttft, next(self.order), client))

    def step(self, client: Client, due: float) -> None:
        """Send the next piece of a stream."""
        stream = client.stream
        if stream is None:
            return
        data = piece(stream.chat, len(stream.sent), len(stream.sent) == stream.tokens - 1)
        now = clock()
        try:
            client.socket.send(data)
        except ConnectionError:
            client.stream = None
            return
        stream.sent.append(now)
        self.late.append(now - due)
        if len(stream.sent) < stream.tokens:
            due = stream.arrived + self.ttft + len(stream.sent) * self.itl
            heapq.heappush(self.due, (due, next(self.order), client))
            return
        last = chunk({**event(stream.chat, {}, stream.usage), "choices": []}) if stream.usage else b""
        client.socket.send(last + END)
        client.stream = None
        self.done.append(stream)

    def truth(self) -> dict[str, float]:
        """Medians in ms, since the last time. `late`: of a piece, after it was due."""
        done, late = [one for one in self.done if len(one.sent) > 1], self.late
        self.done, self.late = [], []
        gaps = [later - earlier for one in done for earlier, later in pairwise(one.sent)]
        return {
            "requests": len(done),
            "ttft_ms": 1000 * median(one.sent[0] - one.arrived for one in done) if done else 0,
            "itl_ms": 1000 * median(gaps) if gaps else 0,
            "late_ms": 1000 * median(late) if late else 0,
        }


@cache
def piece(chat: bool, number: int, last: bool) -> bytes:
    text = {"delta": {"content": f" w{number}"}} if chat else {"text": f" w{number}"}
    return chunk(event(chat, {**text, "finish_reason": "length" if last else None}))


def event(chat: bool, choice: dict[str, Any], usage: dict[str, int] | None = None) -> dict[str, Any]:
    kind = "chat.completion.chunk" if chat else "text_completion"
    found = {"id": "1", "object": kind, "created": 1, "model": MODEL, "choices": [{"index": 0, **choice}]}
    return found | ({"usage": usage} if usage else {})


def chunk(value: dict[str, Any]) -> bytes:
    data = b"data: " + json.dumps(value).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def send_whole(client: Client, value: object) -> None:
    data = json.dumps(value).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    client.socket.send(head.encode() + data)


def listed() -> dict[str, Any]:
    return {"object": "list", "data": [{"id": MODEL, "object": "model"}]}


if __name__ == "__main__":
    Server(float(sys.argv[1]), float(sys.argv[2])).serve()

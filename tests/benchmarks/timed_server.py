"""An OpenAI-compatible server of known timing, which records what it really did.

    python -m tests.benchmarks.timed_server TTFT ITL      seconds; prints its port

Every piece of text has a moment at which it is due; `GET /truth` tells the medians of what was written
when, of all requests since the last time, counted from the moment when the kernel had the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
from itertools import pairwise
from statistics import median
from typing import Any

MODEL = "tiny"
LAST_DATA_RECEIVED = 52  # bytes into Linux's struct tcp_info
WRITTEN: list[tuple[float, list[float]]] = []  # when the request was there, and when each piece was written


async def serve(ttft: float, itl: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await answer(head, reader, writer, ttft, itl)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


async def answer(
    head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ttft: float, itl: float
) -> None:
    arrived = asyncio.get_running_loop().time()
    method, path = head.split(b" ", 2)[:2]
    if method == b"GET":
        reply(writer, {"/truth": truth}.get(path.decode(), listed)())
        return
    received = arrived - waited(writer)
    if b"content-length:" not in head.lower():
        reply(writer, listed())
        return
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
    body = json.loads(await reader.readexactly(length))
    count = body.get("max_tokens") or body.get("max_completion_tokens") or 16
    chat = "messages" in body
    usage = {"prompt_tokens": len(json.dumps(body.get("prompt") or body["messages"]).split())}
    usage |= {"completion_tokens": count, "total_tokens": usage["prompt_tokens"] + count}
    if not body.get("stream"):
        text = {"message": {"role": "assistant", "content": " a" * count}} if chat else {"text": " a" * count}
        reply(writer, event(chat, {**text, "finish_reason": "length"}, usage))
        return
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    written = []
    for number in range(count):
        due = arrived + ttft + number * itl
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        text = {"delta": {"content": f" w{number}"}} if chat else {"text": f" w{number}"}
        last = number == count - 1
        chunk(writer, event(chat, {**text, "finish_reason": "length" if last else None}))
        written.append(asyncio.get_running_loop().time())
    if (body.get("stream_options") or {}).get("include_usage"):
        chunk(writer, {**event(chat, {}, usage), "choices": []})
    writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    WRITTEN.append((received, written))


def waited(writer: asyncio.StreamWriter) -> float:
    """Seconds since the kernel received the last bytes of a connection: what this program was late by."""
    info = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return float(struct.unpack_from("I", info, LAST_DATA_RECEIVED)[0]) / 1000


def event(chat: bool, choice: dict[str, Any], usage: dict[str, int] | None = None) -> dict[str, Any]:
    kind = "chat.completion.chunk" if chat else "text_completion"
    found = {"id": "1", "object": kind, "created": 1, "model": MODEL, "choices": [{"index": 0, **choice}]}
    return found | ({"usage": usage} if usage else {})


def chunk(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    data = b"data: " + json.dumps(value).encode() + b"\n\n"
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def reply(writer: asyncio.StreamWriter, value: object) -> None:
    data = json.dumps(value).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)


def listed() -> dict[str, Any]:
    return {"object": "list", "data": [{"id": MODEL, "object": "model"}]}


def truth() -> dict[str, float]:
    """Medians in ms, since the last time."""
    whole = [(arrived, written) for arrived, written in WRITTEN if len(written) > 1]
    WRITTEN.clear()
    gaps = [later - earlier for _, written in whole for earlier, later in pairwise(written)]
    return {
        "requests": len(whole),
        "ttft_ms": 1000 * median(written[0] - arrived for arrived, written in whole) if whole else 0,
        "itl_ms": 1000 * median(gaps) if gaps else 0,
    }


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), float(sys.argv[2])))

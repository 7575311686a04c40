"""An OpenAI-compatible server of known timing and known misbehaviour, in a thread or as a process.

It records when it received each completion and when it wrote each piece of text (`time.perf_counter`),
so that tests compare durations with what really happened, not with what a machine manages.

    python -m tests.verify.server PORT MODE [START]    logs like an engine, then serves
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny"
SLOW = 3.0  # seconds that the prompt "slow" takes
TELLS = {"/v1/loads?include=core": '{"loads": [{"num_running_reqs": RUNNING, "num_waiting_reqs": 0}]}'}


@dataclass
class Served:
    """One completion from the server's side."""

    body: dict[str, Any]
    authorization: str
    received: float
    written: list[float] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServer
    runs = False  # a request that counts

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        elif self.path == "/health":
            self.reply(503 if self.server.mode == "unhealthy" else 200, {})
        elif self.path in self.server.told:
            self.told(self.server.told[self.path])
        else:
            self.reply(404, {"error": {"message": f"no {self.path}"}})

    def told(self, text: str) -> None:
        """How many requests run, in an engine's words: `RUNNING` stands for their number."""
        data = text.replace("RUNNING", str(self.server.running)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.raw(data)

    def do_POST(self) -> None:
        received = time.perf_counter()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        served = Served(body, self.headers.get("Authorization", ""), received)
        with self.server.lock:
            self.server.served.append(served)
            self.server.running += 1
            self.server.most_running = max(self.server.most_running, self.server.running)
        self.runs = True
        try:
            self.server.together.wait(60)
            time.sleep(SLOW if body.get("prompt") == "slow" else self.server.ttft)
            if body["stream"]:
                self.stream(served)
            else:
                self.answer(served)
        except OSError:
            pass  # the client hung up, as it should on some of this
        finally:
            self.ended()

    def ended(self) -> None:
        """Count the request no more: before its last byte, after which its client may send the next one."""
        with self.server.lock:
            self.server.running -= self.runs
        self.runs = False

    def answer(self, served: Served) -> None:
        body, mode = served.body, self.server.mode
        if mode == "native only" and "model" in body:
            return self.reply(404, {"detail": "Not Found"})
        if "text" in body:
            return self.reply(200, native(body, body["sampling_params"]["max_new_tokens"]))
        if mode == "chat only" and self.path == "/v1/completions":
            return self.reply(404, {"detail": "Not Found"})
        if mode == "strict" and "ignore_eos" in body:
            return self.reply(422, {"error": {"message": "unknown field ignore_eos"}})
        if mode == "hanging":
            time.sleep(3600)
        if mode == "status 500":
            return self.reply(500, {"error": {"message": "the engine is\nnot well"}})
        if mode == "unauthorized":
            key = self.headers.get("Authorization")
            return self.reply(401, {"error": {"message": f"wrong key {key}, hf_{'x' * 20}"}})
        if mode == "second fails" and len(self.server.served) > 1:
            return self.reply(500, {"error": {"message": "EngineDeadError"}})
        words = len((body.get("prompt") or body["messages"][0]["content"]).split())
        if mode == "short context" and words > 250:
            return self.reply(400, {"error": {"message": f"{words} tokens are too many"}})
        if mode == "long fails" and words > 250:
            return self.reply(500, {"error": {"message": "index out of range"}})
        text = " a" * body["max_tokens"]
        if mode == "moody":
            text = f" {len(self.server.served)}" + text[2:]
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        choice |= {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text}}
        if body.get("logprobs") and mode == "no probabilities":
            return self.reply(500, {"error": {"message": "no compiler"}})
        if body.get("logprobs"):
            numbers = [-0.5, float("nan") if mode == "NaN" else -1.5]
            content = [{"token": "a", "logprob": number} for number in numbers]
            choice["logprobs"] = {"token_logprobs": numbers} if "prompt" in body else {"content": content}
        if mode == "no finish_reason":
            del choice["finish_reason"]
        if mode == "no text":
            choice |= {"text": ""}
        return self.reply(
            200, {"model": MODEL, "choices": [choice], "usage": usage(body, body["max_tokens"])}
        )

    def stream(self, served: Served) -> None:
        mode, body = self.server.mode, served.body
        count = body["max_tokens"] if "model" in body else body["sampling_params"]["max_new_tokens"]
        if mode == "one request without usage" and len(self.server.served) > 1:
            mode = "ok"
        refused = {"strict": "ignore_eos" in body, "chat only": "prompt" in body, "status 500": True}
        if refused.get(mode):
            return self.answer(served)
        if mode == "not HTTP":
            return self.raw(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        if mode == "endless headers":
            while True:
                self.raw(b"X-Filler: " + b"x" * 4096 + b"\r\n")
        if mode == "bad length":
            return self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: -7\r\n\r\n{}")
        if mode == "plain JSON":
            return self.answer(served)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        if mode == "until close":
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if mode == "10 MB line":
            return self.piece(b"data: " + b"x" * 10_000_000)
        if mode == "endless line":
            while True:
                self.piece(b"x" * 65536)
        if mode == "endless":
            count = 10**9
        if mode == "slow loris":
            while True:
                self.piece(b"d")
                time.sleep(0.02)
        if mode == "bad chunk":
            return self.raw(b"zz\r\ndata: {}\r\n")
        if mode == "garbage":
            return self.piece(b"data: {]\n\ndata: \xff\xfe\n\n", last=True)
        if mode == "hostile JSON":
            deep = b"[" * 100_000
            return self.piece(
                b"data: " + deep + b'\n\ndata: {"usage": {"completion_tokens": 1e9}}\n\n', last=True
            )
        if mode == "wrong types":
            for event in ({"choices": {}}, {"choices": [[]]}, {"choices": [{"delta": 7}]}, {"usage": [1]}):
                self.event(event)
            return self.piece(b"data: [DONE]\n\n", last=True)
        if mode == "native error":  # as SGLang refuses at /generate
            self.event({"error": {"message": "The input is too long."}})
            return self.piece(b"data: [DONE]\n\n", last=True)
        if "text" in body:
            for number in range(1, count + 1):
                served.written.append(time.perf_counter())
                self.event(native(body, number))
            return self.piece(b"data: [DONE]\n\n", last=True)
        if mode == "keep-alive comments":
            self.piece(b": ping\n\nevent: message\n\n")
        chat = "messages" in body
        if chat:  # an empty role chunk comes first, as engines send it
            self.event({"model": MODEL, "choices": [{"delta": {"role": "assistant", "content": ""}}]})
        if mode == "short":
            count //= 2
        for number in range(count):
            if mode == "dropped" and number == 3:
                self.connection.shutdown(socket.SHUT_RDWR)
                return None
            if mode == "error in stream" and number == 5:
                self.event({"error": {"message": "EngineCore encountered an issue.", "code": 500}})
                break
            if mode == "stalls" and number == 3:
                time.sleep(3600)
            if number and mode != "burst":
                time.sleep(self.server.itl)
            self.token(served, f" {number}", chat)
        else:
            self.finish(body, count, chat, mode)
        return self.piece(b"data: [DONE]\n\n", last=True)

    def token(self, served: Served, text: str, chat: bool) -> None:
        served.written.append(time.perf_counter())
        part = {"delta": {"reasoning_content": text}} if chat else {"text": text}
        self.event({"model": MODEL, "choices": [{"index": 0, "finish_reason": None, **part}]})

    def finish(self, body: dict[str, Any], count: int, chat: bool, mode: str) -> None:
        reason = {"no finish_reason": None, "aborted": "abort"}.get(mode, "length")
        part: dict[str, Any] = {"delta": {}} if chat else {"text": ""}
        self.event({"model": MODEL, "choices": [{"index": 0, "finish_reason": reason, **part}]})
        if mode not in ("no usage", "one request without usage"):
            self.event({"model": MODEL, "choices": [], "usage": usage(body, count)})

    def event(self, value: dict[str, Any]) -> None:
        self.piece(b"data: " + json.dumps(value).encode() + b"\n\n")

    def piece(self, data: bytes, last: bool = False) -> None:
        if last:
            self.ended()
        if self.close_connection and self.server.mode == "until close":
            self.raw(data)
        else:
            self.raw(b"%x\r\n%b\r\n" % (len(data), data) + (b"0\r\n\r\n" if last else b""))

    def raw(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def reply(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value, indent=1).encode()
        self.ended()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.raw(data)

    def log_message(self, *arguments: Any) -> None:
        pass


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    """`together`: that many requests wait for each other, which proves that they run at once."""

    def __init__(
        self, mode: str = "ok", ttft: float = 0.01, itl: float = 0.002, port: int = 0, together: int = 1
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.together = threading.Barrier(together)
        self.mode, self.ttft, self.itl = mode, ttft, itl
        self.lock = threading.Lock()
        self.served: list[Served] = []
        self.running = self.most_running = 0
        self.told: dict[str, str] = {}  # path -> answer
        self.port = self.server_address[1]

    def __enter__(self) -> FakeServer:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def native(body: dict[str, Any], number: int) -> dict[str, Any]:
    """What SGLang's own interface says after so many tokens: all of the text, every time."""
    done = number == body["sampling_params"]["max_new_tokens"]
    meta = {"finish_reason": {"type": "length", "length": number} if done else None}
    meta |= {"prompt_tokens": len(body["text"].split()), "completion_tokens": number}
    if body.get("return_logprob"):
        meta |= {"output_token_logprobs": [[-0.5, 7, None]] * number}
    return {"text": " a" * number, "output_ids": [7] * number, "meta_info": meta}


def usage(body: dict[str, Any], count: int) -> dict[str, int]:
    text = body.get("prompt") or body["messages"][0]["content"]
    return {"prompt_tokens": len(text.split()), "completion_tokens": count}


SGLANG_START = (
    "[2026-05-12 14:02:41] server_args=ServerArgs(model_path='/srv/models/tiny', api_key='not-to-be-seen')",
    "[2026-05-12 14:02:45 PP0] Load weight begin. avail mem=19.54 GB",
    "[2026-05-12 14:02:45 PP1] Load weight begin. avail mem=19.54 GB",
    "shards: 100% Completed | 1/1 [00:00<00:00, 391.48it/s][2026-05-12 14:02:46 PP0] Load weight end. done",
    "[2026-05-12 14:02:47 PP1] Load weight end. elapsed=2 s, type=LlamaForCausalLM",
    "[2026-05-12 14:02:47 PP0] KV Cache is allocated. #tokens: 8192, K size: 0.00 GB",
    "[2026-05-12 14:02:47 PP0] Memory pool end. avail mem=19.44 GB",
)
SGLANG_UP = "[2026-05-12 14:02:48] INFO:     Application startup complete."
SGLANG_READY = "[2026-05-12 14:02:49] The server is fired up and ready to roll!"


def main(port: int, mode: str, start: str) -> None:
    """A stand-in engine. `start`: ready, dies, hangs, early (serves before it is ready), silent (no log)."""
    for line in () if start == "silent" else SGLANG_START:
        print(line, flush=True)
    if start == "dies":
        print("IndexError: list index out of range", flush=True)
        sys.exit(1)
    if start == "hangs":
        time.sleep(3600)
    with FakeServer(mode, port=port) as server:
        server.told = TELLS
        if start == "ready":
            print(SGLANG_UP, SGLANG_READY, sep="\n", flush=True)
        elif start == "early":
            print(SGLANG_UP, flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "ready")

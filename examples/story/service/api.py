"""The endpoints: SGLang's own few, and the completions of the OpenAI interface."""

from __future__ import annotations

import itertools
import json
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import words
from .link import Link, Request

JSON = dict[str, Any]


class BadRequest(Exception):
    """The client's request cannot be served."""


@dataclass
class Service:
    """What the endpoints know about the service."""

    link: Link
    model: str
    model_path: str
    context_length: int
    information: JSON
    starting: bool = True
    stopping: bool = False
    numbers: Iterator[int] = field(default_factory=itertools.count)


@dataclass(frozen=True)
class Piece:
    """A part of an answer's text; `finish` and `stop` come with the last one."""

    text: str
    tokens: int  # of the answer so far
    finish: str | None = None
    stop: str | int | None = None  # what ended the answer


class Server(ThreadingHTTPServer):
    """One thread a connection."""

    daemon_threads = True
    request_queue_size = 64


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, service: Service, *args: Any) -> None:
        self.service = service
        super().__init__(*args)

    def version_string(self) -> str:
        """What the Server header says."""
        return "uvicorn"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Uvicorn's line."""
        status = HTTPStatus(code)
        request = f"{self.command} {self.path} {self.request_version}"
        uvicorn(
            f'{self.client_address[0]}:{self.client_address[1]} - "{request}" {status.value} {status.phrase}',
            sys.stdout,
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Uvicorn says nothing else."""

    def do_GET(self) -> None:
        """Health, models, information."""
        service = self.service
        path = self.path.partition("?")[0]
        if path in ("/health", "/health_generate"):
            self._health()
        elif path == "/v1/models":
            card = {"id": service.model, "object": "model", "created": int(time.time()), "owned_by": "sglang"}
            card |= {"root": service.model, "parent": None, "max_model_len": service.context_length}
            self._answer({"object": "list", "data": [card]})
        elif path in ("/get_server_info", "/server_info"):
            self._answer(service.information | {"internal_states": [{"served": service.model}]})
        elif path in ("/get_model_info", "/model_info"):
            self._answer({"model_path": service.model_path, "is_generation": True})
        else:
            self._answer({"detail": "Not Found"}, HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Completions."""
        kinds = {
            "/v1/completions": Completion,
            "/v1/chat/completions": ChatCompletion,
            "/generate": Generation,
        }
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = kinds.get(self.path.partition("?")[0])
        if kind is None:
            return self._answer({"detail": "Not Found"}, HTTPStatus.NOT_FOUND)
        try:
            answer = kind(self.service, body)
        except BadRequest as error:
            refusal = {"object": "error", "message": str(error), "type": "BadRequestError"}
            return self._answer(refusal | {"param": None, "code": 400}, HTTPStatus.BAD_REQUEST)
        try:
            if answer.streams:
                self._stream(answer.chunks())
            else:
                self._answer(answer.whole())
        except ConnectionError:
            self.close_connection = True
        finally:
            self.service.link.drop(answer.request.number)

    def _health(self) -> None:
        if self.service.starting or self.service.stopping:
            self._answer(None, HTTPStatus.SERVICE_UNAVAILABLE)
            return
        request = Request(next(self.service.numbers), [words.END], 1, 0.0, 0, False)
        self.service.link.submit(request).get()
        time.sleep(1)  # SGLang looks once a second
        self._answer(None)

    def _answer(self, content: JSON | None, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = b"" if content is None else json.dumps(content, default=str).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if content is not None:
            self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, chunks: Iterator[JSON]) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for data in itertools.chain(map(json.dumps, chunks), ["[DONE]"]):
            event = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")


class Completion:
    """A request to /v1/completions and its answer."""

    prefix = "cmpl"
    object = chunk_object = "text_completion"

    def __init__(self, service: Service, body: bytes) -> None:
        """Read and begin; raises BadRequest."""
        try:
            asked = json.loads(body)
        except ValueError as error:
            raise BadRequest(f"the body is not JSON: {error}") from None
        if not isinstance(asked, dict):
            raise BadRequest("the body is not an object")
        self.service = service
        self.asked: JSON = asked
        options = asked.get("stream_options") or {}
        self.streams = bool(asked.get("stream"))
        self.with_usage = bool(options.get("include_usage"))
        stops = asked.get("stop") or []
        self.stops: list[str] = [stops] if isinstance(stops, str) else list(stops)
        if asked.get("n") not in (None, 1):
            raise BadRequest("only n=1 is supported")
        self.request = self._request(self._tokens())
        self.head = {
            "id": f"{self.prefix}-{secrets.token_hex(16)}",
            "created": int(time.time()),
            "model": asked.get("model") or service.model,
        }
        self.answer = service.link.submit(self.request)

    def whole(self) -> JSON:
        """The answer in one."""
        pieces = list(self._pieces())
        text, last = "".join(piece.text for piece in pieces), pieces[-1]
        choice = self._choice(text) | self._end(last)
        return self.head | {"object": self.object, "choices": [choice], "usage": self._usage(last)}

    def chunks(self) -> Iterator[JSON]:
        """The answer as it comes."""
        head = self.head | {"object": self.chunk_object}
        for piece in self._pieces():
            choice = self._chunk_choice(piece.text) | self._end(piece)
            yield head | {"choices": [choice], "usage": None}
        if self.with_usage:
            yield head | {"choices": [], "usage": self._usage(piece)}

    def _request(self, tokens: list[int]) -> Request:
        limit = self.service.link.span
        if len(tokens) >= limit:
            raise BadRequest(
                f"The input ({len(tokens)} tokens) is longer than the model's "
                f"context length ({limit} tokens)."
            )
        wanted = self._number("max_completion_tokens") or self._number("max_tokens")
        most = int(wanted or self._most_by_default(limit - len(tokens)))
        if len(tokens) + most > limit:
            raise BadRequest(
                f"Requested token count exceeds the model's maximum context length of {limit} tokens. "
                f"You requested a total of {len(tokens) + most} tokens: {len(tokens)} tokens from the input "
                f"messages and {most} tokens for the completion. Please reduce the number of tokens in the "
                "input messages or the completion to fit within the limit."
            )
        temperature = self._number("temperature")
        return Request(
            number=next(self.service.numbers),
            tokens=tokens,
            max_new=most,
            temperature=1.0 if temperature is None else temperature,
            seed=int(self._number("seed") or 0),
            ignore_end=bool(self._parameters().get("ignore_eos")),
        )

    def _parameters(self) -> JSON:
        return self.asked

    def _number(self, key: str) -> float | None:
        value = self._parameters().get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise BadRequest(f"{key} must be a number of at least 0")
        return value

    def _most_by_default(self, room: int) -> int:
        return min(16, room)

    def _tokens(self) -> list[int]:
        return _prompt_tokens(self.asked.get("prompt"), "prompt")

    def _choice(self, text: str) -> JSON:
        return {"index": 0, "text": text, "logprobs": None}

    _chunk_choice = _choice

    @staticmethod
    def _end(piece: Piece) -> JSON:
        return {"finish_reason": piece.finish, "matched_stop": piece.stop}

    def _usage(self, last: Piece) -> JSON:
        prompt = len(self.request.tokens)
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + last.tokens,
            "completion_tokens": last.tokens,
            "prompt_tokens_details": None,
            "reasoning_tokens": 0,
        }

    def _pieces(self) -> Iterator[Piece]:
        """At least one, the last one with a finish."""
        text = ""
        for count in itertools.count(1):
            token = self.answer.get()
            part = words.decode(token.token)
            text += part
            for stop in self.stops:
                if stop in text[-len(stop) - len(part) :]:
                    kept = text[: text.index(stop)]
                    yield Piece(kept[len(text) - len(part) :], count, "stop", stop)
                    return
            matched = words.END if token.finish == "stop" else None
            yield Piece(part, count, token.finish, matched)
            if token.finish:
                return


class ChatCompletion(Completion):
    """A request to /v1/chat/completions and its answer."""

    prefix = "chatcmpl"
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def _most_by_default(self, room: int) -> int:
        return room

    def _tokens(self) -> list[int]:
        messages = self.asked.get("messages")
        if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
            raise BadRequest("messages must be a list of objects")
        lines = [f"{one.get('role')}: {_content(one.get('content'))}" for one in messages]
        return words.encode("\n".join([*lines, "assistant:"]))

    def _choice(self, text: str) -> JSON:
        message = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
        return {"index": 0, "message": message, "logprobs": None}

    def _chunk_choice(self, text: str) -> JSON:
        delta = {"role": None, "content": text, "reasoning_content": None, "tool_calls": None}
        return {"index": 0, "delta": delta, "logprobs": None}

    def chunks(self) -> Iterator[JSON]:
        """The role first, then the answer as it comes."""
        first = self._chunk_choice("") | {"finish_reason": None, "matched_stop": None}
        first["delta"]["role"] = "assistant"
        yield self.head | {"object": self.chunk_object, "choices": [first], "usage": None}
        yield from super().chunks()


class Generation(Completion):
    """A request to /generate, SGLang's own interface, and its answer."""

    def _parameters(self) -> JSON:
        parameters = self.asked.get("sampling_params") or {}
        if not isinstance(parameters, dict):
            raise BadRequest("sampling_params must be an object")
        return parameters | {"max_tokens": parameters.get("max_new_tokens")}

    def _most_by_default(self, room: int) -> int:
        return min(128, room)

    def _tokens(self) -> list[int]:
        return _prompt_tokens(self.asked.get("input_ids") or self.asked.get("text"), "text")

    def whole(self) -> JSON:
        """The answer in one."""
        *_, last = self.chunks()
        return last

    def chunks(self) -> Iterator[JSON]:
        """The whole text so far, again and again."""
        text = ""
        for piece in self._pieces():
            text += piece.text
            finish = {"type": piece.finish, "matched": piece.stop} if piece.finish else None
            about = {"id": self.head["id"], "finish_reason": finish}
            counts = {"prompt_tokens": len(self.request.tokens), "completion_tokens": piece.tokens}
            yield {"text": text, "meta_info": about | counts}


def _prompt_tokens(prompt: Any, name: str) -> list[int]:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        (prompt,) = prompt
    if isinstance(prompt, str):
        return words.encode(prompt)
    if isinstance(prompt, list) and prompt and all(type(one) is int and one >= 0 for one in prompt):
        return [one % words.SIZE for one in prompt]
    raise BadRequest(f"{name} must be one text or one list of token ids")


def _content(content: Any) -> str:
    if isinstance(content, list):  # parts, of which only text is read
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


_writing = threading.Lock()


def uvicorn(message: str, to: Any = None, level: str = "INFO") -> None:
    """A line in uvicorn's format under SGLang."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    with _writing:
        print(f"[{now}] {level + ':':<9} {message}", file=to or sys.stderr, flush=True)

"""What stands in the place of `sglang.srt.entrypoints.http_server`: bring the stages up, then serve.

The stages are launched and watched by SGLang's `Engine`. Here are the order of readiness, the warm-up
and the two signals, as SGLang has them.
"""

from __future__ import annotations

import functools
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import urllib.request
from types import SimpleNamespace
from typing import Any

import setproctitle
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.entrypoints import engine
from sglang.srt.utils import kill_itself_when_parent_died, kill_process_tree

from . import api, stage
from .absent import Absent
from .link import Link

logger = logging.getLogger(__name__)


def launch_server(server_args: Any) -> None:
    """Serve until the process is ended."""
    if server_args.tp_size * server_args.dp_size * server_args.nnodes != 1:
        sys.exit("story: only --pp-size spreads the model here; --tp-size, --dp-size and --nnodes must be 1")
    # The stages inherit what is imported; SGLang itself spawns them anew.
    fork = multiprocessing.get_context("fork")
    engine.mp = SimpleNamespace(Process=fork.Process, Pipe=fork.Pipe, set_start_method=lambda *_, **__: None)
    link = Link()
    _, _, _, launched, watchdog, *_ = engine.Engine._launch_subprocesses(
        server_args=server_args,
        init_tokenizer_manager_func=lambda *_: (Absent("tokenizer_manager"), None),
        run_scheduler_process_func=functools.partial(stage.run, link.stage),
        run_detokenizer_process_func=_detokenize,
    )
    link.open()
    service = api.Service(
        link=link,
        model=server_args.served_model_name,
        model_path=server_args.model_path,
        context_length=ModelConfig.from_server_args(server_args).context_len,
        information=vars(server_args) | launched.scheduler_infos[0] | {"version": engine.__version__},
    )
    signal.signal(signal.SIGQUIT, functools.partial(_on_quit, watchdog))
    signal.signal(signal.SIGTERM, functools.partial(_on_term, service))
    _serve(service, server_args.host, server_args.port)


def _detokenize(*_: Any) -> None:
    """A process in the place of SGLang's; the text of a token needs no work here."""
    setproctitle.setproctitle("sglang::detokenizer")
    kill_itself_when_parent_died()
    while True:
        signal.pause()


def _serve(service: api.Service, host: str, port: int) -> None:
    api.uvicorn(f"Started server process [{os.getpid()}]")
    api.uvicorn("Waiting for application startup.")
    api.uvicorn("Application startup complete.")
    try:
        server = api.Server((host, port), functools.partial(api.Handler, service))
    except OSError as error:
        happened = os.strerror(error.errno or 0).lower()
        api.uvicorn(
            f"[Errno {error.errno}] error while attempting to bind on address ('{host}', {port}): {happened}",
            level="ERROR",
        )
        sys.exit(1)
    api.uvicorn(f"Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
    threading.Thread(target=_warm_up, args=(service, f"http://{host}:{port}"), daemon=True).start()
    server.serve_forever()


def _warm_up(service: api.Service, url: str) -> None:
    """Two requests to ourselves; the service is up when both are answered."""
    time.sleep(1)
    body = {
        "text": "The capital city of France is",
        "sampling_params": {"temperature": 0, "max_new_tokens": 8},
    }
    for request in (
        f"{url}/model_info",
        urllib.request.Request(f"{url}/generate", json.dumps(body).encode()),
    ):
        with urllib.request.urlopen(request, timeout=600) as answer:
            answer.read()
    service.starting = False
    logger.info("The server is fired up and ready to roll!")


def _on_quit(watchdog: Any, signum: int, frame: Any) -> None:
    logger.error(f"SIGQUIT received. {signum=}, {frame=}. It usually means one child failed.")
    watchdog.stop()
    kill_process_tree(os.getpid())


def _on_term(service: api.Service, signum: int, frame: Any) -> None:
    logger.warning("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    service.stopping = True
    threading.Thread(target=_drain, args=(service,), daemon=True).start()


def _drain(service: api.Service) -> None:
    while True:
        remaining = service.link.running
        logger.info(
            f"Gracefully exiting... Remaining number of requests {len(remaining)}. "
            f"Remaining requests remaining_rids={remaining}."
        )
        if not remaining:
            break
        time.sleep(1)
    # SGLang ends itself like this too, so that a clean stop looks like a kill from outside.
    kill_process_tree(os.getpid())

"""Stands in for sglang.launch_server: eight stages that each make the backend, then an HTTP server.

Runs under every Python from 3.9 on, alone with the modules of `tests.patching.trees`.
"""

import argparse
import os
import signal
import sys
import time
import traceback
from types import SimpleNamespace

LAYERS = 61


def say(text: str, stage: "int | None" = None) -> None:
    tag = "" if stage is None else f" PP{stage}"
    print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{tag}] {text}", flush=True)


def stage(number: int, stages: int) -> int:
    from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
    from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool

    size, more = divmod(LAYERS, stages)
    start = number * size + min(number, more)
    pool = MLATokenToKVPool(start)
    pool.kv_buffer = [SimpleNamespace(shape=(1, 512))] * (size + (number < more))
    say(f"Memory pool end. avail mem={40 + number}.00 GB", number)
    try:
        TritonAttnBackend(SimpleNamespace(is_hybrid=False, token_to_kv_pool=pool))
    except Exception:
        say(f"Scheduler hit an exception: {traceback.format_exc()}", number)
        return 1
    return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path")
    parser.add_argument("--attention-backend")
    parser.add_argument("--pp-size", type=int)
    parser.add_argument("--port", type=int)
    given = parser.parse_args()
    say(f"server_args=ServerArgs(model_path='{given.model_path}', pp_size={given.pp_size}, " + "x" * 5000)
    sys.stderr.buffer.write(b"bad \xff \x1b[31mred\x1b[0m\r\n")
    sys.stderr.flush()
    for line in range(int(os.environ["SGLANG_CALM"])):
        print(f"Loading weights: part {line}", flush=True)
    children = []
    for number in range(given.pp_size):
        pid = os.fork()
        if pid == 0:
            os._exit(stage(number, given.pp_size))
        children.append(pid)
    ended = [os.waitpid(pid, 0)[1] for pid in children]
    if any(ended):
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    sys.path.insert(0, "/opt")
    from server import main as serve

    serve(given.port, "ok", "ready")


if __name__ == "__main__":
    main()

"""Times collectives between processes of this host: NCCL where there are GPUs for all, else gloo.

One file, Python 3.9 or newer, sent to the host and run by the service's own interpreter, which has torch:
it is given one JSON object, and answers with one on standard output. Nothing is written outside a temporary
directory, and every process ends by itself when the time is up.

    {"world": 8, "sizes": [14336, 67108864], "pair_sizes": [14336, 16777216], "rounds": 20, "deadline": 120}
        -> {"backend": "nccl", "torch": "2.9.1", "devices": ["NVIDIA H200", ...],
            "timings": [{"op": "all_reduce", "bytes": 14336, "us": 21.5}, ...],
            "pairs": [{"a": 0, "b": 1, "bytes": 14336, "us": 9.8}, ...],
            "peers": [[true, ...], ...], "missing": {"all_to_all": "why"}}

`us` is the median over the rounds, of rank 0; of a pair it is half of there and back. In a round small
messages follow each other without waiting for the host in between, as they do between an engine's kernels.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Json = dict[str, Any]

WARM = 3
ROW = 10  # messages in a row, where they are small
FEW = 5  # rounds, where they are not
SMALL = 1 << 20  # bytes
ALL_PAIRS = 16  # ranks; of more only neighbours are timed, for their number grows with the square
OPS = ("all_reduce", "all_to_all")


def worker(rank: int, job: Json, place: str) -> None:
    """One rank: times everything, and leaves what it found in a file of its own."""
    torch = importlib.import_module("torch")
    dist = importlib.import_module("torch.distributed")
    world = job["world"]
    cuda = torch.cuda.is_available() and torch.cuda.device_count() >= world
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method="file://" + place + "/rendezvous",
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=job["deadline"]),
    )

    def finish() -> None:
        if cuda:
            torch.cuda.synchronize()

    def timed(action: Callable[[], Any], size: int) -> float:
        """Median microseconds of an action that all who are concerned take at the same time."""
        row, rounds = (ROW, job["rounds"]) if size <= SMALL else (1, FEW)
        for _ in range(WARM):
            action()
        finish()
        taken = []
        for _ in range(rounds):
            begin = time.perf_counter()
            for _ in range(row):
                action()
            finish()
            taken.append(1e6 * (time.perf_counter() - begin) / row)
        return statistics.median(taken)

    found: Json = {"timings": [], "pairs": [], "missing": {}}
    for size in job["sizes"]:
        count = max(world, size // 4 // world * world)  # as many for each rank
        data = torch.zeros(count, dtype=torch.float32, device=device)  # whose sums stay numbers
        into = torch.empty_like(data)
        actions = {
            "all_reduce": functools.partial(dist.all_reduce, data),
            "all_to_all": functools.partial(dist.all_to_all_single, into, data),
        }
        for op in OPS:
            dist.barrier()
            try:
                microseconds = timed(actions[op], size)
            except (RuntimeError, NotImplementedError, ValueError) as error:
                found["missing"][op] = first_line(error)
                continue
            found["timings"].append({"op": op, "bytes": size, "us": microseconds})

    def ping(first: int, second: int, message: Any) -> None:
        if rank == first:
            dist.send(message, second)
            dist.recv(message, second)
        else:
            dist.recv(message, first)
            dist.send(message, first)

    for size in job["pair_sizes"]:
        message = torch.zeros(max(1, size // 4), dtype=torch.float32, device=device)
        for first in range(world):
            for second in range(first + 1, world if world <= ALL_PAIRS else min(first + 2, world)):
                dist.barrier()
                if rank in (first, second):
                    half = timed(functools.partial(ping, first, second, message), size) / 2
                    if rank == first:
                        found["pairs"].append({"a": first, "b": second, "bytes": size, "us": half})
    found["device"] = torch.cuda.get_device_name(device) if cuda else "CPU"
    found["torch"] = torch.__version__
    found["backend"] = "nccl" if cuda else "gloo"
    found["peers"] = [
        bool(other == rank or torch.cuda.can_device_access_peer(rank, other)) for other in range(world)
    ] if cuda else []  # fmt: skip
    with open(os.path.join(place, f"rank{rank}"), "w") as file:
        json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()


def main(job: Json) -> None:
    """Do one job, and answer it on standard output."""
    print(json.dumps(timed(job)))


def timed(job: Json) -> Json:
    with tempfile.TemporaryDirectory(prefix="triage-links-") as place:
        children = {child(rank, job, place): rank for rank in range(job["world"])}
        failed = wait_for(children, job["deadline"])
        if failed is not None:
            return {"refused": f"rank {failed} did not finish: {last_words(place, failed)}"}
        found = []
        for rank in range(job["world"]):
            with open(os.path.join(place, f"rank{rank}")) as file:
                found.append(json.load(file))
    first = found[0]
    return {
        "backend": first["backend"],
        "torch": first["torch"],
        "devices": [one["device"] for one in found],
        "timings": first["timings"],
        "pairs": [pair for one in found for pair in one["pairs"]],
        "peers": [one["peers"] for one in found if one["peers"]],
        "missing": first["missing"],
    }


def child(rank: int, job: Json, place: str) -> int:
    """Fork before torch is imported, which is not to be forked once it has GPUs."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(int(job["deadline"]) + 5)  # ends it, whoever has forgotten it
    errors = os.open(os.path.join(place, f"error{rank}"), os.O_WRONLY | os.O_CREAT, 0o600)
    for descriptor in (1, 2):
        os.dup2(errors, descriptor)
    try:
        worker(rank, job, place)
        os._exit(0)
    except BaseException as error:
        os.write(errors, f"{type(error).__name__}: {first_line(error)}\n".encode())
        os._exit(1)


def first_line(error: BaseException) -> str:
    return str(error).split("\n")[0][:300]


def wait_for(children: dict[int, int], seconds: float) -> int | None:
    """The rank that failed first, or that was not done in time; then the others are ended. None: all did."""
    end = time.monotonic() + seconds
    left = dict(children)
    failed = None
    while left and failed is None:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            rank = left.pop(pid)
            failed = rank if status else None
        elif time.monotonic() >= end:
            failed = min(left.values())
        else:
            time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    for pid in left:
        os.waitpid(pid, 0)
    return failed


def last_words(place: str, rank: int) -> str:
    """The last line of what a rank said that did not finish."""
    with open(os.path.join(place, f"error{rank}"), "a+", errors="replace") as file:
        file.seek(0)
        return file.read().strip().split("\n")[-1][:300] or "its time was up"


if __name__ == "__main__":
    main(json.load(sys.stdin))

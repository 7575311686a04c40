"""Which pids of a journal stand for several processes: a container's client, a shell, a launcher.

systemd keeps the pid of whoever wrote to the pipe. Where `docker run` or `mpirun` hands on what all ranks
say, that is one pid for all of them, and names nobody.

    gpu01 docker[990]: [2026-11-29 14:33:40] server_args=ServerArgs(...)     the main process
    gpu01 docker[990]: [2026-11-29 14:33:50 TP1] Load weight begin.          a rank
"""

from __future__ import annotations

from dataclasses import dataclass

from triage.logs.reading.line import NO_RANKS, Line

FORWARDERS = (
    "docker",
    "dockerd",
    "docker-compose",
    "podman",
    "conmon",
    "nerdctl",
    "containerd",
    "mpirun",
    "srun",
)
MAX_WRITERS = 65_536
_Key = tuple[str, str, int]


@dataclass
class _Claims:
    """What the lines of a pid said of their writer."""

    ranks: frozenset[str] = NO_RANKS
    tag: int | None = None
    unranked: bool = False


class Writers:
    def __init__(self) -> None:
        self._claims: dict[_Key, _Claims] = {}
        self._shared: set[_Key] = set()

    def sign(self, line: Line) -> None:
        """Take the pid away from a line where it is not that of its writer."""
        if line.pid is None:
            return
        key = (line.boot, line.host, line.pid)
        claims = line.ranks or line.tag_pid is not None or line.unranked
        if key not in self._shared and (
            line.identifier in FORWARDERS or (claims and self._contradicts(key, line))
        ):
            self._claims.pop(key, None)
            if len(self._shared) < MAX_WRITERS:
                self._shared.add(key)
        if key in self._shared:
            line.pid = None

    def _contradicts(self, key: _Key, line: Line) -> bool:
        known = self._claims.get(key)
        if known is None:
            if len(self._claims) >= MAX_WRITERS:
                return False
            known = self._claims[key] = _Claims()
        ranks, tag = line.ranks, line.tag_pid
        known.unranked = known.unranked or line.unranked
        if known.unranked and (ranks or known.ranks):
            return True
        if ranks and known.ranks and not (ranks <= known.ranks or known.ranks <= ranks):
            return _only_numbered(ranks) == _only_numbered(known.ranks)  # else it may be the same rank
        if tag is not None and known.tag is not None and tag != known.tag:
            return True
        known.ranks, known.tag = max(known.ranks, ranks, key=len), tag if tag is not None else known.tag
        return False


def _only_numbered(ranks: frozenset[str]) -> bool:
    return all(label.startswith("rank") for label in ranks)

"""Commands in a container, and what the interpreter in one would import; its answer is as in `python`.

$ docker exec --interactive 74d579caf1f1... /opt/venv/bin/python -B -      (a script on standard input)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from triage.evidence.catalogue.containers import Tool
from triage.evidence.catalogue.python import Interpreter, PythonTree
from triage.evidence.model import MEBI, Query


def inside(tool: Tool, id: str, stdin: bool = False) -> tuple[str, ...]:
    """What a command begins with that runs in a container; with `stdin`, it is given our standard input."""
    if tool != "kubectl":
        return (tool, "exec", *(("--interactive",) if stdin else ()), id)
    namespace, pod, container = id.split("/")
    where = ("--namespace", namespace, pod, "--container", container, "--")
    return ("kubectl", "exec", *(("--stdin",) if stdin else ()), *where)


@dataclass(frozen=True)
class TreeInside(Query[Interpreter]):
    """Asks where `python` finds packages in a running container, with the environment that it has there."""

    name: ClassVar[str] = "container-tree"
    purpose: ClassVar[str] = "find the source tree that serves in a container, and its versions"
    absence: ClassVar[str] = (
        "the tree and versions are those that the traceback and the log name, and a disagreement says so"
    )
    privilege: ClassVar[str] = (
        "membership in group docker, or root; for kubectl a user who may create pods/exec"
    )
    limit: ClassVar[int] = MEBI

    tool: Tool
    id: str
    python: str
    first: str = ""  # at the front of sys.path

    def argv(self) -> tuple[str, ...]:
        return (*inside(self.tool, self.id, stdin=True), self.python, "-B", "-")

    def stdin(self) -> bytes:
        return self._tree.stdin()

    def parse(self, text: str) -> Interpreter:
        return self._tree.parse(text)

    @property
    def _tree(self) -> PythonTree:
        return PythonTree(self.python, first=self.first)

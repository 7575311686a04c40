"""The installed source of the tree that serves, read through evidence."""

from __future__ import annotations

from triage.evidence.catalogue.containers import Tool
from triage.evidence.discovery.containers import file_in
from triage.evidence.model import Evidence, Unanswered
from triage.patching.model import SourceFile

# In the words of cat, docker (20 and newer) and podman.
ABSENT = (
    *("No such file or directory", "No such container:path", "Could not find the file"),
    "could not be found",
)


def places(root: str, module: str) -> tuple[str, ...]:
    """The files below a package's directory that can be a module; none for what is no module of it."""
    package, *parts = module.split(".")
    if package != root.rpartition("/")[2] or not all(part.isidentifier() for part in parts):
        return ()
    stem = "/".join((root, *parts))
    return (f"{stem}.py", f"{stem}/__init__.py") if parts else (f"{stem}/__init__.py",)


class EvidenceTree:
    """Modules below one package's directory, e.g. `.../site-packages/sglang`. A SourceTree."""

    def __init__(
        self, evidence: Evidence, package_root: str, container: tuple[Tool, str] | None = None
    ) -> None:
        self._evidence = evidence
        self._root = package_root.rstrip("/")
        self._container = container

    def read(self, module: str) -> SourceFile | None:
        if not self._root:
            raise Unanswered("the directory of the engine's package is not known")
        for path in places(self._root, module):
            answer = self._evidence.ask(file_in(self._container, path))
            if answer.value is not None:
                if answer.partial:
                    raise Unanswered(f"{path} was read only in part")
                return SourceFile(module, path, answer.value.encode("utf-8", "surrogateescape"))
            if not any(words in answer.missing for words in ABSENT):
                raise Unanswered(f"{path}: {answer.missing}")
        return None

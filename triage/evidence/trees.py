"""The installed source of the tree that serves, read through evidence."""

from __future__ import annotations

from triage.evidence.model import Evidence, Unanswered
from triage.evidence.queries import ReadFile
from triage.patching.model import SourceFile

ABSENT = "No such file or directory"


class EvidenceTree:
    """Modules below one package's directory, e.g. `.../site-packages/sglang`. A SourceTree."""

    def __init__(self, evidence: Evidence, package_root: str) -> None:
        self._evidence = evidence
        self._root = package_root.rstrip("/")

    def read(self, module: str) -> SourceFile | None:
        if not self._root:
            raise Unanswered("the directory of the engine's package is not known")
        package, *parts = module.split(".")
        if package != self._root.rpartition("/")[2] or not all(part.isidentifier() for part in parts):
            return None
        stem = "/".join((self._root, *parts))
        for path in (f"{stem}.py", f"{stem}/__init__.py") if parts else (f"{stem}/__init__.py",):
            answer = self._evidence.ask(ReadFile(path))
            if answer.value is not None:
                if answer.partial:
                    raise Unanswered(f"{path} was read only in part")
                return SourceFile(module, path, answer.value.encode("utf-8", "surrogateescape"))
            if ABSENT not in answer.missing:
                raise Unanswered(f"{path}: {answer.missing}")
        return None

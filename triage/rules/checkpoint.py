"""The model of a run on its host: where its files lie, its configuration, its weights.

A name like `org/model` is looked up in the service's cache of the Hugging Face hub:

    hub/models--org--model/refs/main                        the commit
    hub/models--org--model/snapshots/COMMIT/config.json
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triage.common.json import parse_json
from triage.evidence.catalogue import ListDirectory
from triage.evidence.catalogue.containers import Tool
from triage.evidence.discovery.containers import container_of, file_in
from triage.evidence.model import Deployment, Evidence, Unanswered

_HUB_NAME = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[\w.-]{1,80}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
MAX_BYTES = 1 << 50


@dataclass(frozen=True)
class Checkpoint:
    """`name` is a path or a name of the hub, `environment`, `container` and `user` those of the service."""

    evidence: Evidence
    name: str
    environment: Mapping[str, str]
    revision: str = "main"
    container: tuple[Tool, str] | None = None
    user: str = ""

    def directory(self) -> str:
        """Raises Unanswered."""
        if self.name.startswith("/"):
            return self.name.rstrip("/")
        hub = self._hub()
        if not hub or not _HUB_NAME.fullmatch(self.name):
            raise Unanswered(f"the model {self.name or '?'} is not a path on the host")
        folder = f"{hub}/models--{self.name.replace('/', '--')}"
        if _COMMIT.fullmatch(self.revision):
            return f"{folder}/snapshots/{self.revision}"
        commit = self._read(f"{folder}/refs/{self.revision}").strip()
        if not _COMMIT.fullmatch(commit):
            raise Unanswered(f"{folder}/refs/{self.revision} names no commit")
        return f"{folder}/snapshots/{commit}"

    def config(self) -> Mapping[str, Any]:
        """The language model's part of config.json. Raises Unanswered."""
        config = self._json(CONFIG)
        nested = config.get("text_config")
        return {**config, **nested} if isinstance(nested, dict) else config

    def weights(self) -> int:
        """Bytes of the weights: as their index says, else the size of their files. Raises Unanswered."""
        try:
            metadata = self._json(INDEX).get("metadata")
        except Unanswered:
            metadata = None
        total = metadata.get("total_size") if isinstance(metadata, dict) else None
        if isinstance(total, (int, float)) and not isinstance(total, bool) and 0 < total < MAX_BYTES:
            return int(total)
        directory = self.directory()
        if self.container:
            raise Unanswered(f"the size of the weights in {directory} of the container is not asked for")
        files = self.evidence.ask(ListDirectory(directory, self.user)).require()
        sizes = [file.size for file in files if file.kind == "file" and file.name.endswith(".safetensors")]
        if not sizes:
            raise Unanswered(f"{directory} holds no weight files, or links to them")
        return sum(sizes)

    def path(self, name: str) -> str:
        """Return the path of a file of the model. Raises Unanswered."""
        return f"{self.directory()}/{name}"

    def _read(self, path: str) -> str:
        return self.evidence.ask(file_in(self.container, path, self.user)).require()

    def _json(self, name: str) -> Mapping[str, Any]:
        path = self.path(name)
        try:
            found = parse_json(self._read(path))
        except ValueError:
            raise Unanswered(f"{path} is not JSON") from None
        if not isinstance(found, dict):
            raise Unanswered(f"{path} is not a JSON object")
        return found

    def _hub(self) -> str:
        """The hub's cache, by the variables that its library reads."""
        known = self.environment
        home = posixpath.join(known["HOME"], ".cache") if known.get("HOME") else ""
        base = known.get("HF_HOME") or (f"{home}/huggingface" if home else "")
        found = known.get("HF_HUB_CACHE") or (f"{base}/hub" if base else "")
        return found.rstrip("/") if found.startswith("/") else ""


def checkpoint_of(evidence: Evidence, deployment: Deployment, name: str, revision: str = "") -> Checkpoint:
    """The model of a service; a revision that cannot be one counts as `main`."""
    given = revision if _REVISION.fullmatch(revision) else "main"
    container = container_of(deployment)
    return Checkpoint(evidence, name, deployment.environment, given, container, deployment.user)

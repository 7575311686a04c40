"""What probes and remedies look at: one incident, one match, and the evidence of one deployment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from triage.common.commands import NextCommand, command
from triage.evidence.discovery.containers import container_of, file_in
from triage.evidence.discovery.run_layout import as_it_ran
from triage.evidence.model import EMPTY, Deployment, Evidence, Layout, Unanswered
from triage.logs.model import Fault, Frame, Incident
from triage.patching.evidence_tree import places
from triage.patching.model import Plan, SourceFile, SourceTree
from triage.rules.checkpoint import CONFIG, Checkpoint, checkpoint_of

if TYPE_CHECKING:
    from triage.patching.schema import Patch


@dataclass(frozen=True)
class LaunchArgument:
    """A launch argument of the run that failed; `now` is what the deployment has, where that differs."""

    value: str
    now: str | None = None


@dataclass(frozen=True)
class Context:
    evidence: Evidence
    deployment: Deployment
    incident: Incident
    fault: Fault
    frames: Mapping[str, Frame]
    tree: SourceTree
    patches: Mapping[str, Patch]
    unread: Mapping[str, str] = field(default_factory=lambda: EMPTY)  # logs that could not be read, and why
    plans: dict[str, Plan] = field(default_factory=dict, repr=False)  # made so far: a probe and a remedy ask

    def command(self, verb: str, *arguments: str) -> NextCommand:
        """`triage VERB gpu01 --unit kimi.service ARGUMENTS`; HOST where no host is known."""
        origin = self.evidence.origin
        unit = ("--unit", self.deployment.chosen_by) if self.deployment.chosen_by else ()
        if origin.kind == "host":
            return command(verb, origin.name, *unit, *arguments)
        return command(f"{verb} HOST", "", *unit, *arguments)

    @property
    def engine(self) -> str:
        """The engine's name, "" where neither the deployment nor the log tells."""
        return self.deployment.engine or self.incident.facts.get("engine", "")

    @property
    def examined(self) -> bool:
        """Is there more than a log to look at?"""
        return self.evidence.origin.kind != "log"

    @property
    def layout(self) -> Layout:
        """The layout as the failed run logged it; what it did not log, as the deployment has it now."""
        return self.ran.layout

    @cached_property
    def ran(self) -> Deployment:
        """The deployment with the layout and the model of the run that failed."""
        return as_it_ran(self.deployment, self.incident.facts)

    def argument(self, names: tuple[str, ...]) -> LaunchArgument | None:
        """A launch argument under any of its names: of the run where that logged it, else of now."""
        logged = _first(self.incident.facts, [name.replace("-", "_") for name in names])
        now = _first(self.deployment.arguments, names)
        if logged is not None:
            return LaunchArgument(logged, now if now is not None and now != logged else None)
        return None if now is None else LaunchArgument(now)

    def foresee(self, modules: Iterable[str], config: bool) -> None:
        """Say that the source of the frames and of modules is about to be read, and config.json."""
        root = self.deployment.package_root.rstrip("/")
        if not root:
            return
        wanted = list(modules)
        for frame in self.frames.values():
            with suppress(Unanswered):
                wanted.append(module_of(frame.file, self.deployment))
        paths = [path for module in wanted for path in places(root, module)[:1]]
        if config and self.ran.model.startswith("/"):
            paths.append(self.checkpoint.path(CONFIG))
        container = container_of(self.deployment)
        self.evidence.foresee([file_in(container, path) for path in dict.fromkeys(paths)])

    def plan(self, patch_id: str) -> Plan | None:
        """The patch's plan on the tree that serves; None without such a patch, or with nothing but a log."""
        patch = self.patches.get(patch_id)
        if patch is None or not self.examined:
            return None
        from triage.patching.plan import plan_patch

        if patch_id not in self.plans:
            self.plans[patch_id] = plan_patch(patch, self.tree, self.patch_context())
        return self.plans[patch_id]

    def patch_context(self) -> Mapping[str, str]:
        """What a patch's preconditions need to know of this deployment: the class of KV pool that serves."""
        return {"pool_class": self.incident.facts["kv_pool"]} if "kv_pool" in self.incident.facts else {}

    def source(self, frame: Frame) -> SourceFile:
        """The module of a frame, read from the tree that serves. Raises Unanswered."""
        module = module_of(frame.file, self.deployment)
        found = self.tree.read(module)
        if found is None:
            raise Unanswered(f"{module} is not in the tree that serves ({self.deployment.package_root})")
        return found

    @property
    def checkpoint(self) -> Checkpoint:
        """The model that the run served."""
        revision = self.argument(("revision",))
        given = revision.value if revision else ""
        return checkpoint_of(self.evidence, self.deployment, self.ran.model, given)

    def config_number(self, key: str) -> int:
        """A positive whole number of the run's log, or of config.json. Raises Unanswered."""
        logged = self.incident.facts.get(key, "")
        value: object = (
            int(logged) if re.fullmatch(r"[0-9]{1,6}", logged) else self.checkpoint.config().get(key)
        )
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1_000_000:
            raise Unanswered(f"config.json has no usable {key}")
        return value


def module_of(file: str, deployment: Deployment) -> str:
    """`.../site-packages/sglang/srt/a.py` -> `sglang.srt.a`. Raises Unanswered for another tree's file."""
    root = deployment.package_root.rstrip("/")
    if not root:
        raise Unanswered("the directory of the engine's package is not known")
    if not file.startswith(f"{root}/") or not file.endswith(".py"):
        raise Unanswered(f"{file} is not in the tree that serves ({root})")
    parts = [root.rpartition("/")[2], *file[len(root) + 1 : -len(".py")].split("/")]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def _first(values: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((values[name] for name in names if name in values), None)

"""Incidents, evidence and source trees made of values, for rules to look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from tests.patching.wheels import WheelTree, wheel
from triage.evidence.catalogue import ReadFile
from triage.evidence.model import Answer, Deployment, Layout, Origin, Query, Unanswered
from triage.evidence.recorded import Recorded, answer_from
from triage.logs.model import Fault, Frame, Incident, Position
from triage.patching.load import load_patches
from triage.patching.model import SourceFile, SourceTree
from triage.rules.context import Context
from triage.rules.schema import Rule

T = TypeVar("T")
ROOT = "/site-packages/sglang"  # where WheelTree says that a wheel's modules lie
PATCHES = {patch.id: patch for patch in load_patches()}


class Answers:
    """Evidence that holds some files and nothing else."""

    def __init__(
        self, files: Mapping[str, str] | None = None, kind: Literal["host", "case", "log"] = "host"
    ) -> None:
        self._known = {ReadFile(path).key: text for path, text in (files or {}).items()}
        self.origin = Origin(kind, "gpu01" if kind == "host" else kind)

    def foresee(self, queries: object) -> None:
        pass

    def ask(self, query: Query[T]) -> Answer[T]:
        text = self._known.get(query.key)
        return answer_from(query, Recorded(query.key, "", text, "" if text is not None else "it is not here"))


class Tree:
    """Modules by name; those of `base` where they are not given. `broken` cannot be read."""

    def __init__(
        self,
        modules: Mapping[str, str | bytes] | None = None,
        base: SourceTree | None = None,
        broken: str = "",
    ) -> None:
        self._modules, self._base, self._broken = modules or {}, base, broken

    def read(self, module: str) -> SourceFile | None:
        if module == self._broken:
            raise Unanswered("permission denied")
        if module in self._modules:
            text = self._modules[module]
            path = "/".join((str(Path(ROOT).parent), *module.split("."))) + ".py"
            return SourceFile(module, path, text.encode() if isinstance(text, str) else text)
        return self._base.read(module) if self._base else None


def sglang(version: str, **changed: tuple[str, str]) -> Tree:
    """A released sglang; `changed` replaces text in a module that is named by its last part."""
    released = WheelTree(wheel("sglang", version))
    modules = {}
    for name, (old, new) in changed.items():
        module = next(module for module in MODULES if module.endswith(f".{name}"))
        found = released.read(module)
        assert found is not None
        text = found.data.decode()
        assert old in text
        modules[module] = text.replace(old, new)
    return Tree(modules, released)


BACKEND = "sglang.srt.layers.attention.triton_backend"
POOL = "sglang.srt.mem_cache.memory_pool"
UTILS = "sglang.srt.distributed.utils"
MODULES = (BACKEND, POOL, UTILS)


def frame(file: str = "/opt/a.py", line: int = 1, function: str = "f", code: str = "") -> Frame:
    return Frame(file, line, function, code)


# The story's two frames in sglang 0.5.11, as its traceback prints them.
SITE = Frame(
    f"{ROOT}/srt/layers/attention/triton_backend.py",
    120,
    "__init__",
    "self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(0).shape[",
)
ACCESSOR = Frame(
    f"{ROOT}/srt/mem_cache/memory_pool.py",
    1607,
    "get_value_buffer",
    "return self.kv_buffer[layer_id - self.start_layer][..., : self.kv_lora_rank]",
)


def fault(type: str = "ValueError", message: str = "it is wrong", **more: Any) -> Fault:
    frames = tuple(more.pop("frames", ()))
    return Fault(
        **{
            "kind": "exception",
            "type": type,
            "message": message,
            "position": Position("log", 7),
            "role": "initiator",
            "frames": frames,
            "frame": frames[0] if frames else None,
            "ranks": frozenset(more.pop("ranks", ())),
            **more,
        }
    )


def incident(
    initiator: Fault | None, *others: Fault, facts: Mapping[str, str] | None = None, **more: Any
) -> Incident:
    faults = (*((initiator,) if initiator else ()), *others)
    return Incident("i1", "f1", None, None, initiator, faults, facts=facts or {}, **more)


KIMI = "/srv/models/Kimi-K2.6"
KIMI_CONFIG = json.dumps({"text_config": {"num_hidden_layers": 61, "num_attention_heads": 64}})
STORY = Deployment(
    name="kimi.service",
    engine="sglang",
    manager="systemd",
    unit="kimi.service",
    result="signal",
    exit_status="9/KILL",
    python="/opt/venv/bin/python",
    package_root=ROOT,
    version="0.5.11",
    arguments={"pp-size": "8"},
    layout=Layout(pp=8),
    model=KIMI,
)
STORY_FAULT = fault("IndexError", "list index out of range", frames=(SITE, ACCESSOR), ranks=("PP3",))
STORY_INCIDENT = incident(
    STORY_FAULT, facts={"engine": "sglang", "pp_size": "8", "kv_pool": "MLATokenToKVPool"}
)


def of_size(**sizes: int) -> dict[str, Any]:
    """A run of another layout, by its unit as by its log."""
    logged = {**STORY_INCIDENT.facts, **{f"{name}_size": str(size) for name, size in sizes.items()}}
    return {
        "deployment": replace(STORY, layout=Layout(**sizes)),
        "incident": replace(STORY_INCIDENT, facts=logged),
    }


def context(**changes: Any) -> Context:
    """That of the story on a host whose source is nowhere, with changes."""
    return Context(
        **{
            "evidence": Answers({f"{KIMI}/config.json": KIMI_CONFIG}),
            "deployment": STORY,
            "incident": STORY_INCIDENT,
            "fault": STORY_FAULT,
            "frames": {"site": SITE, "accessor": ACCESSOR},
            "tree": Tree(),
            "patches": PATCHES,
            **changes,
        }
    )


def rule(id: str = "a-rule", **keys: Any) -> Rule:
    """A rule that fits every `fault()`, with other keys."""
    keys.setdefault("signatures", [keys.pop("signature", {"exception": "^ValueError$"})])
    return Rule.model_validate(
        {
            "id": id,
            "title": f"title of {id}",
            "category": "request",
            "role": "cause",
            "explanation": "because",
            "cases": {"match": [{"log": "x"}], "near": [{"log": "y"}]},
            **keys,
        }
    )

"""The shape of a rule file. Unknown keys are errors; every error names file and key."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, RootModel, model_validator

from triage.engines import ENGINES, require_engine
from triage.rules.base import Capture, Id, Regex, RulePart
from triage.rules.checks import Probe

Category = Literal[
    "pp-rank-assumption",
    "divisibility",
    "dp-ep",
    "quantization",
    "model-config",
    "weights",
    "hf-hub",
    "gpu-oom",
    "kv-cache-too-small",
    "host-oom",
    "shm-too-small",
    "ulimit",
    "nccl",
    "nccl-timeout",
    "distributed-init",
    "arch-mismatch",
    "driver-mismatch",
    "abi-mismatch",
    "missing-extension",
    "python-env",
    "jit-toolchain",
    "triton-compile",
    "cuda-illegal-access",
    "gpu-xid",
    "gpu-hardware",
    "watchdog",
    "engine-dead",
    "port-in-use",
    "launch-arguments",
    "systemd",
    "permission",
    "host-storage",
    "ray",
    "health-check",
    "request",
    "unknown",
]


class FramePattern(RulePart):
    """One frame that must be in the traceback: a glob for its file, regexes for function and code."""

    name: str = Field("", alias="as")  # how probes refer to it
    file: str = "*"
    function: Regex = ""
    code: Regex = ""


class Signature(RulePart):
    """What a fault looks like. All that is given must hold; regexes match anywhere unless anchored.

    It is held against a fault, each exception that led to it, and each member of a group. `frames` must
    occur in this order, outermost first, with any frames between them; `innermost` asks that the last of
    them is the traceback's last frame. `facts` are those of the incident (`pp_size: "^[2-9]"`), `phase` the
    last step that the engine logged before it (`Capture cuda graph begin`).
    """

    kind: Literal["", "exception", "error", "signal", "service", "kernel", "native"] = ""
    exception: Regex = ""
    message: Regex = ""
    header: Regex = ""
    frames: tuple[FramePattern, ...] = ()
    innermost: bool = False
    phase: Regex = ""
    facts: dict[str, Regex] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _says_something(self) -> Signature:
        if not (self.exception or self.message or self.header or self.frames):
            raise ValueError("a signature needs at least one of exception, message, header, frames")
        return self


class PatchRemedy(RulePart):
    """With `if_in_traceback`, only where one of the fault's frames is in a module that the patch edits."""

    kind: Literal["patch"]
    patch: Id
    if_in_traceback: bool = False
    summary: str
    cost: str = ""
    proof: str = ""


class UpgradeRemedy(RulePart):
    kind: Literal["upgrade"]
    distribution: str
    version: str
    summary: str
    cost: str = ""
    proof: str = ""


EngineName = Annotated[str, AfterValidator(require_engine)]


def _of_every_engine(settings: dict[str, str]) -> dict[str, str]:
    return {name: settings.get(name, "") for name in ENGINES}


class PerEngine(RootModel[Annotated[dict[EngineName, str], AfterValidator(_of_every_engine)]]):
    """A setting as each engine spells it, by the engine's name; "" for one that has none."""

    model_config = ConfigDict(frozen=True)

    def of(self, engine: str) -> str:
        """Return the setting as this engine spells it, or as each does if the engine is not known."""
        return self.root.get(engine, str(self))

    def __str__(self) -> str:
        told = ((text, ENGINES[name].title) for name, text in self.root.items())
        return ", ".join(f"{text} ({title})" for text, title in told if text)


Computation = Literal[
    "share-for-allocation",  # N: the share of memory with which the allocation that failed would have fitted
    "share-of-free",  # N: the share of memory that was free
    "share-for-cache",  # N: the least share of memory that leaves something for the KV cache
    "tensor-size",  # N: the largest for the GPUs by which the model divides; M: stages for the rest
    "block-size",  # N: the same with whole quantization blocks; M: stages for the rest
    "larger-size",  # N: the next tensor-parallel size that divides the model; M: twice the stages
    "expert-block-size",  # N: an expert-parallel size with whole quantization blocks
    "expert-size",  # N: the largest expert-parallel size that divides the experts
    "redundant-experts",  # N: how many make the experts a multiple of the ranks
    "data-parallel-size",  # N: the largest up to that of the run that divides the tensor-parallel size
    "one-stage",  # whether all GPUs can share each layer
    "gpus-for-weights",  # N: the tensor-parallel size, M: the number of stages, that hold the weights
]


class SettingRemedy(RulePart):
    """Launch flags, environment or unit directives, as they would be written.

    Placeholders in `set` are filled from the deployment (UNIT, GPUS, TP, MODEL_PATH, PYTHON, PID) and, where
    it can be computed, with a number (N, M): by `computes`, or by the one group of `named` in the message.
    A tensor-size must divide what `divides` finds in the message and `keys` in config.json, too; `gpus` finds
    in the message how many GPUs there are.
    `otherwise` stands for N where nothing could be computed.
    """

    kind: Literal["setting"]
    id: Id
    set: str | PerEngine
    computes: Computation | Literal[""] = ""
    named: Capture = ""
    divides: Capture = ""
    keys: tuple[str, ...] = ()
    gpus: Capture = ""
    otherwise: str = ""
    summary: str
    cost: str = ""
    proof: str = ""


class LayoutRemedy(RulePart):
    """Every other layout of tp x pp over the same GPUs, each judged by the stage arithmetic."""

    kind: Literal["layouts"]
    layer: int = 0
    cost: str = ""


class ActionRemedy(RulePart):
    kind: Literal["action"]
    id: Id
    summary: str
    command: str = ""
    cost: str = ""
    proof: str = ""


RemedySpec = Annotated[
    PatchRemedy | UpgradeRemedy | SettingRemedy | LayoutRemedy | ActionRemedy, Field(discriminator="kind")
]


class LogCase(RulePart):
    """A log that must match, or must not; `expect` names the outcome without a host."""

    log: str
    note: str = ""


class Cases(RulePart):
    match: tuple[LogCase, ...] = Field(min_length=1)
    near: tuple[LogCase, ...] = Field(min_length=1)


Place = Literal["kernel-log", "other-ranks", "other-hosts", "worker-log", "earlier-lines"]


class Rule(RulePart):
    """One known cause, consequence or harmless look-alike.

    `conclusive` says that the message alone leaves no other cause: then a match without probes is
    `confirmed`. A `fallback` counts only where no other rule stands. `cause_in` says where the cause of a
    consequence must be looked for. `affected` is a hint for people, never a reason.
    """

    id: Id
    title: str
    category: Category
    role: Literal["cause", "consequence", "benign"]
    engine: EngineName = ""
    affected: str = ""
    conclusive: bool = False
    fallback: bool = False
    cause_in: tuple[Place, ...] = ()
    signatures: tuple[Signature, ...] = Field(min_length=1)
    explanation: str
    probes: tuple[Probe, ...] = ()
    falsifiers: tuple[Probe, ...] = ()
    remedies: tuple[RemedySpec, ...] = ()
    references: tuple[str, ...] = ()
    cases: Cases

    @model_validator(mode="before")
    @classmethod
    def _one_signature(cls, data: Any) -> Any:
        """`signature: {...}` is short for a list of one."""
        if isinstance(data, dict) and "signature" in data:
            data = dict(data)
            data["signatures"] = [data.pop("signature")]
        return data

    @model_validator(mode="after")
    def _frames_are_named(self) -> Rule:
        known = {frame.name for signature in self.signatures for frame in signature.frames if frame.name}
        for probe in (*self.probes, *self.falsifiers):
            frame = getattr(probe, "frame", None)
            if frame is not None and frame not in known:
                raise ValueError(
                    f"probe {probe.check} names frame {frame!r}; the signature has {sorted(known)}"
                )
        return self

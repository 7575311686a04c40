"""The checks that a rule can ask for, as they stand in its file. `triage.rules.probes` carries them out.

Those of the run itself (its log, the kernel's lines, source, model, GPUs) can refute a rule. Those of the
host as it is now (limits, room, ports, unit) can only speak against it: they may have been changed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from triage.rules.base import Capture, Id, Model, Regex


class SourceMatchesFrame(Model):
    """The line of the named frame stands in the source that serves, as the traceback printed it."""

    check: Literal["source-matches-frame"]
    frame: str
    says: str


class PatchState(Model):
    """The defect's shape, as a shipped patch describes it, is in the source that serves."""

    check: Literal["patch-state"]
    patch: Id
    frame: str  # where the defect raised
    passes: tuple[str, ...] = ("applicable",)
    says: str


class ClassAttribute(Model):
    """The class whose method the named frame is in assigns or inherits an attribute."""

    check: Literal["class-attribute"]
    frame: str
    attribute: str
    subtracted: bool = False  # and its method subtracts it from the argument
    says: str


class Argument(Model):
    """A launch argument or a fact of the log, under any of its names, compared with a value."""

    check: Literal["argument"]
    names: tuple[str, ...]
    at_least: int | None = None
    equals: Regex = ""
    says: str

    @model_validator(mode="after")
    def _compares(self) -> Argument:
        if (self.at_least is None) == (not self.equals):
            raise ValueError("give either at_least or equals")
        return self


class Stages(Model):
    """The stage arithmetic of a stage-local list indexed with a global layer number.

    Holds when it predicts an IndexError for every rank that raised one.
    """

    check: Literal["stages"]
    layer: int = 0
    says: str


class StageOwnsLayer(Model):
    """Whether a stage that raised owns the layer that is meant: `layer`, or the one that group 1 of the regex
    `named` finds in the message.
    """

    check: Literal["stage-owns-layer"]
    layer: int | None = None
    named: Capture = ""
    owned: bool = False
    says: str

    @model_validator(mode="after")
    def _means_one(self) -> StageOwnsLayer:
        if (self.layer is None) == (not self.named):
            raise ValueError("give either layer or named")
        return self


class NoOomKill(Model):
    """Neither the kernel log nor the service manager tells of an OOM kill during the run."""

    check: Literal["no-oom-kill"]
    says: str


class KernelMentions(Model):
    """A line of the kernel log during the run."""

    check: Literal["kernel-mentions"]
    pattern: Regex
    says: str


class UnitResult(Model):
    """What the service manager recorded of the run's end."""

    check: Literal["unit-result"]
    result: Regex
    says: str


Axis = Literal["tp", "pp", "dp", "ep"]


class ConfigNumber(Model):
    """A number of the model's config.json, compared with another or with a size of the layout."""

    check: Literal["config-number"]
    key: str
    below: int | Axis | None = None
    at_least: int | Axis | None = None
    multiple_of: int | Axis | None = None
    not_multiple_of: int | Axis | None = None
    says: str

    @model_validator(mode="after")
    def _compares(self) -> ConfigNumber:
        given = (self.below, self.at_least, self.multiple_of, self.not_multiple_of)
        if sum(each is not None for each in given) != 1:
            raise ValueError("give one of below, at_least, multiple_of, not_multiple_of")
        return self


class PackageVersion(Model):
    """The installed release of a distribution: `version: ">=2, <3"`."""

    check: Literal["package-version"]
    distribution: str
    version: Annotated[str, Field(pattern=r"^(>=|<=|==|!=|>|<) ?\d[\w.]*(, ?(>=|<=|==|!=|>|<) ?\d[\w.]*)*$")]
    says: str


class EnvironmentVariable(Model):
    """A variable of the service's environment; one that is not set is empty."""

    check: Literal["environment"]
    name: str
    matches: Regex
    says: str


class UnitProperty(Model):
    """A property of the unit as systemd has it: `MemoryDenyWriteExecute`, `TasksMax`, ..."""

    check: Literal["unit-property"]
    property: str
    matches: Regex
    says: str


class Limit(Model):
    """The hard limit of the serving process, or of its unit where it does not run: a number, or bytes."""

    check: Literal["limit"]
    resource: Literal["nofile", "memlock", "nproc"]
    below: int
    says: str


Size = Annotated[str, Field(pattern=r"^\d{1,6} ?[MGT]iB$")]


class Space(Model):
    """Room below a path of the host (MODEL_PATH: the model's): all there is, or what is left now."""

    check: Literal["space"]
    path: str
    of: Literal["total", "available"] = "total"
    below: Size
    says: str


class Memory(Model):
    """A line of /proc/meminfo: `MemTotal`, `MemAvailable`, `SwapTotal`."""

    check: Literal["memory"]
    of: str
    below: Size
    says: str


class GpuCapability(Model):
    """The compute capability of the host's oldest GPU, told from its name: `below: "8.9"`."""

    check: Literal["gpu-capability"]
    below: Annotated[str, Field(pattern=r"^\d{1,2}\.\d$")]
    says: str


class GpuCount(Model):
    """The host has fewer GPUs than the ranks of one node need."""

    check: Literal["fewer-gpus-than-ranks"]
    says: str


class DriverVersion(Model):
    """The driver is older than the CUDA of the installed torch asks for."""

    check: Literal["driver-older-than-cuda"]
    says: str


class HostLibrary(Model):
    """The host's C library is older than the one that group 1 of the regex `named` finds in the message."""

    check: Literal["glibc-older-than"]
    named: Capture
    says: str


class KernelSilent(Model):
    """No line of the kernel log during the run matches, and it could be read."""

    check: Literal["kernel-silent"]
    pattern: Regex
    says: str


class LogMentions(Model):
    """Another fault of the incident matches (or, with `absent`, none does)."""

    check: Literal["log-mentions"]
    pattern: Regex
    absent: bool = False
    says: str


class PortListens(Model):
    """Something listens now on the port that group 1 of `named` finds in the message, or on the service's."""

    check: Literal["port-listens"]
    named: Capture = ""
    says: str


Probe = Annotated[
    SourceMatchesFrame
    | PatchState
    | ClassAttribute
    | Argument
    | Stages
    | StageOwnsLayer
    | NoOomKill
    | KernelMentions
    | UnitResult
    | ConfigNumber
    | PackageVersion
    | EnvironmentVariable
    | UnitProperty
    | Limit
    | Space
    | Memory
    | GpuCapability
    | GpuCount
    | DriverVersion
    | HostLibrary
    | KernelSilent
    | LogMentions
    | PortListens,
    Field(discriminator="check"),
]

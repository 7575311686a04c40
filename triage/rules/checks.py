"""The checks that a rule can ask for, as they stand in its file. `triage.rules.probes` carries them out.

Those of the run itself (its log, the kernel's lines, source, model, GPUs) can refute a rule. Those of the
host as it is now (limits, room, ports, unit) can only speak against it: they may have been changed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from triage.rules.base import Capture, Id, Regex, RulePart


class SourceMatchesFrame(RulePart):
    """The line of the named frame stands in the source that serves, as the traceback printed it."""

    check: Literal["source-matches-frame"]
    frame: str
    says: str


class PatchState(RulePart):
    """The defect's shape, as a shipped patch describes it, is in the source that serves."""

    check: Literal["patch-state"]
    patch: Id
    frame: str  # where the defect raised
    passes: tuple[str, ...] = ("applicable",)
    says: str


class ClassAttribute(RulePart):
    """The class whose method the named frame is in assigns or inherits an attribute."""

    check: Literal["class-attribute"]
    frame: str
    attribute: str
    subtracted: bool = False  # and its method subtracts it from the argument
    says: str


class LaunchArgumentCheck(RulePart):
    """A launch argument or a fact of the log, under any of its names, compared with a value."""

    check: Literal["argument"]
    names: tuple[str, ...]
    at_least: int | None = None
    equals: Regex = ""
    says: str

    @model_validator(mode="after")
    def _compares(self) -> LaunchArgumentCheck:
        if (self.at_least is None) == (not self.equals):
            raise ValueError("give either at_least or equals")
        return self


class Stages(RulePart):
    """The stage arithmetic of a stage-local list indexed with a global layer number.

    Holds when it predicts an IndexError for every rank that raised one.
    """

    check: Literal["stages"]
    layer: int = 0
    says: str


class StageOwnsLayer(RulePart):
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


class NoOomKill(RulePart):
    """Neither the kernel log nor the service manager tells of an OOM kill during the run."""

    check: Literal["no-oom-kill"]
    says: str


class KernelMentions(RulePart):
    """A line of the kernel log during the run."""

    check: Literal["kernel-mentions"]
    pattern: Regex
    says: str


class UnitResult(RulePart):
    """What the service manager recorded of the run's end."""

    check: Literal["unit-result"]
    result: Regex
    says: str


Axis = Literal["tp", "pp", "dp", "ep"]


class ConfigNumber(RulePart):
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


class PackageVersion(RulePart):
    """The installed release of a distribution: `version: ">=2, <3"`."""

    check: Literal["package-version"]
    distribution: str
    version: Annotated[str, Field(pattern=r"^(>=|<=|==|!=|>|<) ?\d[\w.]*(, ?(>=|<=|==|!=|>|<) ?\d[\w.]*)*$")]
    says: str


class EnvironmentVariable(RulePart):
    """A variable of the service's environment; one that is not set is empty."""

    check: Literal["environment"]
    name: str
    matches: Regex
    says: str


class UnitProperty(RulePart):
    """A property of the unit as systemd has it: `MemoryDenyWriteExecute`, `TasksMax`, ..."""

    check: Literal["unit-property"]
    property: str
    matches: Regex
    says: str


class Limit(RulePart):
    """The hard limit of the serving process, or of its unit where it does not run: a number, or bytes."""

    check: Literal["limit"]
    resource: Literal["nofile", "memlock", "nproc"]
    below: int
    says: str


Size = Annotated[str, Field(pattern=r"^\d{1,6} ?[MGT]iB$")]


class Space(RulePart):
    """Room below a path of the host (MODEL_PATH: the model's): all there is, or what is left now."""

    check: Literal["space"]
    path: str
    of: Literal["total", "available"] = "total"
    below: Size
    says: str


class Memory(RulePart):
    """A line of /proc/meminfo: `MemTotal`, `MemAvailable`, `SwapTotal`."""

    check: Literal["memory"]
    of: str
    below: Size
    says: str


class GpuCapability(RulePart):
    """The compute capability of the host's oldest GPU, told from its name: `below: "8.9"`."""

    check: Literal["gpu-capability"]
    below: Annotated[str, Field(pattern=r"^\d{1,2}\.\d$")]
    says: str


class GpuCount(RulePart):
    """The host has fewer GPUs than the ranks of one node need."""

    check: Literal["fewer-gpus-than-ranks"]
    says: str


class DriverVersion(RulePart):
    """The driver is older than the CUDA of the installed torch asks for."""

    check: Literal["driver-older-than-cuda"]
    says: str


class HostLibrary(RulePart):
    """The host's C library is older than the one that group 1 of the regex `named` finds in the message."""

    check: Literal["glibc-older-than"]
    named: Capture
    says: str


class KernelSilent(RulePart):
    """No line of the kernel log during the run matches, and it could be read."""

    check: Literal["kernel-silent"]
    pattern: Regex
    says: str


class LogMentions(RulePart):
    """Another fault of the incident matches (or, with `absent`, none does)."""

    check: Literal["log-mentions"]
    pattern: Regex
    absent: bool = False
    says: str


class PortListens(RulePart):
    """Something listens now on the port that group 1 of `named` finds in the message, or on the service's."""

    check: Literal["port-listens"]
    named: Capture = ""
    says: str


Probe = Annotated[
    SourceMatchesFrame
    | PatchState
    | ClassAttribute
    | LaunchArgumentCheck
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

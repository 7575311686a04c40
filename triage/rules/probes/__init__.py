"""Probes: the closed set of checks that a rule can ask for. Each gives one finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from triage.common.commands import NextCommand, command
from triage.evidence.model import Unanswered
from triage.rules.checks import Probe
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult, FindingKind
from triage.rules.probes import arguments, arithmetic, gpu, host, model, service, source

# Every probe takes its own part of the rule and the context, and raises Unanswered when it cannot tell.
_PROBES: dict[str, Callable[[Any, Context], CheckResult]] = {
    "source-matches-frame": source.source_matches_frame,
    "patch-state": source.patch_state,
    "class-attribute": source.class_attribute,
    "argument": arguments.argument,
    "stages": arithmetic.stages,
    "stage-owns-layer": arithmetic.stage_owns_layer,
    "no-oom-kill": service.no_oom_kill,
    "kernel-mentions": service.kernel_mentions,
    "unit-result": service.unit_result,
    "kernel-silent": service.kernel_silent,
    "log-mentions": service.log_mentions,
    "config-number": model.config_number,
    "package-version": host.package_version,
    "environment": host.environment,
    "unit-property": host.unit_property,
    "limit": host.limit,
    "space": host.space,
    "memory": host.memory,
    "glibc-older-than": host.glibc,
    "port-listens": host.port_listens,
    "gpu-capability": gpu.gpu_capability,
    "fewer-gpus-than-ranks": gpu.fewer_gpus_than_ranks,
    "driver-older-than-cuda": gpu.driver_older_than_cuda,
}


def run(probe: Probe, context: Context, kind: FindingKind) -> CheckResult:
    """The probe's finding; `missing`, with the command that would get the item, when it cannot tell."""
    try:
        finding = _PROBES[probe.check](probe, context)
    except Unanswered as reason:
        why = reason if context.examined else "only a log was given"
        finding = CheckResult("probe", "missing", f"{probe.says}: {why}")
    if finding.result == "missing" and not finding.command:
        finding = replace(finding, command=_command(context))
    return replace(finding, kind=kind)


def _command(context: Context) -> NextCommand:
    if context.evidence.origin.kind == "host":
        return context.command("capture", "-o", "CASE")
    return command("diagnose HOST")

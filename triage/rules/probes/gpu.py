"""The host's GPUs and their driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triage.common.wording import counted
from triage.evidence.catalogue import GpuInventory
from triage.evidence.model import Unanswered
from triage.rules.arithmetic.divisors import gpus_seen
from triage.rules.arithmetic.versions import DRIVERS, capability_of, cuda_of, older
from triage.rules.checks import DriverVersion, GpuCapability, GpuCount
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult
from triage.rules.probes.judge import of_now, of_run

if TYPE_CHECKING:
    from triage.evidence.catalogue import Gpus


def gpu_capability(probe: GpuCapability, context: Context) -> CheckResult:
    for gpu in _gpus(context).gpus:
        capability = capability_of(gpu.name)
        is_older = older(capability, probe.below)
        if is_older is None:
            raise Unanswered(f"the compute capability of the {gpu.name or 'GPU'} is not known")
        detail = f"{probe.says}: the {gpu.name} has compute capability {capability}"
        if is_older:
            return of_run(True, detail)
    return of_run(False, detail)


def fewer_gpus_than_ranks(probe: GpuCount, context: Context) -> CheckResult:
    """Compare the ranks with the GPUs of the host, or with those that the service may see."""
    layout = context.layout
    ranks, nodes = layout.tp * layout.pp, context.argument(("nnodes",))
    if nodes is not None and nodes.value not in ("", "1"):
        raise Unanswered(f"{ranks} ranks over {nodes.value} hosts")
    count, said = gpus_seen(context)
    return of_now(count < ranks, f"{probe.says}: {counted(ranks, 'rank')}, {said}")


def driver_older_than_cuda(probe: DriverVersion, context: Context) -> CheckResult:
    cuda, driver = cuda_of(context.deployment.versions), _gpus(context).driver
    needed = DRIVERS.get(cuda or 0, "")
    is_older = older(driver, needed)
    if is_older is None:
        raise Unanswered("the CUDA of the installed torch, or the driver, is not known")
    return of_now(is_older, f"{probe.says}: the driver is {driver}, CUDA {cuda} needs {needed}")


def _gpus(context: Context) -> Gpus:
    found = context.evidence.ask(GpuInventory()).require()
    if not found.gpus:
        raise Unanswered("the driver names no GPU")
    return found

"""`triage.diagnosis/1` as `triage diagnose` gives it, made by the code that makes it there."""

from __future__ import annotations

import json

from triage.evidence.model import Deployment, Layout, Origin
from triage.logs.model import Fault, Frame, Incident, Position
from triage.report.json import diagnosis
from triage.rules.diagnosis import CheckResult, Diagnosis, IncidentVerdict, Remedy
from triage.workflows.diagnose import DiagnosedIncident, Report

PATCH = Remedy(
    "patch", "sglang-pp-start-layer", "ask for the stage's own first layer", "triage patch ...", helps=True
)
NO_USE = Remedy("patch", "sglang-pp-start-layer", "ask for the stage's own first layer", helps=False)
UNSURE = Remedy("patch", "sglang-pp-start-layer", "ask for the stage's own first layer", helps=None)
LAYOUT = Remedy("setting", "layout-tp2-pp4", "TP2 x PP4", "--tp-size 2 --pp-size 4", helps=True)
UPGRADE = Remedy("upgrade", "sglang>=0.5.18", "upgrade", "pip install 'sglang>=0.5.18'")
RESTART = Remedy(
    "action", "restart", "the source already has the fix; restart to run it", "triage verify", helps=True
)


def report(*incidents):
    deployment = Deployment(
        "sglang.service", "sglang", "systemd", "sglang.service", layout=Layout(pp=8), port=30000
    )
    found = Report(Origin("host", "gpu01"), deployment, tuple(incidents))
    return json.loads(json.dumps(diagnosis(found)))


def incident(certainty, *remedies, outcome="confirmed"):
    """An incident that one rule explains, or none where there are no remedies."""
    fault = Fault(
        "exception",
        "IndexError",
        "list index out of range",
        Position("sglang.service", 812),
        ranks=frozenset({"PP3"}),
        frame=Frame("/opt/triton_backend.py", 120, "__init__", "get_value_buffer(0)"),
        role="initiator",
    )
    explained = Diagnosis(
        "sglang-pp-value-head-dim",
        "pp-rank-assumption",
        "cause",
        outcome,
        "a stage is asked for a layer that it does not own",
        "because",
        (CheckResult("probe", "pass", "the call is there"),),
        remedies,
    )
    category = "pp-rank-assumption" if certainty != "unknown" else "unknown"
    return DiagnosedIncident(
        Incident("i1", "f1", None, None, fault, (fault,)),
        (explained,) if remedies else (),
        IncidentVerdict(category, certainty),
    )

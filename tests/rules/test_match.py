"""A signature against a fault: all that is given must hold, frames in order, the innermost one named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.world import fault, frame, incident, rule
from triage.logs.model import Fault
from triage.rules.match import MATCHED_CHARS, SignatureMatch, match


def matched(
    signature: dict[str, Any], found: Fault, facts: dict[str, str] | None = None
) -> SignatureMatch | None:
    return match(rule(signature=signature), incident(found, facts=facts), found)


FAULT = fault("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB", header="loading")


@pytest.mark.parametrize(
    ("signature", "holds"),
    [
        ({"exception": "^torch.OutOfMemoryError$"}, True),
        ({"exception": "OutOfMemory"}, True),
        ({"exception": "^OutOfMemory"}, False),
        ({"message": "out of memory"}, True),
        ({"message": "Out of memory"}, False),
        ({"header": "load"}, True),
        ({"header": "serve"}, False),
        ({"exception": "OutOfMemory", "message": "GiB", "header": "^loading$"}, True),
        ({"exception": "OutOfMemory", "message": "MiB"}, False),
        ({"kind": "exception", "message": "GiB"}, True),
        ({"kind": "kernel", "message": "GiB"}, False),
    ],
)
def test_all_that_is_given_must_hold(signature: dict[str, Any], holds: bool) -> None:
    assert (matched(signature, FAULT) is not None) == holds


FRAMES = (
    frame("/v/site-packages/sglang/srt/a.py", 10, "run", "b()"),
    frame("/v/site-packages/sglang/srt/b.py", 20, "step", "step(n - 1)"),
    frame("/v/site-packages/sglang/srt/b.py", 21, "step", "step(n - 1)"),
    frame("/v/site-packages/torch/nn.py", 30, "forward", "return x[i]"),
)
DEEP = fault(frames=FRAMES)


@pytest.mark.parametrize(
    ("patterns", "lines"),
    [
        ([{"file": "/srt/a.py"}], [10]),
        ([{"file": "/srt/*.py", "function": "run"}], [10]),
        ([{"file": "/a.py"}, {"file": "/nn.py"}], [10, 30]),  # others between them
        ([{"file": "/nn.py"}, {"file": "/a.py"}], None),  # the other way round
        ([{"function": "step"}], [21]),  # the last turn of a recursion
        ([{"function": "step"}, {"function": "step"}], [20, 21]),
        ([{"function": "step"}, {"function": "step"}, {"function": "step"}], None),
        ([{"function": "ste"}], None),  # a function's whole name
        ([{"function": "st.p"}], [21]),
        ([{"code": r"x\[i\]"}], [30]),
        ([{"code": r"^x\[i\]"}], None),
        ([{"file": "srt/a.py", "code": "b"}, {"file": "b.py", "function": "forward"}], None),
    ],
)
def test_frames(patterns: list[dict[str, str]], lines: list[int] | None) -> None:
    named = [{"as": f"f{number}", **pattern} for number, pattern in enumerate(patterns)]
    found = matched({"frames": named}, DEEP)
    if lines is None:
        assert found is None
    else:
        assert found is not None
        assert [found.frames[f"f{number}"].line for number in range(len(lines))] == lines


def test_the_innermost_frame() -> None:
    site, accessor = {"file": "/b.py"}, {"file": "/nn.py"}
    assert matched({"frames": [site, accessor], "innermost": True}, DEEP)
    assert matched({"frames": [site], "innermost": False}, DEEP)
    assert not matched({"frames": [site], "innermost": True}, DEEP)
    assert not matched({"frames": [site], "innermost": True}, fault())


CAUSE = fault("KeyError", "'a'", frames=(frame("/cause.py"),), link="cause")


@pytest.mark.parametrize(
    "carrier",
    [
        fault("RuntimeError", "could not load", chain=(CAUSE,)),
        fault("ExceptionGroup", "unhandled errors", members=(fault("OSError", "no"), CAUSE)),
        fault("ExceptionGroup", "unhandled errors", members=(fault("OSError", "no", chain=(CAUSE,)),)),
    ],
)
def test_what_a_fault_carries_counts_as_a_whole(carrier: Fault) -> None:
    found = matched({"exception": "KeyError", "frames": [{"file": "/cause.py"}]}, carrier)
    assert found is not None
    assert found.fault is CAUSE
    assert not matched({"exception": carrier.type, "frames": [{"file": "/cause.py"}]}, carrier)


def test_facts_of_the_incident() -> None:
    signature = {"exception": "ValueError", "facts": {"pp_size": "^[2-9]"}}
    assert matched(signature, fault(), {"pp_size": "8"})
    assert not matched(signature, fault(), {"pp_size": "1"})
    assert not matched(signature, fault(), {})


@pytest.mark.parametrize(("engine", "holds"), [("sglang", True), ("vllm", False), ("", True)])
def test_a_rule_of_one_engine(engine: str, holds: bool) -> None:
    found = fault()
    facts = {"engine": engine} if engine else {}
    assert (match(rule(engine="sglang"), incident(found, facts=facts), found) is not None) == holds


def test_the_first_signature_that_holds_names_the_frames() -> None:
    files = ("/nowhere.py", "/a.py", "/nn.py")
    several = rule(signatures=[{"frames": [{"as": "site", "file": file}]} for file in files])
    found = match(several, incident(DEEP), DEEP)
    assert found is not None
    assert found.frames["site"].line == 10


def test_a_message_is_looked_at_so_far() -> None:
    """A bound on hostile messages: what stands beyond it is not seen, what stands before it is."""
    assert matched({"message": "here"}, fault(message="x" * (MATCHED_CHARS - 4) + "here"))
    assert not matched({"message": "here"}, fault(message="x" * MATCHED_CHARS + "here"))

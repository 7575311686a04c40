"""Loads a playbook by its path, or by the name of a shipped one."""

from __future__ import annotations

from pathlib import Path

from triage.common.errors import UsageError
from triage.common.shipped import shipped_directory
from triage.common.yaml_files import load_model
from triage.playbook.check import problems
from triage.playbook.model import Playbook
from triage.playbook.schema import PlaybookFile

SHOWN = 3  # problems that an error names


def load_playbook(name: str) -> Playbook:
    """Load the playbook at a path (which has a `/` or ends in .yaml or .yml), or the shipped one of that
    name.

    Raises UsageError if there is none, and for an invalid one, with its file and key.
    """
    path = find_playbook(name)
    content = load_model(path, PlaybookFile, "playbook")
    wrong = list(problems(content))
    if wrong:
        more = f" (and {len(wrong) - SHOWN} more)" if len(wrong) > SHOWN else ""
        raise UsageError(
            "reading playbook",
            str(path),
            "; ".join(wrong[:SHOWN]) + more,
            "fix these keys and run the command again",
        )
    return Playbook(str(path), content.name, content.description, content.vars, tuple(content.steps))


def find_playbook(name: str) -> Path:
    """Return the file for a path or name. Raises UsageError for an unknown name."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        return Path(name)
    known = shipped_playbooks()
    if name not in known:
        raise UsageError(
            "finding playbook",
            repr(name),
            f"none of that name is shipped; there are {', '.join(known)}",
            "name one of these, or the path of a .yaml file",
        )
    return known[name]


def shipped_playbooks() -> dict[str, Path]:
    """Return the files of the shipped playbooks by name."""
    return {path.stem: path for path in sorted(shipped_directory("playbooks").glob("*.yaml"))}

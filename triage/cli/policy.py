"""`triage policy`: every command that triage runs to look at a host, and what it may need."""

from __future__ import annotations

from triage.cli.options import Format, FormatOption


def policy(format: FormatOption = Format.TEXT) -> None:
    """Print the catalogue of read-only commands, what each is for, and the sudoers lines for them.

    UNIT, PID, FILE and other words in capitals stand for what a diagnosis fills in.
    """
    from triage.evidence.catalogue.policy import catalogue, sudoers

    entries = catalogue()
    if format is Format.JSON:
        import json

        queries = [vars(entry) for entry in entries]
        print(json.dumps({"schema": "triage.policy/1", "queries": queries, "sudoers": sudoers()}))
        return
    print("Looking at a host runs these commands and no others. None of them changes anything.")
    print("`or` is what an older host is asked, or one that has less.")
    print("podman and crictl are asked as docker and kubectl are here (ps, logs, exec).\n")
    for entry in entries:
        print(f"{entry.query}: {entry.purpose}")
        print(f"    {entry.command}")
        if entry.lesser:
            print(f"    or  {entry.lesser}")
        if entry.privilege:
            print(f"    needs {entry.privilege}")
        if entry.absence:
            print(f"    without: {entry.absence}")
    print("\nAn account in group systemd-journal can diagnose units whose source it may read:\n")
    print("    usermod -aG systemd-journal USER\n")
    print("To let it read more with --become, without letting it do more (sudo 1.9.10 or newer):\n")
    for line in sudoers():
        print(f"    {line}")

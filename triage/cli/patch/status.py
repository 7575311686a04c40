"""`triage patch status`: what was changed on a host, and whether it still is."""

from __future__ import annotations

from triage.cli.options import (
    BecomeOption,
    Format,
    FormatOption,
    HostArgument,
    HostKey,
    HostKeyOption,
    SshConfigOption,
    connected,
)
from triage.cli.patch.options import LedgerOption, PythonOption, bare_tree
from triage.cli.patch.printing import print_changes, print_json


def status(
    host: HostArgument,
    python: PythonOption = "",
    ledger: LedgerOption = "",
    format: FormatOption = Format.TEXT,
    ssh_config: SshConfigOption = None,
    host_key: HostKeyOption = HostKey.STRICT,
    become: BecomeOption = False,
) -> None:
    """What was changed on HOST, and whether it still is."""
    from triage.patching import transaction

    with connected(host, ssh_config, host_key, become) as connection:
        changes = transaction.status(bare_tree(connection, python, ledger))
    if format is Format.JSON:
        print_json(host, (), changes)
    elif changes:
        print_changes(changes)
    else:
        print(f"nothing was changed on {host}")

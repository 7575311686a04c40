"""Send a program of `triage.remote` to a host, and read its answer: the one place that does.

    $ python3 -I -S -B -c BOOTSTRAP          {"agent": SOURCE, "request": {...}} on standard input
    {...}                                    one line of JSON, the last one, on standard output

The command stays short, so that process lists and the logs of sudo are legible, and a request that does not
arrive whole does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from triage.common.commands import Next
from triage.common.errors import UnreachableError
from triage.common.json import parse_json
from triage.hosts import rights
from triage.hosts.connection import DEFAULT_LIMIT, Connection, last_words, why_cut
from triage.remote import Program

BOOTSTRAP = (
    "import json,sys;r=json.load(sys.stdin);n={'__name__':'triage_agent'};"
    "exec(compile(r['agent'],'triage_agent','exec'),n);n['main'](r['request'])"
)
NOTHING: Mapping[str, str] = MappingProxyType({})


def send(
    connection: Connection,
    program: Program,
    request: Mapping[str, Any],
    *,
    python: str,
    about: tuple[str, str],
    next: Next,
    ended: Next = "",
    timeout: float,
    limit: int = DEFAULT_LIMIT,
    user: str = "",
    environment: Mapping[str, str] = NOTHING,
) -> dict[str, Any]:
    """Return what `program` answers to `request`, run by the interpreter `python` of the host.

    `user` is the account of the service, for a program that gets its rights; `environment` is added to
    the program's. `about` has what is being done, and to what; `next` is the command to try where the
    interpreter does not do, `ended` where the program was ended before it had answered.

    Raises RefusedError where the rights cannot be taken, UnreachableError where there is no answer.
    """
    variables = ("env", *(f"{name}={value}" for name, value in environment.items())) if environment else ()
    argv = _with_rights(connection, program, user, python, (*variables, *command(program, python)))
    stdin = json.dumps({"agent": program.text, "request": request}).encode()
    output = connection.run(argv, stdin=stdin, timeout=timeout, limit=limit)
    if output.code == rights.REFUSED:
        raise rights.refusal(*about, output)
    if output.code == 127:
        raise UnreachableError(*about, f"there is no {python} on the host", next)
    if output.cut:
        raise UnreachableError(*about, why_cut(output.cut, timeout, limit), ended or next)
    if output.code is not None and output.code < 0:
        raise UnreachableError(*about, f"it was ended there by signal {-output.code}", ended or next)
    try:
        answer = parse_json(output.stdout.strip().rpartition(b"\n")[2])
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    happened = last_words(output) if output.code or output.stderr else "its answer makes no sense"
    raise UnreachableError(*about, happened, next if output.code else ended or next)


def command(program: Program, python: str) -> tuple[str, ...]:
    """The command that runs a program which comes on standard input, with its request."""
    return (python, *program.flags, "-c", BOOTSTRAP)


def command_with(program: Program, python: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a program whose standard input is not ours to use: it is an argument."""
    return (python, *program.flags, "-c", program.text, *arguments)


def _with_rights(
    connection: Connection, program: Program, user: str, python: str, argv: tuple[str, ...]
) -> tuple[str, ...]:
    if rights.is_contained(connection):
        return argv
    if program.whose == "ours":
        return rights.as_ours(argv)
    if program.whose == "owner":
        return rights.as_owner((python,), argv)
    return rights.as_service(user, (python,), argv)

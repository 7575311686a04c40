"""Emulations of old systemd tools: today's, which refuse and leave out what the old ones did not know.

The real ones are of CentOS 7 (219) and Ubuntu 18.04 and 20.04 (237, 245), of which no machine can be made
here. What they lack is from systemd's NEWS: InvocationID since 232, NRestarts since 235, `--output-fields`
since 236, `--grep` since 237, `busctl --json` since 240, ExecStartEx since 243, LogNamespace= since 245,
the invocation of a user's unit in the journal since 246.
"""

from __future__ import annotations

_REFUSE = """\
#!/bin/sh
# An emulation of {tool} of systemd {version}.
for word do
    case $word in {refused}) echo "{tool}: unrecognized option '$word'" >&2; exit 1 ;; esac
done
"""
_JOURNAL_219 = """\
for word do
    case $word in *INVOCATION_ID=*) echo "-- No entries --"; exit 0 ;; esac
done
/usr/bin/journalctl "$@" | grep -avE '^(_SYSTEMD_|USER_)?INVOCATION_ID='
"""
# Before 246 a line of a user's unit has the invocation of the user's manager.
_JOURNAL_245 = """\
case $* in *USER_INVOCATION_ID=*) ;; *) exec /usr/bin/journalctl "$@" ;; esac
for word do
    shift
    case $word in _SYSTEMD_INVOCATION_ID=*) word=_SYSTEMD_INVOCATION_ID=none ;; esac
    set -- "$@" "$word"
done
exec /usr/bin/journalctl "$@"
"""
_UNIT_237 = "/usr/bin/systemctl \"$@\" | grep -av -e '^LogNamespace='\n"
_UNIT_219 = f"{_UNIT_237.rstrip()} -e '^InvocationID=' -e '^NRestarts=' -e '^MemoryMax='\n"
_BUS_237 = """\
case " $* " in *ExecStartEx*) echo "Unknown interface or property ExecStartEx." >&2; exit 1 ;; esac
"""


def tools(version: int) -> dict[str, str]:
    """The programs of `/opt/systemd-VERSION`."""

    def program(tool: str, refused: str, rest: str = "") -> str:
        return _REFUSE.format(tool=tool, version=version, refused=refused) + rest

    def as_today(tool: str) -> str:
        return f'exec /usr/bin/{tool} "$@"\n'

    journal = {219: _JOURNAL_219, 245: _JOURNAL_245}.get(version, as_today("journalctl"))
    since = {"--output-fields*": 236, "--grep*": 237, "--namespace*": 245, "--truncate-newline": 254}
    since |= {"--invocation*": 257, "--list-invocations": 257}
    newer = "|".join(option for option, release in since.items() if version < release)
    return {
        f"/opt/systemd-{version}/journalctl": program("journalctl", newer, journal),
        f"/opt/systemd-{version}/systemctl": program(
            "systemctl",
            "--value" if version < 230 else "--none",
            _UNIT_219 if version < 232 else _UNIT_237 if version < 245 else as_today("systemctl"),
        ),
        f"/opt/systemd-{version}/busctl": program(
            "busctl",
            "--json*" if version < 240 else "--none",
            (_BUS_237 if version < 243 else "") + as_today("busctl"),
        ),
    }

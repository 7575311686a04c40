"""Boxes from the shell."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from . import registry
from .box import Bind, Box, Overlay, interpreter
from .errors import BoxError
from .host import why_not
from .registry import Entry
from .rootfs import rootfs


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    reason = why_not()
    if reason:
        print(f"no box can run here: {reason}", file=sys.stderr)
        return 2
    try:
        arguments.command(arguments)
    except BoxError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.box", description=__doc__)
    commands = parser.add_subparsers(required=True)

    build = commands.add_parser("build", help="build the root file system that all boxes share")
    build.set_defaults(command=_build)

    up = commands.add_parser("up", help="boot a box and leave it running")
    up.add_argument("name", nargs="?", default="box")
    up.add_argument("--address", help="127.0.1.N; by default the first that is free")
    up.add_argument("--bind", action="append", default=[], metavar="SOURCE[:TARGET[:rw]]")
    up.add_argument("--overlay", action="append", default=[], metavar="LOWER[:TARGET]")
    up.add_argument("--interpreter", action="store_true", help="bind this Python and its environment")
    up.set_defaults(command=_up)

    ssh = commands.add_parser("ssh", help="a shell in a box, or one command")
    ssh.add_argument("name")
    ssh.add_argument("argv", nargs=argparse.REMAINDER)
    ssh.set_defaults(command=_ssh)

    listing = commands.add_parser("list", help="the boxes of this machine")
    listing.set_defaults(command=_list)

    down = commands.add_parser("down", help="shut a box down, by name or address")
    which = down.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?")
    which.add_argument("--all", action="store_true", help="all that `up` has started")
    down.set_defaults(command=_down)
    return parser


def _build(arguments: argparse.Namespace) -> None:
    print(rootfs())


def _up(arguments: argparse.Namespace) -> None:
    if any(entry.kept and entry.name == arguments.name for entry in registry.entries()):
        raise BoxError(f"box {arguments.name} is already up")
    binds = [_bind(text) for text in arguments.bind] + (interpreter() if arguments.interpreter else [])
    overlays = [Overlay(*text.split(":", 1)) for text in arguments.overlay]
    box = Box(arguments.name, address=arguments.address, binds=binds, overlays=overlays, kept=True).start()
    print(f"{box.name} is up on {box.address}; its ssh_config is {box.ssh_config()}")
    print(shlex.join(_ssh_command(box.entry)))


def _bind(text: str) -> Bind:
    source, *rest = text.split(":")
    if rest[1:] not in ([], ["rw"]):
        raise BoxError(f"--bind {text}: not SOURCE[:TARGET[:rw]]")
    return Bind(Path(source).absolute(), rest[0] if rest else "", writable=rest[1:] == ["rw"])


def _ssh(arguments: argparse.Namespace) -> None:
    command = [*_ssh_command(registry.find(arguments.name)), *arguments.argv]
    os.execvp(command[0], command)


def _list(arguments: argparse.Namespace) -> None:
    for entry in registry.entries():
        holder = "up" if entry.kept else f"of process {entry.owner.pid}"
        print(f"{entry.name:20} {entry.address:12} port {entry.port:<5} {holder}")


def _down(arguments: argparse.Namespace) -> None:
    chosen = [e for e in registry.entries() if e.kept] if arguments.all else [registry.find(arguments.name)]
    for entry in chosen:
        registry.stop(entry)


def _ssh_command(entry: Entry) -> list[str]:
    return ["ssh", "-F", str(entry.directory / "ssh_config"), entry.name]


if __name__ == "__main__":
    sys.exit(main())

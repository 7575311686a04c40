"""No file that somebody hands over costs more than a few seconds and some hundred MB, whoever reads it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from triage.common import files

CPU = 15  # seconds
WALL = 60  # seconds; for a machine with other work
MEMORY = 768 << 20  # bytes, beyond what the imports took

YAML_KEYS = (
    *("id", "name", "title", "description", "category", "incident", "initiator", "roles", "ranks", "rules"),
    *("signatures", "remedies", "steps", "vars", "hosts", "groups", "deployments", "edits", "inventory"),
    *("all", "kimi", "model", "patches", "expect", "lines"),
)


def bomb(leaf: str, link: Callable[[str], str], levels: int = 12) -> str:
    """Half a kilobyte of aliases of aliases, as the value of every key that a file here may have."""
    lines = [f"a0: &a0 {leaf}", *(f"a{n}: &a{n} {link(f'*a{n - 1}')}" for n in range(1, levels))]
    return "\n".join((*lines, *(f"{key}: *a{levels - 1}" for key in YAML_KEYS)))


def lattice(levels: int = 60) -> str:
    """Groups of our own inventory, each with the next two, which are the same."""
    groups = [
        f"  g{n}: {{children: [h{n + 1}, g{n + 1}]}}\n  h{n}: {{children: [h{n + 1}, g{n + 1}]}}"
        for n in range(levels)
    ]
    last = f"  g{levels}: {{hosts: [a]}}\n  h{levels}: {{hosts: [a]}}"
    return "\n".join(("hosts: {a: {}}", "groups:", *groups, last))


def ini_lattice(levels: int = 60) -> str:
    parts = [f"[{one}{n}:children]\nh{n + 1}\ng{n + 1}" for n in range(levels) for one in "gh"]
    return "\n".join((f"[g{levels}]\na\n[h{levels}]\na", *parts))


HOSTILE: Mapping[str, str | bytes] = {
    "nothing": "",
    "noise": bytes(range(256)) * 64,
    "lists of aliases": bomb("[x, x, x]", lambda a: f"[{', '.join([a] * 9)}]"),
    "mappings of aliases": bomb("{x: y}", lambda a: f"{{{', '.join(f'k{n}: {a}' for n in range(9))}}}"),
    "merged aliases": bomb("{x: y}", lambda a: f"{{<<: [{', '.join([a] * 9)}]}}", 9),
    "groups of aliases": bomb(
        "{hosts: {x: {}}}", lambda a: f"{{children: {{{', '.join(f'k{n}: {a}' for n in range(9))}}}}}"
    ),
    "long texts of aliases": f"a: &a {'x' * 500_000}\n"
    + "\n".join(f"{key}: [{', '.join(['*a'] * 4000)}]" for key in YAML_KEYS),
    "what holds itself": "\n".join(f"{key}: &{key} [*{key}, {{x: *{key}}}]" for key in YAML_KEYS),
    "what is deep": "\n".join(f"{key}: {'[' * 900}{']' * 900}" for key in YAML_KEYS),
    "a long number": f"name: 1{':59' * 500_000}",
    "keys with one hash": "vars: {" + ", ".join(f"{n * (2**61 - 1)}: 0" for n in range(1, 25_000)) + "}",
    "many keys": "hosts: {" + ", ".join(f"k{n}: {{z: 1}}" for n in range(25_000)) + "}",
    "a long key of many": "hosts: {? "
    + "k" * 500_000
    + "\n: {"
    + ", ".join(f"k{n}: 1" for n in range(25_000))
    + "}}",
    "many ranges": "hosts: {" + ", ".join(f"'h{n}-[1:10000]': {{}}" for n in range(5_000)) + "}",
    "ranges of ranges": f"hosts: {{'h{'[1:1]' * 50_000}': {{}}}}",
    "a range again and again": "hosts: {'h[1:9000]': {}}\ngroups: {g: {hosts: ["
    + ", ".join(["'h[1:9000]'"] * 20_000)
    + "]}}",
    "a lattice": lattice(),
    "a lattice in INI": ini_lattice(),
    "a chain": "hosts: {'h[1:9999]': {}}\ngroups: {"
    + ", ".join(f"g{n}: {{children: [g{n + 1}]}}" for n in range(20_000))
    + ", g20000: {hosts: ['h[1:9999]']}}",
    "deep JSON": "[" * 500_000,
    "deep and whole JSON": '{"schema": ' + "[" * 900 + "]" * 900 + "}",
    "empty lists": b'{"schema": "triage.diagnosis/1", "x": [' + b"[]," * 6_000_000 + b"[]]}",
    "empty objects in lines": b'{"schema":{},"a":[' + b"{}," * 6_000_000 + b"{}]}\n",
    "a long number in JSON": '{"schema": 1' + "0" * 3_000_000 + "}",
    "a pipe": "",
    "a device": "",
    "a directory": "",
    "no end": "",  # a sparse file of 64 GiB
}


def put(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a directory":
        path.mkdir()
    elif kind == "no end":
        path.touch()
        os.truncate(path, 64 << 30)
    else:
        data = HOSTILE[kind]
        path.write_bytes(data if isinstance(data, bytes) else data.encode())


def _rules(room: Path) -> None:
    from triage.rules.load import load_rules

    load_rules(base=room)


def _lint(room: Path) -> None:
    from triage.rules.authoring.lint import lint

    list(lint([room], ()))


def _lines(room: Path) -> None:
    from triage.logs.faults.line_files import load_lines

    load_lines([room])


def _patch(room: Path) -> None:
    from triage.patching.load import load_patch

    load_patch(room / "x.yaml")


def _playbook(room: Path) -> None:
    from triage.playbook.load import load_playbook

    load_playbook(str(room / "x.yaml"))


def _variable(room: Path) -> None:
    from triage.playbook.load import load_playbook
    from triage.playbook.variables import resolve

    shipped = load_playbook("capture-for-bug-report")
    if not (room / "x").is_file():
        return
    with (room / "x").open("rb") as file:  # a command line holds no more
        text = file.read(100_000).decode("latin-1")
    resolve(shipped, [f"{name}={text}" for name in shipped.vars])


def _inventory(name: str) -> Callable[[Path], None]:
    def load(room: Path) -> None:
        from triage.hosts.inventory.load import load_inventory

        load_inventory(room / name).select("all")

    return load


def _variables_beside(room: Path) -> None:
    from triage.hosts.inventory.load import load_inventory

    (room / "hosts").write_text("[kimi]\na\n")
    load_inventory(room / "hosts")


def _config(room: Path) -> None:
    from triage.common.config import load_config

    os.environ["XDG_CONFIG_HOME"] = str(room)
    load_config()


def _case(room: Path) -> None:
    from triage.evidence.cases.case import read_case

    read_case(room)


def _answer(room: Path) -> None:
    from triage.evidence.cases.case import read_case

    answer = {"key": "host-name {}", "command": "x", "file": "answers/a.txt", "sha256": "0" * 64}
    told = {"schema": "triage.case/1", "created": "", "answers": [answer]}
    (room / "manifest.json").write_text(json.dumps(told))
    read_case(room)


def _archive(room: Path) -> None:
    from triage.evidence.cases.case import read_case

    read_case(room / "x.tar.zst")


def _packed(room: Path) -> None:
    """The same bytes as the manifest in an archive."""
    from triage.evidence.cases import archive, case

    if not (room / "x").is_file() or (room / "x").stat().st_size > 1 << 30:
        return
    data = (room / "x").read_bytes()
    (room / "in").mkdir()
    (room / "in" / "manifest.json").write_bytes(data)
    archive.pack(room / "in", room / "x.tar.zst")
    case.read_case(room / "x.tar.zst")


def _expected(room: Path) -> None:
    from triage.workflows.diagnose import Knowledge
    from triage.workflows.replay import replay

    told = {"schema": "triage.case/1", "created": "", "answers": []}
    (room / "manifest.json").write_text(json.dumps(told))
    for one in replay([room], Knowledge((), ())):
        assert one.differences


def _history(room: Path) -> None:
    from triage.verify.history import History

    history = History(room)
    list(history.read("h", "d"))


def _baseline(room: Path) -> None:
    from triage.verify.history import History

    History(room).pinned("h", "d")


def _foreign(room: Path) -> None:
    from triage.verify.load.other_tools import read_foreign

    read_foreign(room / "x")


def _report(room: Path) -> None:
    from triage.report.documents import read_document

    read_document(room / "x")


def _earlier_result(room: Path) -> None:
    from triage.workflows.verdict_diff import from_result

    from_result(room / "x", [Path("case")])


def _progress(room: Path) -> None:
    from triage.playbook.load import load_playbook
    from triage.playbook.progress import Progress

    progress = Progress(load_playbook("capture-for-bug-report"), "h", {}, room)
    (room / "x").rename(progress.path)
    progress.read()


def _bench_progress(room: Path) -> None:
    from triage.verify.layouts.bench_progress import BenchProgress

    progress = BenchProgress("h", "d", room)
    (room / "x").rename(progress.path)
    progress.rates()


def _log(room: Path) -> None:
    from triage.logs.reading.load import open_log

    open_log(str(room / "x"), limit=64 << 20)


def _engine_config(room: Path) -> None:
    from triage.evidence.discovery.engine_config_file import arguments_in

    if (room / "x").is_file() and (room / "x").stat().st_size < 1 << 30:
        arguments_in("sglang", (room / "x").read_text("latin-1"))


LOADERS: Mapping[str, tuple[str, Callable[[Path], None]]] = {
    "rules": ("x.yaml", _rules),
    "lint": ("x.yaml", _lint),
    "lines": ("x.yaml", _lines),
    "patch": ("x.yaml", _patch),
    "playbook": ("x.yaml", _playbook),
    "variable": ("x", _variable),
    "inventory": ("hosts.yaml", _inventory("hosts.yaml")),
    "inventory in INI": ("hosts", _inventory("hosts")),
    "group_vars": ("group_vars/kimi.yml", _variables_beside),
    "config": ("triage/config.yaml", _config),
    "manifest": ("manifest.json", _case),
    "answer": ("answers/a.txt", _answer),
    "archive": ("x.tar.zst", _archive),
    "packed manifest": ("x", _packed),
    "expected.yaml": ("expected.yaml", _expected),
    "history": ("d@h.jsonl", _history),
    "baseline": ("d@h.baseline", _baseline),
    "result of another tool": ("x", _foreign),
    "report": ("x", _report),
    "earlier result": ("x", _earlier_result),
    "progress": ("x", _progress),
    "progress of a bench": ("x", _bench_progress),
    "log": ("x", _log),
    "config of an engine": ("x", _engine_config),
}


@pytest.mark.slow
@pytest.mark.parametrize("loader", LOADERS)
def test_no_file_costs_much(loader: str, tmp_path: Path) -> None:
    code = f"import {__name__} as it; it.try_all({loader!r}, {str(tmp_path)!r})"
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr[-3000:]


READS = re.compile(r"""\.read_(?:text|bytes)\(|open\((?:[^()]|\([^()]*\))*["']r?b?["']\)""")
OURS = {
    "common/files.py": 2,  # `open_plain`
    "report/page/__init__.py": 1,  # shipped
    "remote/__init__.py": 1,  # shipped
    "scan/cache.py": 1,  # modules of ours
    "cli/rules.py": 1,  # pages that were written here, of a plain file
    "evidence/cases/archive.py": 1,  # plain files of a case that was just written
}


def test_whatever_reads_goes_by_one_function() -> None:
    """A new reader calls `open_plain`, `read_plain` or `load_model`, or comes into this list."""
    here = Path(files.__file__).parents[1]
    found = {
        path.relative_to(here).as_posix(): len(READS.findall(path.read_text("utf-8")))
        for path in here.rglob("*.py")
        if not path.name.endswith(("_agent.py", "_standalone.py", "_observer.py"))  # what runs on hosts
    }
    assert {name: count for name, count in found.items() if count} == OURS


def try_all(loader: str, room: str) -> None:
    """In a process of its own, and each file in a child of that: only a child can be limited and killed."""
    import contextlib
    import shutil

    name, load = LOADERS[loader]
    warm = Path(room, "warm")
    put("nothing", warm / name)
    with contextlib.suppress(Exception):  # so that no child imports
        load(warm)
    for kind in HOSTILE:
        place = Path(room, "place")
        put(kind, place / name)
        child = os.fork()
        if not child:
            _in_child(load, place)
        status = os.waitpid(child, 0)[1]
        if status:
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "another error"
            print(f"{loader}: {kind}: {how}")
        shutil.rmtree(place)


def _in_child(load: Callable[[Path], None], place: Path) -> None:
    import resource
    import signal
    import traceback

    from triage.common.errors import TriageError

    try:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
        signal.alarm(WALL)
        load(place)
    except (TriageError, ValueError, IsADirectoryError):
        pass
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

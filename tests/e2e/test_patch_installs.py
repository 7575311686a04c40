"""A change to an engine, however it was installed, made and taken back on a real machine."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.e2e.box import Box, interpreter
from tests.patching.trees import BACKEND, BACKEND_SOURCE, install
from triage.cli.app import app
from triage.common.errors import TriageError

PATCH = "sglang-triton-value-head-dim"
NEW = BACKEND_SOURCE.replace(
    "get_value_buffer(0)", "get_value_buffer(model_runner.token_to_kv_pool.start_layer)"
)
VENV, SITE = "/opt/engine", "/opt/engine/lib/python3.11/site-packages"
MODULE = BACKEND.replace(".", "/") + ".py"
WHEEL = "/srv/sglang-0.5.11-py3-none-any.whl"
SERVER = """\
import time

print("The server is fired up and ready to roll!", flush=True)
time.sleep(100000)
"""
UNIT = f"""\
[Service]
ExecStart={VENV}/bin/python -m sglang.launch_server --model-path /m --port 31999
"""
PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "sglang"
version = "0.5.11"
[tool.setuptools.packages.find]
where = ["{where}"]
include = ["sglang*"]
"""
RECORDER = '#!/bin/sh\necho "$@" >>/var/log/systemctl-calls\nexec /usr/bin/systemctl "$@"\n'
UV = f"{sys.prefix}/bin/uv --offline --cache-dir /opt/cache"
INSTALL = f"{UV} pip install -q --python {VENV} --no-index --no-deps"
EDITABLE = (
    "mkdir /opt/src && cp -r /srv/{layout} /opt/src/sglang && "
    f"PYTHONPATH=/srv/tools {INSTALL} --no-build-isolation -e /opt/src/sglang"
)
EGG = "sglang-0.5.11-py3.11.egg"


@dataclass(frozen=True)
class Way:
    """How the engine came to be installed, and where its source then is."""

    commands: str
    source: str = f"{SITE}/{MODULE}"


PIP = f"{sys.executable} -m pip --python {VENV}/bin/python install -q --no-index --no-deps {WHEEL}"
WAYS = {
    "hard links into uv's cache": Way(f"{INSTALL} --link-mode=hardlink {WHEEL}"),
    "symbolic links into uv's cache": Way(f"{INSTALL} --link-mode=symlink {WHEEL}"),
    "editable, by path": Way(EDITABLE.format(layout="by-path"), f"/opt/src/sglang/src/{MODULE}"),
    "editable, by finder": Way(EDITABLE.format(layout="by-finder"), f"/opt/src/sglang/{MODULE}"),
    "a virtual environment behind a link": Way(
        f"mv {VENV} /opt/engine-1 && ln -s engine-1 {VENV} && {INSTALL} {WHEEL}",
        f"/opt/engine-1/lib/python3.11/site-packages/{MODULE}",
    ),
    "site-packages behind a link": Way(
        f"{INSTALL} {WHEEL} && mv {SITE} /opt/packages && ln -s /opt/packages {SITE}",
        f"/opt/packages/{MODULE}",
    ),
    "an unpacked egg": Way(
        f"cp -r /srv/unpacked {SITE}/{EGG} && echo ./{EGG} >{SITE}/easy-install.pth", f"{SITE}/{EGG}/{MODULE}"
    ),
}


@pytest.fixture(scope="module")
def shared(rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """One box for all installations; what they need is under /srv."""
    srv = tmp_path_factory.mktemp("srv")
    for layout, where in (("by-path", "src"), ("by-finder", ".")):
        project = srv / layout
        engine_in(project / where)
        (project / "pyproject.toml").write_text(PROJECT.format(where=where))
    build = [
        "pip",
        "wheel",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(srv),
    ]
    subprocess.run([sys.executable, "-m", *build, str(srv / "by-path")], check=True, capture_output=True)
    engine_in(srv / "unpacked")
    with zipfile.ZipFile(srv / EGG, "w") as egg:
        for file in sorted((srv / "unpacked").rglob("*.py")):
            egg.write(file, file.relative_to(srv / "unpacked"))
    import setuptools

    tools = Path(setuptools.__file__).parents[1]
    (srv / "tools").mkdir()
    for path in (*tools.glob("setuptools*"), tools / "_distutils_hack"):
        (srv / "tools" / path.name).symlink_to(path)
    files = {"/srv": srv, "/etc/systemd/system/sglang.service": UNIT, "/usr/local/bin/systemctl": RECORDER}
    with Box(binds=interpreter(), files=files) as box:
        yield box


def engine_in(directory: Path) -> None:
    install(directory)
    (directory / "sglang-0.5.11.dist-info").rmdir()
    (directory / "sglang" / "launch_server.py").write_text(SERVER)


@pytest.fixture
def box(shared: Box) -> Box:
    """As if nothing had ever been installed."""
    shared.run(
        f"systemctl stop sglang; rm -rf {VENV} /opt/* /var/lib/triage /var/log/systemctl-calls; "
        f"{UV} venv -q --python /usr/bin/python3 {VENV}",
        check=True,
    )
    return shared


def triage(box: Box, *words: str, code: int = 0) -> dict[str, Any]:
    """A command line's JSON; of one that failed without any, what it would say on stderr."""
    argv = ["patch", *words, "--ssh-config", str(box.ssh_config()), "--format", "json"]
    done = CliRunner().invoke(app, argv)
    error = done.exception if isinstance(done.exception, TriageError) else None
    assert (error.exit_code if error else done.exit_code) == code, (done.output, done.exception)
    return dict(json.loads(done.stdout)) if done.stdout else {"error": str(error)}


def apply(box: Box, code: int = 0) -> dict[str, Any]:
    given = ("--given", "pool_class=MLATokenToKVPool")
    return triage(box, box.name, "--unit", "sglang", "--id", PATCH, *given, "--apply", "--yes", code=code)


def imported(box: Box) -> str:
    """The text of the module that the engine's Python would run."""
    code = (
        f"import importlib.util as u; spec = u.find_spec('{BACKEND}'); "
        "print(spec.loader.get_source(spec.name), end='')"
    )
    return box.run([f"{VENV}/bin/python", "-B", "-c", code], check=True).stdout


def put_in(box: Box, commands: str) -> str:
    """Install the engine, and start it; gives the service's process."""
    box.run(f"{commands} && /usr/bin/systemctl start sglang", check=True)
    assert imported(box) == BACKEND_SOURCE
    return process(box)


def process(box: Box) -> str:
    return box.run(["/usr/bin/systemctl", "show", "-P", "MainPID,InvocationID,NRestarts", "sglang"]).stdout


def verbs(box: Box) -> set[str]:
    """What systemctl was asked for over SSH."""
    calls = box.run(["cat", "/var/log/systemctl-calls"], check=True).stdout.splitlines()
    return {next(word for word in call.split() if not word.startswith("-")) for call in calls}


@pytest.mark.parametrize("name", WAYS)
def test_the_source_that_is_imported_is_changed_and_comes_back(box: Box, name: str) -> None:
    running = put_in(box, WAYS[name].commands)
    cached = "find /opt/cache -type f -exec sha256sum {} + | sort"
    cache = box.run(cached).stdout
    (change,) = apply(box)["changes"]
    assert [file["path"] for file in change["files"]] == [WAYS[name].source]
    assert imported(box) == NEW
    (change,) = triage(box, "status", box.name)["changes"]
    assert (change["state"], change["files"][0]["now"]) == ("applied", change["files"][0]["after"])
    triage(box, "rollback", box.name, "--id", PATCH, "--yes")
    assert imported(box) == BACKEND_SOURCE
    assert box.run(cached).stdout == cache
    # Whoever runs the service decides when it is restarted.
    assert process(box) == running
    assert verbs(box) <= {"show", "cat", "list-units", "list-unit-files", "is-active", "--version"}


def test_the_cache_of_uv_stays_good_for_the_next_environment(box: Box) -> None:
    put_in(box, WAYS["hard links into uv's cache"].commands)
    (change,) = apply(box)["changes"]
    assert change["files"][0]["links"] == 2
    box.run(f"mv {VENV} /opt/first && {UV} venv -q --python /usr/bin/python3 {VENV}", check=True)
    box.run(WAYS["hard links into uv's cache"].commands, check=True)
    assert imported(box) == BACKEND_SOURCE


def test_an_egg_is_refused_by_name(box: Box) -> None:
    put_in(box, f"cp /srv/{EGG} {SITE} && echo ./{EGG} >{SITE}/easy-install.pth")
    (plan,) = apply(box, code=4)["patches"]
    assert (plan["state"], f"{SITE}/{EGG} is an archive" in plan["reason"]) == ("unreadable", True)
    assert triage(box, "status", box.name)["changes"] == []


def test_a_package_that_was_installed_again_behind_our_back(box: Box) -> None:
    put_in(box, PIP)
    (first,) = apply(box)["changes"]
    box.run(f"{PIP} --force-reinstall", check=True)
    assert imported(box) == BACKEND_SOURCE
    (change,) = triage(box, "status", box.name)["changes"]
    assert (change["state"], change["files"][0]["now"]) == ("applied", change["files"][0]["before"])
    (second,) = apply(box)["changes"]
    assert second["id"] != first["id"]
    assert imported(box) == NEW
    triage(box, "rollback", box.name, "--id", second["id"], "--yes")
    assert imported(box) == BACKEND_SOURCE
    # The first one was undone by the installation; taking it back is done, and writes nothing.
    before = box.run(["stat", "-c", "%i %z", f"{SITE}/{MODULE}"]).stdout
    triage(box, "rollback", box.name, "--id", first["id"], "--yes")
    assert box.run(["stat", "-c", "%i %z", f"{SITE}/{MODULE}"]).stdout == before


@pytest.mark.parametrize("what", ["removed", "another version"])
def test_a_package_that_is_not_there_any_more(box: Box, what: str) -> None:
    put_in(box, PIP)
    (first,) = apply(box)["changes"]
    box.run(f"{UV} pip uninstall -q --python {VENV} sglang && rm -rf {SITE}/sglang", check=True)
    if what == "another version":
        text = BACKEND_SOURCE + "# 0.5.12"
        box.run(
            f"{PIP}; mv {SITE}/sglang-0.5.11.dist-info {SITE}/sglang-0.5.12.dist-info",
            check=True,
        )
        box.put(f"{SITE}/{MODULE}", text)
    (change,) = triage(box, "status", box.name)["changes"]
    assert change["superseded"]
    assert (change["files"][0]["now"] is None) == (what == "removed")
    said = triage(box, "rollback", box.name, "--id", first["id"], "--yes", code=4)["error"]
    assert f"{SITE}/{MODULE} {'is gone' if what == 'removed' else 'has changed since'}" in said

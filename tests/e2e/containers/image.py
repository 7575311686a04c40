"""A container image without a registry, as `docker save` writes one, made of files of a Debian tree.

It holds a Python, a shell and, as `sglang`, the server that the tests of verification use.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SERVER = Path(__file__).parents[2] / "verify" / "server.py"
PROGRAMS = ("python3.11", "dash", "cat", "ls", "env", "sleep", "readlink", "grep", "tar", "stat", "id")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PACKAGES = "usr/local/lib/python3.11/dist-packages"
LINKS = {
    "bin": "usr/bin",
    "lib": "usr/lib",
    "lib64": "usr/lib64",
    "usr/bin/sh": "dash",
    "usr/bin/python3": "python3.11",
}
LAUNCH = '''\
"""START=ready|hurt|dies|once|oom: serves, also after a fault, fails as a stage without its first layer does,
or takes all memory."""
import os, runpy, sys, time, traceback

def value(flag, otherwise):
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else otherwise

def get_value_buffer(pool, layer):
    return pool[layer]

start, port = os.environ.get("START", "ready"), value("--port", "31777")
print(f"server_args=ServerArgs(pp_size={value('--pp-size', 1)})", flush=True)
print("[2026-11-29 20:30:01 PP3] Load weight begin.", flush=True)
if start == "dies" or (start == "once" and not os.path.exists("/state/died")):
    time.sleep(0.5)
    if start == "once":
        open("/state/died", "w").close()
    get_value_buffer([], 0)
if start == "hurt":
    try:
        get_value_buffer([], 0)
    except IndexError:
        traceback.print_exc()
if start == "oom":
    held = []
    while True:
        held.append(bytearray(1 << 20))
sys.argv = ["server.py", port, "ok", "ready"]
runpy.run_path(os.path.join(os.path.dirname(__file__), "server.py"), run_name="__main__")
'''
SERVICE = {
    f"{PACKAGES}/sglang/__init__.py": "",
    f"{PACKAGES}/sglang/launch_server.py": LAUNCH,
    f"{PACKAGES}/sglang-0.5.11.dist-info/METADATA": "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.11\n",
    "models/kimi/config.json": '{"num_hidden_layers": 61, "architectures": ["DeepseekV3ForCausalLM"]}\n',
    "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
    "tmp/.keep": "",
    "root/.keep": "",
}


def installed() -> dict[str, str]:
    """The service's files, by their paths."""
    return SERVICE | {f"{PACKAGES}/sglang/server.py": SERVER.read_text()}


def archive(tree: Path, tag: str, entrypoint: Sequence[str] = ()) -> bytes:
    """The image `tag`, of programs of a Debian bookworm tree, and the service."""
    layer = _layer(tree, installed())
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]}]).encode()
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for path, data in ((name, config), (f"{digest}/layer.tar", layer), ("manifest.json", manifest)):
            _add(tar, path, data)
    return made.getvalue()


def _layer(tree: Path, files: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for link, target in LINKS.items():
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        paths = [tree / "usr/bin" / program for program in PROGRAMS]
        paths += sorted((tree / LIBRARIES).glob("lib*.so*")) + sorted((tree / LIBRARIES).glob("ld-linux*"))
        paths += [tree / "usr/lib/python3.11", tree / "usr/lib64"]
        for path in paths:
            tar.add(path, str(path.relative_to(tree)))
        for path, text in files.items():
            _add(tar, path, text.encode())
    return made.getvalue()


def _add(tar: tarfile.TarFile, path: str, data: bytes) -> None:
    info = tarfile.TarInfo(path)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))

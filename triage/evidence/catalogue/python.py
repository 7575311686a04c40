"""What an interpreter would import: its module search and packages, found without importing them.

$ env -i PYTHONPATH=/srv/code /opt/sglang/bin/python -B -       (the script below on standard input)
{"version": "3.11.2", "prefix": "/opt/sglang", "path": ["/srv/code", ...],
 "packages": {"sglang": "/opt/sglang/lib/python3.11/site-packages/sglang", ...},
 "distributions": {"sglang": "0.5.11", "torch": "2.11.0", ...}}
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from triage.common.json import parse_json
from triage.engines import ENGINES
from triage.evidence.model import MEBI, Query, Unanswered

_OF_ENGINES = [engine.package for engine in ENGINES.values() if engine.package.name]
PACKAGES = (
    *(name for package in _OF_ENGINES for name in (package.name, *package.companions)),
    *("torch", "triton", "flashinfer", "transformers"),
)
DISTRIBUTIONS = (
    *(name for package in _OF_ENGINES for name in (*package.distributions, *package.companion_distributions)),
    *("torch", "triton", "flashinfer-python", "transformers"),
    *("flash-attn", "xformers", "ray", "numpy", "nvidia-nccl-cu12", "nvidia-nccl-cu13"),
)
# What decides where an interpreter looks for modules.
SEARCH_VARIABLES = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONSAFEPATH", "PYTHONPLATLIBDIR"),
    *("LD_LIBRARY_PATH", "VIRTUAL_ENV", "HOME"),
)

# `first` is what the service has at the front of sys.path: its working directory for `python -m`, the
# script's directory for a script.
_SCRIPT = """\
import sys
if sys.path and sys.path[0] == "":
    del sys.path[0]
import importlib.util, json, os
if {first!r}:
    sys.path.insert(0, {first!r})
packages = {{}}
for name in {packages!r}:
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        continue
    if spec is None:
        continue
    places = list(spec.submodule_search_locations or ())
    packages[name] = places[0] if places else spec.origin
distributions = {{}}
wanted = {{name.replace("-", "_"): name for name in {distributions!r}}}
for place in sys.path:
    try:
        entries = sorted(os.listdir(place))
    except OSError:
        continue
    for entry in entries:
        stem, _, kind = entry.rpartition(".")
        name = wanted.get(stem.partition("-")[0].replace(".", "_").lower(), "")
        if name and name not in distributions and kind in ("dist-info", "egg-info"):
            file = os.path.join(place, entry, "METADATA" if kind == "dist-info" else "PKG-INFO")
            try:
                with open(file, encoding="utf-8", errors="replace") as lines:
                    found = next((line for line in lines if line.startswith("Version:")), "")
            except OSError:
                continue
            distributions[name] = found[len("Version:"):].strip()
print()
print(json.dumps({{"version": sys.version.split()[0], "prefix": sys.prefix, "path": sys.path,
                  "packages": packages, "distributions": distributions}}))
"""


@dataclass(frozen=True)
class Interpreter:
    """An interpreter's view: `packages` maps a module name to its directory (or file)."""

    version: str
    prefix: str
    path: tuple[str, ...]
    packages: Mapping[str, str]
    distributions: Mapping[str, str]


@dataclass(frozen=True)
class PythonTree(Query[Interpreter]):
    """Asks where `python` finds packages, with the service's environment, directory and front of sys.path.

    Runs the interpreter with -B, so that nothing is written; its own start-up files run, as they do
    for the service. So where we are root, `user` says as whom: the service's own user.
    """

    name: ClassVar[str] = "python-tree"
    purpose: ClassVar[str] = "find the source tree that serves, and its versions"
    absence: ClassVar[str] = (
        "the tree and versions are those that the traceback and the log name, and a disagreement says so"
    )
    privilege: ClassVar[str] = "permission to run the service's interpreter"
    limit: ClassVar[int] = MEBI

    python: str
    environment: tuple[tuple[str, str], ...] = ()
    working_directory: str = ""
    first: str = ""
    user: str = ""

    def argv(self) -> tuple[str, ...]:
        who = ("runuser", "-u", self.user, "--") if self.user else ()
        variables = (f"{name}={self._absolute(name, value)}" for name, value in self.environment)
        return (*who, "env", "-i", *variables, self.python, "-B", "-")  # nothing of our own environment

    def places(self) -> tuple[str, ...]:
        return () if self.user else (self.python,)

    def stdin(self) -> bytes:
        return _SCRIPT.format(first=self.first, packages=PACKAGES, distributions=DISTRIBUTIONS).encode()

    def _absolute(self, name: str, value: str) -> str:
        """PYTHONPATH as the service means it: from its own directory."""
        if name != "PYTHONPATH" or not self.working_directory:
            return value
        return ":".join(posixpath.join(self.working_directory, entry) for entry in value.split(":"))

    def parse(self, text: str) -> Interpreter:
        lines = text.strip().splitlines()  # start-up files may have printed before
        try:
            told = parse_json(lines[-1])
            return Interpreter(
                str(told["version"]),
                str(told["prefix"]),
                tuple(str(entry) for entry in told["path"]),
                {str(name): str(place) for name, place in told["packages"].items() if place},
                {str(name): str(version) for name, version in told["distributions"].items()},
            )
        except (LookupError, ValueError, TypeError, AttributeError):
            raise Unanswered(f"{self.python} gave no usable answer") from None


def search_environment(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The part of an environment that decides where modules are found, in order of name."""
    return tuple((name, environment[name]) for name in sorted(SEARCH_VARIABLES) if name in environment)

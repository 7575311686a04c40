"""Make the service's environment: `python -m examples.story.setup DIR [--version 0.5.11]`.

DIR becomes a virtual environment that holds the real `sglang` of that version as pip installs it, the
stand-ins of `service/`, models without weights, and a unit file. torch and numpy are taken from the
environment that runs this program. A DIR that is up to date is left as it is.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import importlib.util
import json
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "0.5.11"
STAMP = "story.json"
HELPERS = ("msgspec", "psutil", "setproctitle")  # SGLang's own requirements that the story uses for real
OTHER_PYTHONS = ("3.12", "3.11", "3.10")  # whose wheels serve when there is none for this Python


class SetupError(Exception):
    """What failed, and what to do."""


def prepare(directory: Path, version: str = VERSION) -> bool:
    """Make DIR unless it is up to date; tells whether it was made.

    It is built beside DIR and renamed, so that DIR is whole at every moment.
    """
    directory = directory.resolve()
    stamp = _stamp(version)
    if _read_stamp(directory) == stamp:
        return False
    if directory.exists() and any(directory.iterdir()) and _read_stamp(directory) is None:
        raise SetupError(f"{directory} is not empty and was not made by this program; choose another directory")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as scratch:
        built = Path(scratch) / "new"
        _build(built, directory, version)
        (built / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
        _put(built, directory, aside=Path(scratch) / "old")
    return True


def site_packages(directory: Path) -> Path:
    """Where the environment's packages are."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(directory), "platbase": str(directory)}))


def _build(built: Path, final: Path, version: str) -> None:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(built)
    packages = site_packages(built)
    _install_sglang(packages, version)
    _pip("install", "--target", str(packages), *HELPERS)
    (packages / "torch-of-setup.pth").write_text(f"{_home_of('torch')}\n{_home_of('numpy')}\n", encoding="utf-8")
    shutil.copytree(HERE / "service", packages / "story", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "story.pth").write_text("import story.hook\n", encoding="utf-8")
    shutil.copytree(HERE / "models", built / "models")
    unit = (HERE / "sglang-kimi.service").read_text(encoding="utf-8")
    (built / "sglang-kimi.service").write_text(unit.replace("@DIR@", str(final)), encoding="utf-8")
    _compile(packages)


def _install_sglang(packages: Path, version: str) -> None:
    """Install the wheel for this Python, or another Python's: only its .py files are used."""
    wanted = ("install", "--no-deps", "--no-compile", "--target", str(packages), f"sglang=={version}")
    foreign = ["--only-binary=:all:", "--platform", "manylinux_2_34_x86_64", "--python-version"]
    tries = [wanted, *((*wanted, *foreign, python) for python in OTHER_PYTHONS)]
    for number, arguments in enumerate(tries, 1):
        try:
            return _pip(*arguments)
        except SetupError:
            if number == len(tries):
                raise


def _compile(packages: Path) -> None:
    """Compile what runs, as pip would have compiled everything."""
    real = runpy.run_path(str(HERE / "service" / "real.py"))["REAL"]
    compileall.compile_dir(packages / "story", quiet=2)
    for name in real:
        for file in (packages / f"{name.replace('.', '/')}.py", packages / name.replace(".", "/") / "__init__.py"):
            if file.exists():
                compileall.compile_file(file, quiet=2)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SetupError(f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")


def _home_of(package: str) -> Path:
    """The directory on the module search path that holds a package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SetupError(f"the service needs {package}: {sys.executable} -m pip install torch numpy")
    return Path(spec.origin).parent.parent


def _stamp(version: str) -> dict[str, str]:
    """What an environment was made of."""
    digest = hashlib.sha256()
    for file in sorted(HERE.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".md":
            digest.update(f"{file.relative_to(HERE)}\0".encode() + file.read_bytes())
    return {
        "version": version,
        "python": sys.version,
        "torch": str(_home_of("torch")),
        "story": digest.hexdigest(),
    }


def _read_stamp(directory: Path) -> object:
    try:
        return json.loads((directory / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _put(built: Path, directory: Path, aside: Path) -> None:
    """Rename `built` to `directory`, whose old content goes to `aside`."""
    if directory.exists():
        directory.rename(aside)
    built.rename(directory)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--version", default=VERSION, help="of sglang (default: %(default)s)")
    options = parser.parse_args()
    try:
        made = prepare(options.directory, options.version)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    print(f"{options.directory}: sglang {options.version} {'made' if made else 'was there'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

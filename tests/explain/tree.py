"""A small engine: arguments, a configuration, a model runner and a layer, as the real ones are laid out."""

from __future__ import annotations

import textwrap
from pathlib import Path

FILES = {
    "sglang/__init__.py": "",
    "sglang/srt/__init__.py": "",
    "sglang/srt/server_args.py": """
        import argparse
        import dataclasses

        @dataclasses.dataclass
        class ServerArgs:
            model_path: str
            tp_size: int = 1
            kv_cache_dtype: str = "auto"
            chunk: int = 128

            def check(self):
                if self.kv_cache_dtype not in ("auto", "fp8"):
                    raise ValueError(f"kv cache dtype {self.kv_cache_dtype} is not supported")

            @staticmethod
            def add(parser: argparse.ArgumentParser):
                parser.add_argument("--tensor-parallel-size", "--tp", dest="tp_size", type=int, default=1)
                parser.add_argument("--kv-cache-dtype", choices=["auto", "fp8"], default="auto")
        """,
    "sglang/srt/environ.py": """
        class Envs:
            SGLANG_PLAN = 1
        """,
    "sglang/srt/layer.py": """
        import os

        from sglang.srt.environ import envs

        class Attention:
            def __init__(self, config, tp_size, mode):
                num_heads = config.num_attention_heads
                if mode == "off":
                    return
                if num_heads % tp_size != 0:
                    raise ValueError(
                        "the number of heads (%d) must be divisible by the ranks (%d)" % (num_heads, tp_size)
                    )
                self.heads = num_heads // tp_size
                self.plan = envs.SGLANG_PLAN.get()

            def at(self, table, index):
                assert self.plan < 3, f"plan {self.plan} is none"
                where = int(os.environ["SGLANG_WHERE"])
                return table[where]
        """,
    "sglang/srt/model_runner.py": """
        from sglang.srt.layer import Attention

        class ModelRunner:
            def __init__(self, server_args, hf_config):
                self.server_args = server_args
                self.tp = server_args.tp_size
                self.layer = Attention(hf_config, self.tp, "on")
        """,
}


def install(root: Path) -> Path:
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    return root


def line_of(root: Path, file: str, words: str) -> int:
    """The number of the line that has these words."""
    lines = (root / file).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line)

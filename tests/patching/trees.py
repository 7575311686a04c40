"""A small installed package with the story's defect, for tests that change it."""

from __future__ import annotations

import base64
import hashlib
import shutil
from pathlib import Path

BACKEND = "sglang.srt.layers.attention.triton_backend"
POOL = "sglang.srt.mem_cache.memory_pool"

BACKEND_SOURCE = '''\
"""Attention, in triton."""


class TritonAttnBackend:
    def __init__(self, model_runner):
        if model_runner.is_hybrid:
            self.v_head_dim = model_runner.token_to_kv_pool.get_v_head_dim()
        else:
            self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(0).shape[
                -1
            ]  # the width of a value

    def forward(self, layer):
        return self.token_to_kv_pool.get_value_buffer(layer.layer_id)
'''

POOL_SOURCE = """\
class KVCache:
    def __init__(self, start_layer=None):
        self.start_layer = start_layer or 0


class MLATokenToKVPool(KVCache):
    def __init__(self, start_layer=None):
        super().__init__(start_layer)
        self.kv_buffer = []

    def get_value_buffer(self, layer_id):
        return self.kv_buffer[layer_id - self.start_layer]


class SWAKVPool(KVCache):
    def __init__(self, layers):
        self.layers_mapping = layers
        self.full_kv_pool = MLATokenToKVPool()

    def get_value_buffer(self, layer_id):
        return self.layers_mapping[layer_id]

    def get_v_head_dim(self):
        return self.full_kv_pool.get_value_buffer(0).shape[-1]
"""


def install(
    root: Path,
    version: str = "0.5.11",
    triton_backend: str = BACKEND_SOURCE,
    memory_pool: str = POOL_SOURCE,
) -> Path:
    """Write the package into a site-packages directory; gives that directory."""
    for module, text in ((BACKEND, triton_backend), (POOL, memory_pool)):
        path = module_path(root, module)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for package in path.relative_to(root).parents:
            if package.name:
                (root / package / "__init__.py").touch()
    for old in root.glob("*.dist-info"):
        shutil.rmtree(old)
    (root / f"sglang-{version}.dist-info").mkdir()
    return root


def module_path(root: Path, module: str) -> Path:
    return root.joinpath(*module.split(".")).with_suffix(".py")


def reinstall(root: Path, text: str, version: str = "0.5.11") -> None:
    """What an installer leaves: the file, and its hash in RECORD."""
    install(root, version, triton_backend=text)
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    name = module_path(root, BACKEND).relative_to(root)
    (root / f"sglang-{version}.dist-info" / "RECORD").write_text(f"{name},sha256={digest},{len(text)}\n")

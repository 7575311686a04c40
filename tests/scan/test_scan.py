"""The scan against sites that were labelled by hand, in three releases: labels.yaml."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import yaml

from tests.patching.wheels import WheelTree, wheel
from triage.patching.load import load_patches
from triage.patching.model import SourceFile
from triage.scan.model import Scan
from triage.scan.read import Sources
from triage.scan.run import scan
from triage.scan.shapes import look, may_hold

LABELS = yaml.safe_load(Path(__file__).with_name("labels.yaml").read_text())
ROOT = "/site-packages/sglang/srt/"


@functools.cache
def scanned(version: str) -> Scan:
    tree = WheelTree(wheel("sglang", version))
    names = [name for name in sorted(tree.names) if name.startswith("sglang/srt/") and name.endswith(".py")]
    files = [SourceFile(name, f"/site-packages/{name}", tree.archive.read(name)) for name in names]
    sources = Sources(tuple(file for file in files if may_hold(file.data)), len(files))
    return scan("/site-packages", "sglang", sources, tree, load_patches(), {})


def reported(version: str) -> set[str]:
    found = scanned(version)
    sites = [site for _, plan in found.plans for site in plan.sites] + [item.site for item in found.findings]
    return {f"{site.path.removeprefix(ROOT)}:{site.line}" for site in sites}


@pytest.mark.parametrize(
    "version", ["0.5.11", *(pytest.param(v, marks=pytest.mark.benchmark) for v in LABELS if v != "0.5.11")]
)
def test_precision_and_recall(version: str) -> None:
    found, defects, safe = reported(version), set(LABELS[version]["defects"]), set(LABELS[version]["safe"])
    assert found - defects - safe == set(), "a site without a label"
    right = found & defects
    precision, recall = len(right) / len(found), len(right) / len(defects)
    print(f"{version}: precision {precision:.2f}, recall {recall:.2f} of {len(defects)}")
    assert precision >= 0.95
    assert recall >= 0.9


MODEL = """\
class Model:
    def __init__(self):
        self.embed_tokens = PPMissingLayer()

    def f(self, weights):
        {}
"""


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("x = self.layers[0].mlp", ["layer-zero"]),
        ("x = self.layers[self.start_layer].mlp", []),
        ("x = self.layers[0].mlp if self.start_layer == 0 else None", []),
        ("x = [layer.mlp for layer in self.layers]", ["all-layers"]),
        ("x = [layer.mlp for layer in self.layers if hasattr(layer, 'mlp')]", []),
        ("x = [self.layers[i].mlp for i in range(len(self.layers))]", ["all-layers"]),
        ("x = [self.layers[i].mlp for i in range(self.start_layer, self.end_layer)]", []),
        ("x = self.embed_tokens.embedding_dim", ["foreign-part"]),
        ("x = self.embed_tokens.embedding_dim if self.pp_group.is_first_rank else 0", []),
        ("first_layer = last_layer = 0", ["layer-zero"]),
        ("run(layers=self.layers)", ["all-layers"]),
        ("run(layers=self.layers[self.start_layer : self.end_layer])", []),
        ("x = self.kv_item_lens[0]", []),
        ("x = self.encoder.layers[0].weight", []),
    ],
)
def test_shapes(code: str, kinds: list[str]) -> None:
    assert [item.kind for item in look("/sglang/srt/models/m.py", MODEL.format(code).encode())] == kinds


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("for name in weights:\n    p = params_dict[name]", ["unguarded-parameter"]),
        ("for n in weights:\n    if n not in params_dict:\n        continue\n    p = params_dict[n]", []),
        (
            "for name in weights:\n    if name.endswith('b') and name not in params_dict:\n        continue\n"
            "    p = params_dict[name]",
            ["unguarded-parameter"],
        ),
        ("for name in weights:\n    if name in params_dict:\n        p = params_dict[name]", []),
        ("for name in weights:\n    if get_layer_id(name):\n        continue\n    p = params_dict[name]", []),
    ],
)  # fmt: skip
def test_loaders(code: str, kinds: list[str]) -> None:
    text = MODEL.replace("def f", "def load_weights").format(code.replace("\n", "\n        "))
    assert [item.kind for item in look("/sglang/srt/models/m.py", text.encode())] == kinds


def test_a_model_that_is_not_dealt_out_is_not_looked_at() -> None:
    text = MODEL.replace("PPMissingLayer()", "Embedding()").format("x = self.layers[0].mlp")
    assert look("/sglang/srt/models/m.py", text.encode()) == ()

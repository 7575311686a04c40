from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evidence.conftest import ScriptedHost
from tests.evidence.conftest import host as host  # a fixture
from triage.evidence.live import LiveEvidence
from triage.evidence.model import Unanswered
from triage.hosts import Output, open_connection
from triage.patching.evidence_tree import EvidenceTree
from triage.patching.model import SourceFile

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


@pytest.fixture
def local(tmp_path: Path) -> Callable[[str], SourceFile | None]:
    """Modules of a package of this machine."""
    tree = EvidenceTree(LiveEvidence(open_connection("local")), str(tmp_path / "site-packages/sglang"))
    (tmp_path / "site-packages/sglang").mkdir(parents=True)
    return tree.read


def test_the_links_of_uv_and_conda_are_followed(
    local: Callable[[str], SourceFile | None], tmp_path: Path
) -> None:
    """`uv pip install --link-mode=symlink`, `conda config --set always_softlink true`: a link a file."""
    cached = tmp_path / "cache/archive-v0/x/sglang/a.py"
    cached.parent.mkdir(parents=True)
    cached.write_text("cached")
    (tmp_path / "site-packages/sglang/a.py").symlink_to(cached)
    found = local("sglang.a")
    assert found is not None
    assert (found.path, found.data) == (f"{tmp_path}/site-packages/sglang/a.py", b"cached")


def test_a_checkout_that_is_linked_in_is_followed(
    local: Callable[[str], SourceFile | None], tmp_path: Path
) -> None:
    checkout = tmp_path / "src/python/sglang"
    checkout.mkdir(parents=True)
    (checkout / "a.py").write_text("edited")
    (tmp_path / "site-packages/sglang").rmdir()
    (tmp_path / "site-packages/sglang").symlink_to(checkout)
    found = local("sglang.a")
    assert found is not None
    assert found.data == b"edited"
    assert local("sglang.b") is None


@pytest.mark.parametrize("secret", ["shadow", "id_rsa", "environ"])
def test_a_link_to_what_is_no_source_is_refused_and_named(
    local: Callable[[str], SourceFile | None], tmp_path: Path, secret: str
) -> None:
    (tmp_path / secret).write_text("root:$y$j9T$:")
    (tmp_path / "hop.py").symlink_to(tmp_path / secret)
    (tmp_path / "site-packages/sglang/a.py").symlink_to(tmp_path / "hop.py")
    why = rf"sglang/a.py: it is a link to {tmp_path}/{secret}, which is no \*.py"
    with pytest.raises(Unanswered, match=why):
        local("sglang.a")


def test_a_link_that_leads_nowhere(local: Callable[[str], SourceFile | None], tmp_path: Path) -> None:
    place = tmp_path / "site-packages/sglang"
    (place / "a.py").symlink_to(place / "a.py")
    (place / "b.py").symlink_to(tmp_path / "gone/b.py")
    with pytest.raises(Unanswered, match="symbolic links"):
        local("sglang.a")
    assert local("sglang.b") is None

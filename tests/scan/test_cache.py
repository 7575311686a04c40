"""What is kept of files that were looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triage.patching.model import Site, SourceFile
from triage.scan import cache, run
from triage.scan.cache import CachedFindings
from triage.scan.model import ScanFinding
from triage.scan.read import Sources

FILE = SourceFile("m", "/a/m.py", b"x = 1\n")
MOVED = SourceFile("n", "/b/n.py", FILE.data)
FOUND = (ScanFinding("layer-zero", "high", Site("/a/m.py", 1, 2, "code"), "A.f"),)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "triage"


def test_a_file_is_known_by_its_content_wherever_it_is() -> None:
    CachedFindings().remember([(FILE, FOUND)])
    assert CachedFindings().recall(FILE) == FOUND
    (moved,) = CachedFindings().recall(MOVED) or ()
    assert isinstance(moved, ScanFinding)
    assert (moved.site.path, moved.site.line, moved.where) == ("/b/n.py", 1, "A.f")
    assert CachedFindings().recall(SourceFile("m", "/a/m.py", b"x = 2\n")) is None


def test_nothing_found_and_not_readable_are_answers_too() -> None:
    other = SourceFile("o", "/o.py", b"(")
    CachedFindings().remember([(FILE, ()), (other, "line 1: '(' was never closed")])
    assert CachedFindings().recall(FILE) == ()
    assert CachedFindings().recall(other) == "line 1: '(' was never closed"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"a": [[1]]}', b'{"a": 1}', b"\xff", b" " * (9 << 20)])
def test_what_is_broken_is_nothing_and_is_replaced(data: bytes) -> None:
    CachedFindings().path.parent.mkdir(parents=True)
    CachedFindings().path.write_bytes(data)
    kept = CachedFindings()
    assert kept.recall(FILE) is None
    kept.remember([(FILE, FOUND)])
    assert CachedFindings().recall(FILE) == FOUND


def test_two_at_a_time_keep_both() -> None:
    one, other = CachedFindings(), CachedFindings()
    one.remember([(FILE, FOUND)])
    other.remember([(SourceFile("o", "/o.py", b"y"), ())])
    assert CachedFindings().recall(FILE) == FOUND
    assert len(CachedFindings().known) == 2


def test_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MANY", 3)
    files = [SourceFile("m", "/m.py", b"%d" % number) for number in range(5)]
    for file in files:
        CachedFindings().remember([(file, ())])
    assert [CachedFindings().recall(file) for file in files] == [None, None, (), (), ()]


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    CachedFindings().remember([(FILE, FOUND)])
    assert CachedFindings().recall(FILE) is None


@pytest.mark.parametrize("shared", [0, 1 << 30])
def test_a_scan_asks_what_is_kept_and_keeps_what_it_finds(
    shared: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        def read(self, module: str) -> None:
            return None

    monkeypatch.setattr(run, "SHARED_BYTES", shared)
    file = SourceFile("b", "/b.py", b"model.token_to_kv_pool.get_value_buffer(0)\n")
    broken = SourceFile("c", "/c.py", b"get_value_buffer(0\n")
    sources = Sources((file, broken), 2)
    first = run.scan("/", "sglang", sources, Nothing(), (), {})
    assert [item.kind for item in first.findings] == ["layer-zero-buffer"]
    assert [path for path, _ in first.unread] == ["/c.py"]
    (path,) = home.glob("scan-*.json")
    kept = {
        key: "kept" if isinstance(rows, str) else rows for key, rows in json.loads(path.read_text()).items()
    }
    path.write_text(json.dumps(kept))
    again = run.scan("/", "sglang", sources, Nothing(), (), {})
    assert again.findings == first.findings
    assert again.unread == (("/c.py", "kept"),)

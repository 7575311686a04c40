from __future__ import annotations

from pathlib import Path

import pytest

from triage.evidence.model import Unanswered
from triage.patching import inspect
from triage.patching.inspect import ClassSource
from triage.patching.model import Check, SourceFile
from triage.patching.trees import DirectoryTree


def tree(root: Path, **modules: str) -> DirectoryTree:
    for name, text in modules.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return DirectoryTree(root)


def attribute(root: Path, name: str, **modules: str) -> Check:
    found = tree(root, **modules)
    owner = inspect.find_class(found, ("m",), name)
    assert owner is not None
    return inspect.has_attribute(found, owner, "start")


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("class A:\n def __init__(self): self.start = 0", True),
        ("class A:\n def __init__(self): self.start: int = 0", True),
        ("class A:\n def __init__(self): self.start: int", False),
        ("class A:\n def __init__(self): self.x, self.start = 1, 2", True),
        ("class A:\n def __init__(self):\n  if x:\n   self.start = 0", True),
        ("class A:\n def __init__(self): setattr(self, 'start', 0)", True),
        ("class A:\n def __init__(self): other.start = 0", False),
        ("class A:\n def __init__(self):\n  def f(self): self.start = 0", False),
        ("class A:\n def __init__(self): self.setup()\n def setup(self): self.start = 0", True),
        ("class A:\n def setup(self): self.start = 0", False),
        ("class A:\n start = 0", True),
        ("class A:\n @property\n def start(self): return 0", True),
        ("class A:\n def start(self): return 0", False),
        ("class B:\n def __init__(self): self.start = 0\nclass A(B): pass", True),
        ("class B:\n def __init__(self): self.start = 0\nclass A(B):\n def __init__(self): pass", False),
        (
            "class B:\n def __init__(self): self.start = 0\n"
            "class A(B):\n def __init__(self): super().__init__()",
            True,
        ),
        (
            "class B:\n def __init__(self): self.start = 0\n"
            "class A(B):\n def __init__(self): B.__init__(self)",
            True,
        ),
        (
            "class C:\n def __init__(self): self.start = 0\nclass B(C):\n def __init__(self): pass\n"
            "class A(B):\n def __init__(self): super().__init__()",
            False,
        ),
        (
            "class B:\n def __init__(self): self.setup()\n def setup(self): self.start = 0\n"
            "class A(B):\n def setup(self): pass",
            False,
        ),
        (
            "class X: pass\nclass L(X): pass\nclass R(X):\n def __init__(self): self.start = 0\n"
            "class A(L, R): pass",
            True,
        ),
        ("from abc import ABC\nclass A(ABC): pass", False),
        ("from elsewhere import B\nclass A(B): pass", None),
        ("class A(make()): pass", None),
        ("class A(A): pass", False),
        ("class A:\n def __init__(self): self.f()\n def f(self): self.g()\n def g(self): self.f()", False),
    ],
)
def test_has_attribute(tmp_path: Path, source: str, holds: bool | None) -> None:
    assert attribute(tmp_path, "A", m=source + "\n").holds is holds


def test_a_check_shows_the_line_that_it_read(tmp_path: Path) -> None:
    check = attribute(
        tmp_path,
        "A",
        **{
            "m": "from pkg.base import Base as B\nclass A(B):\n    pass\n",
            "pkg/__init__": "from .inner import Base\n",
            "pkg/base": "from . import Base\n",
            "pkg/inner": "class Base:\n    def __init__(self, start):\n        self.start = start or 0\n",
        },
    )
    assert check.summary == "A inherits start from Base"
    (site,) = check.sites
    assert (site.path, site.line) == (str(tmp_path / "pkg" / "inner.py"), 3)
    assert site.before == "        self.start = start or 0"


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        ("return self.buffers[layer - self.start]", True),
        ("return self.buffers[layer - self.start][..., : self.rank]", True),
        ("local = layer - self.start\n  return self.buffers[local]", True),
        ("return self._get(layer)\n def _get(self, layer): return self.b[layer - self.start]", True),
        ("self.counter.wait(layer - self.start)\n  return self.mapping[layer]", False),
        ("return self.buffers[layer]", False),
        ("return self.buffers[layer - other.start]", False),
        ("return self.inner.get(layer - self.start)", False),
    ],
)
def test_indexes_from(tmp_path: Path, body: str, holds: bool) -> None:
    found = tree(tmp_path, m=f"class A:\n def get(self, layer):\n  {body}\n")
    owner = inspect.find_class(found, ("m",), "A")
    assert owner is not None
    check = inspect.indexes_from(found, owner, "get", "start")
    assert check.holds is holds
    assert check.sites


def test_indexes_from_follows_super(tmp_path: Path) -> None:
    source = (
        "class B:\n def get(self, layer): return self.b[layer - self.start]\n"
        "class A(B):\n def get(self, layer): return super().get(layer)\n"
    )
    found = tree(tmp_path, m=source)
    owner = inspect.find_class(found, ("m",), "A")
    assert owner is not None
    assert (
        inspect.indexes_from(found, owner, "get", "start").summary == "B.get subtracts start from the index"
    )


def test_subclasses_are_found_over_modules(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        m="class Base: pass\nclass One(Base): pass\nclass Two(One): pass\nclass Other: pass\n",
        n="import m\nfrom m import Two\nif x:\n    class Three(Two): pass\nclass Four(m.Base): pass\n",
    )
    base = inspect.find_class(found, ("m",), "Base")
    assert base is not None
    names = [owner.name for owner in inspect.subclasses(found, ("m", "n", "gone"), base)]
    assert names == ["One", "Two", "Three", "Four"]


def test_the_class_around_a_line() -> None:
    file = SourceFile("m", "/m.py", b"x = 1\nclass A:\n    class B:\n        y = 1\n    z = 2\n")
    names = [owner.name if (owner := inspect.class_at(file, line)) else None for line in range(1, 6)]
    assert names == [None, "A", "B", "B", "A"]


def test_what_cannot_be_parsed_is_unanswered(tmp_path: Path) -> None:
    with pytest.raises(Unanswered, match=r"m\.py cannot be read as Python"):
        inspect.find_class(tree(tmp_path, m="class A(:\n"), ("m",), "A")


def test_a_chain_of_imports_in_a_circle_ends(tmp_path: Path) -> None:
    found = tree(tmp_path, m="from n import A\n", n="from m import A\n")
    assert inspect.find_class(found, ("m",), "A") is None


def test_many_methods_end(tmp_path: Path) -> None:
    calls = "".join(f" def m{i}(self): self.m{i + 1}()\n" for i in range(5000))
    found = tree(tmp_path, m=f"class A:\n def __init__(self): self.m0()\n{calls}")
    owner = inspect.find_class(found, ("m",), "A")
    assert isinstance(owner, ClassSource)
    assert inspect.has_attribute(found, owner, "start").holds is False

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from triage.common.errors import UsageError
from triage.common.shipped import shipped_directory
from triage.patching import load
from triage.patching.load import find_patch, load_patch, load_patches

EDIT: dict[str, Any] = {"modules": ["pkg.mod"], "find": "$POOL.get(0)", "replace": "$POOL.get($POOL.first)"}
PATCH: dict[str, Any] = {
    "id": "a-patch",
    "title": "ask for the first",
    "distribution": "pkg",
    "edits": [EDIT],
    "examples": [{"title": "plain", "before": "a.get(0)\n", "after": "a.get(a.first)\n"}],
}


def write(directory: Path, patch: object, name: str = "a-patch") -> Path:
    path = directory / f"{name}.yaml"
    path.write_text(patch if isinstance(patch, str) else yaml.safe_dump(patch))
    return path


def test_a_patch_file_is_read(tmp_path: Path) -> None:
    patch = load_patch(write(tmp_path, PATCH))
    assert (patch.id, patch.package, patch.modules) == ("a-patch", "pkg", ("pkg.mod",))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"extra": 1}, "extra:"),
        ({"title": ""}, "title:"),
        ({"edits": []}, "edits:"),
        ({"edits": [{**EDIT, "find": "$POOL.get("}]}, "edits.0.find: "),
        ({"edits": [{**EDIT, "find": "$pool.get(0)"}]}, "$POOL"),
        ({"edits": [{**EDIT, "find": "for $X in y: pass"}]}, "one simple statement"),
        ({"edits": [{**EDIT, "replace": "a = 1\nb = 2", "inside": "f"}]}, "the place of a statement"),
        ({"edits": [{**EDIT, "find": "a = 1", "replace": "a = 1\nb = 2"}]}, "inside: "),
        (
            {"edits": [{**EDIT, "find": "a = 1", "replace": "if b:\n  a = 1", "inside": "f"}]},
            "level of the block",
        ),
        ({"edits": [{**EDIT, "replace": "$OTHER.get(1)"}]}, "$OTHER does not occur in find"),
        ({"edits": [{**EDIT, "replace": EDIT["find"]}]}, "same as find"),
        ({"edits": [{**EDIT, "where": {"X": {"last_name": "pool"}}}]}, "$X does not occur"),
        ({"edits": [{**EDIT, "sites": 0}]}, "edits.0.sites"),
        ({"edits": [{**EDIT, "modules": ["pkg/mod.py"]}]}, "edits.0.modules.0"),
        ({"references": ["file:///etc/passwd"]}, "references.0"),
        ({"id": "../x"}, "id:"),
    ],
)
def test_an_error_names_file_and_key(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = write(tmp_path, {**PATCH, **change})
    with pytest.raises(UsageError) as caught:
        load_patch(path)
    assert caught.value.to == str(path)
    assert words in caught.value.happened
    assert caught.value.next


@pytest.mark.parametrize("text", ["", "- a\n", "id: [\n", "\x00"])
def test_a_file_that_is_no_patch(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        load_patch(write(tmp_path, text))


def test_the_file_is_named_for_the_patch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is 'a-patch'"):
        load_patch(write(tmp_path, PATCH, "another"))


def test_an_id_stands_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, PATCH)
    with pytest.raises(UsageError, match="already that of"):
        load_patches([tmp_path])


def test_further_directories_add_to_the_shipped_patches(tmp_path: Path) -> None:
    write(tmp_path, PATCH)
    ids = [patch.id for patch in load_patches([tmp_path])]
    assert ids == sorted({"a-patch", *(patch.id for patch in load_patches())})


def test_an_unknown_id_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        find_patch("no-such-patch")
    assert "sglang-triton-value-head-dim" in str(caught.value.next)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    for place, words in ((tmp_path / "missing", "no such directory"), (tmp_path / "file", "not a directory")):
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match=words) as caught:
            load_patches([place])
        assert caught.value.next == f"ls {tmp_path}"


def test_kept_patches_are_the_same_and_a_changed_one_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "own").mkdir()
    shipped = load_patches()
    file = tmp_path / "own" / "mine.yaml"
    text = next(shipped_directory("patches").rglob(f"{shipped[0].id}.yaml")).read_text()
    file.write_text(text.replace(f"id: {shipped[0].id}", "id: mine"))
    first = load_patches([tmp_path / "own"])
    with monkeypatch.context() as patched:
        patched.setattr(load, "load_model", lambda *arguments: pytest.fail("a patch file was read"))
        assert load_patches([tmp_path / "own"]) == first
        assert load_patches() == shipped
    file.write_text(file.read_text() + "unknown: 1\n")
    with pytest.raises(UsageError, match="unknown"):
        load_patches([tmp_path / "own"])

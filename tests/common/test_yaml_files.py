"""YAML that people write: errors name file and key, and nothing in a file runs or hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from triage.common import yaml_files
from triage.common.errors import ExitCode, UsageError


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    parts: list[Inner] = []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


def complaint(file: Path, data: str | bytes) -> UsageError:
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(UsageError) as caught:
        yaml_files.load_model(file, Model, "thing")
    assert (caught.value.doing, caught.value.to) == ("reading thing", str(file))
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.next
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_file_that_is_right(file: Path) -> None:
    file.write_text("name: ä\nparts: [{size: 3}]\n", "utf-8")
    assert yaml_files.load_model(file, Model, "thing") == Model(name="ä", parts=[Inner(size=3)])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "name: it is missing"),
        ("name: [1]", "name: "),
        ("name: a\ncolour: red", "colour: "),
        ("name: a\nparts: [{size: 1}, {size: x}]", "parts.1.size: "),
        ("name: a\nparts: [{size: 1, 7: x}]", "parts.0.7"),
        ("{a: 1, b: 1, c: 1, d: 1}", "(and 2 more)"),
    ],
)
def test_the_key_is_named(file: Path, text: str, says: str) -> None:
    assert says in complaint(file, text).happened


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "its top level is not a mapping"),
        ("# only a comment", "its top level is not a mapping"),
        ("- a", "its top level is not a mapping"),
        ("name: [", "it is not YAML: "),
        ("name: a\n\tb: c", "it is not YAML: "),
        ("name: &a [*b]", "it is not YAML: "),
        ("name: !!python/object/apply:os.system [echo]", "it is not YAML: "),
        ("name: a\n---\nname: b", "it is not YAML: "),
        (b"name: \xff", "it is not UTF-8 text: "),
        (b"name: \x00", "it is not YAML: "),
        ("[" * 100_000, "it is not YAML: "),
        ("name: " + "a: " * 10_000, "it is not YAML: "),
    ],
)
def test_what_is_no_such_file_at_all(file: Path, data: str | bytes, says: str) -> None:
    assert complaint(file, data).happened.startswith(says)


def test_aliases_that_grow_are_no_danger(file: Path) -> None:
    """Ten levels of ten: as text it would be 10 GB."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "with its aliases it holds too much" in complaint(file, "\n".join([*levels, "name: a"])).happened


def test_a_file_that_is_too_large(file: Path) -> None:
    error = complaint(file, b"#" * (yaml_files.MAX_BYTES + 1))
    assert error.happened == f"it is larger than {yaml_files.MAX_BYTES} bytes"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for name, says in (("missing", "No such file"), ("directory", "Is a directory")):
        (tmp_path / "directory").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match=says) as caught:
            yaml_files.load_mapping(tmp_path / name, "thing")
        assert caught.value.next == f"ls -l {tmp_path / name}"


def test_a_pipe_is_read_as_it_comes() -> None:
    """What `triage run <(...)` names."""
    reader, writer = os.pipe()
    os.write(writer, b"name: a\n")
    os.close(writer)
    assert yaml_files.load_mapping(Path(f"/dev/fd/{reader}"), "thing") == {"name": "a"}
    os.close(reader)


def test_a_device_is_no_file() -> None:
    with pytest.raises(UsageError, match="no plain file"):
        yaml_files.load_mapping(Path("/dev/zero"), "thing")


def test_a_byte_order_mark_is_no_part_of_a_key(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfname: a\r\n")
    assert yaml_files.load_mapping(file, "thing") == {"name": "a"}


@pytest.mark.parametrize(
    "value", ["!!bool maybe", '!!int ""', '!!float ""', "!!timestamp soon", "2026-13-40"]
)
def test_a_value_that_is_none_of_its_kind(file: Path, value: str) -> None:
    assert "it is not YAML: " in complaint(file, f"name: {value}").happened

"""A case in one file is the case; what only looks like one is refused, whatever it holds."""

from __future__ import annotations

import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounds import many
from tests.cli.command import triage
from tests.evidence.conftest import ScriptedHost
from triage.common.errors import RefusedError, UsageError
from triage.evidence.cases import archive
from triage.evidence.cases.case import check_place, list_case, read_case, write_case
from triage.evidence.catalogue import GpuInventory, OsRelease


@pytest.fixture
def asked(host: ScriptedHost) -> ScriptedHost:
    host.files["/etc/os-release"] = "ID=debian\nVERSION_ID=12\nHOME_URL=http://10.20.30.40/\n"
    return host


def written(host: ScriptedHost, case: Path) -> Path:
    evidence = host.evidence
    for query in (OsRelease(), GpuInventory()):
        evidence.ask(query)
    write_case(case, evidence)
    return case


def test_an_archive_reads_as_its_directory(asked: ScriptedHost, tmp_path: Path) -> None:
    directory, packed = (written(asked, tmp_path / name) for name in ("case", "case.tar.zst"))
    one, other = read_case(directory), read_case(packed)
    assert (one.name, one.recorded) == (other.name, other.recorded)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case", "case.tar.zst"]


def test_equal_cases_make_equal_archives(asked: ScriptedHost, tmp_path: Path) -> None:
    directory = written(asked, tmp_path / "case")
    for name in ("one.tar.zst", "two.tar.zst"):
        archive.pack(directory, tmp_path / name)
        (directory / "manifest.json").touch()
    assert (tmp_path / "one.tar.zst").read_bytes() == (tmp_path / "two.tar.zst").read_bytes()


def packed(*members: tuple[tarfile.TarInfo, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    told = io.BytesIO()
    with tarfile.open(fileobj=told, mode="w", format=format) as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return zstandard.ZstdCompressor().compress(told.getvalue())


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "info",
    [
        member("../outside"),
        member("/tmp/outside"),
        member("answers/../../outside"),
        member("answers//outside"),
        member("answers/./outside"),
        member(".hidden"),
        member("answers/\n"),
        member("answers/" + "x" * 300),
        member("a/b/c/d/e"),
        member("answers/x", tarfile.SYMTYPE, "/etc/passwd"),
        member("answers", tarfile.SYMTYPE, "/etc"),
        member("answers/x", tarfile.LNKTYPE, "manifest.json"),
        member("answers/x", tarfile.CHRTYPE),
        member("answers/x", tarfile.BLKTYPE),
        member("answers/x", tarfile.FIFOTYPE),
        member("../answers", tarfile.DIRTYPE),
    ],
    ids=lambda info: f"{info.name[:30]!r} {info.type!r}",
)
def test_what_no_case_holds_is_refused(info: tarfile.TarInfo, tmp_path: Path) -> None:
    (case := tmp_path / "x.tar.zst").write_bytes(packed((member("manifest.json"), b"{}"), (info, b"")))
    (into := tmp_path / "in").mkdir()
    with pytest.raises(UsageError, match=r"no plain file|no name"):
        archive.unpack(case, into)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", "manifest.json", "x.tar.zst"]


def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    twice = [(member("manifest.json"), b"{}"), (member("./manifest.json"), b"[]")]
    (case := tmp_path / "x.tar.zst").write_bytes(packed(*twice))
    with pytest.raises(UsageError, match="twice"):
        read_case(case)


def huge(size: int) -> bytes:
    """A tar whose only file says that it has this many bytes, and has as many zeros as it wants."""
    info = member("manifest.json")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.slow
def test_bombs_are_refused_before_they_fill_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compress = zstandard.ZstdCompressor().compress
    header = member("././@PaxHeader", tarfile.XHDTYPE)
    header.size = 1 << 32
    long_header = header.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 24)
    bombs = {
        "GiB": compress(huge(3 << 30)),
        "files": packed(*((member(f"answers/{at}"), b"") for at in range(archive.MAX_FILES + 1))),
        "headers are too long": compress(long_header),
    }
    for why, bomb in bombs.items():
        (case := tmp_path / "x.tar.zst").write_bytes(bomb)
        tracemalloc.start()
        with pytest.raises(UsageError, match=why):
            read_case(case)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
        tracemalloc.stop()


@settings(max_examples=many(200), deadline=None)
@given(st.data())
def test_damaged_archives_are_refused_and_nothing_else(data: st.DataObject) -> None:
    import tempfile

    whole = packed((member("manifest.json"), b"{}" * 500), (member("answers/x"), b"abc" * 500))
    raw = bytearray(zstandard.ZstdDecompressor().decompress(whole, max_output_size=1 << 20))
    for at in data.draw(st.lists(st.integers(0, 2500), max_size=6)):
        raw[at] = data.draw(st.integers(0, 255))
    wrong = zstandard.ZstdCompressor().compress(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    cut = wrong[: data.draw(st.integers(0, len(wrong)))]
    with tempfile.TemporaryDirectory() as room:
        (case := Path(room) / "x.tar.zst").write_bytes(data.draw(st.sampled_from([wrong, cut])))
        with pytest.raises(UsageError):  # where the tar is whole, the manifest is none
            read_case(case)
        assert [path.name for path in Path(room).iterdir()] == ["x.tar.zst"]


@pytest.mark.parametrize("data", [b"", b"no zstd", zstandard.ZstdCompressor().compress(b"no tar" * 200)])
def test_what_is_no_archive_says_so(data: bytes, tmp_path: Path) -> None:
    (case := tmp_path / "x.tar.zst").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_case(case)
    assert caught.value.to.endswith(("x.tar.zst", "manifest.json"))


@pytest.mark.parametrize("look", [read_case, list_case])
@pytest.mark.parametrize(
    ("file", "why"),
    [("os-release.txt", "not those that were captured"), ("more.txt", "names no such answer")],
)
def test_bytes_that_were_changed_in_an_archive_are_noticed(
    asked: ScriptedHost, tmp_path: Path, look: Callable[[Path], object], file: str, why: str
) -> None:
    directory = written(asked, tmp_path / "case")
    (directory / "answers" / file).write_text("ID=other\n")
    archive.pack(directory, tmp_path / "case.tar.zst")
    with pytest.raises(UsageError, match=why) as caught:
        look(tmp_path / "case.tar.zst")
    assert caught.value.to == f"{tmp_path}/case.tar.zst/answers/{file}"


@pytest.mark.parametrize("name", ["case", "case.tar.zst"])
def test_a_case_is_replaced_only_where_that_is_asked_for(
    asked: ScriptedHost, tmp_path: Path, name: str
) -> None:
    case = written(asked, tmp_path / name)
    with pytest.raises(RefusedError, match="a case already"):
        check_place(case)
    check_place(case, replacing=True)
    write_case(case, asked.evidence, replacing=True)
    assert read_case(case).recorded == ()


@pytest.mark.parametrize("name", ["a.tar.zst", "a"])
def test_something_else_is_never_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(zstandard.ZstdCompressor().compress(b"years of work"))
    with pytest.raises(RefusedError, match="no case"):
        check_place(tmp_path / name, replacing=True)


def test_what_is_in_a_case(asked: ScriptedHost, tmp_path: Path) -> None:
    created, _, entries = list_case(written(asked, tmp_path / "case.tar.zst"))
    assert created
    os, gpus = (entry for entry in entries if entry.query in ("os-release", "gpu-inventory"))
    assert (os.file, os.size, os.redacted) == (
        "answers/os-release.txt",
        len("ID=debian\nVERSION_ID=12\nHOME_URL=http://<address-1>/\n"),
        {"address": 1},
    )
    assert (gpus.file, gpus.missing) == ("", "the command is not on this host")


Change = Callable[[dict[str, object]], object]


@pytest.mark.parametrize(
    ("minor", "reads"), [(99, True), (1, False)], ids=["a later minor version", "this one"]
)
def test_keys_of_a_later_minor_version_are_ignored(
    asked: ScriptedHost, tmp_path: Path, minor: int, reads: bool
) -> None:
    case = written(asked, tmp_path / "case")
    known = read_case(case)
    manifest = json.loads((case / "manifest.json").read_text())
    manifest |= {"minor": minor, "colour": "blue"}
    manifest["answers"][0]["taste"] = ["sweet"]
    (case / "manifest.json").write_text(json.dumps(manifest))
    if reads:
        assert read_case(case) == known
    else:
        with pytest.raises(UsageError, match=r"colour|taste"):
            read_case(case)


def test_another_schema_is_refused_with_its_name(asked: ScriptedHost, tmp_path: Path) -> None:
    case = written(asked, tmp_path / "case")
    manifest = json.loads((case / "manifest.json").read_text())
    (case / "manifest.json").write_text(json.dumps({**manifest, "schema": "triage.case/2"}))
    with pytest.raises(UsageError, match=r"'triage\.case/2', and this triage reads triage\.case/1"):
        read_case(case)


def test_the_command_line_shows_a_case(asked: ScriptedHost, tmp_path: Path) -> None:
    case = str(written(asked, tmp_path / "case.tar.zst"))
    shown = triage("case", "show", case)
    assert shown.returncode == 0, shown.stderr
    assert "os-release" in shown.stdout
    assert "1 x <address>" in shown.stdout
    assert "gpu-inventory: the command is not on this host" in shown.stdout
    told = json.loads(triage("case", "show", case, "--format", "json").stdout)
    assert told["schema"] == "triage.case-contents/1"
    assert {entry["query"] for entry in told["entries"]} >= {"os-release", "gpu-inventory"}


def test_the_place_is_looked_at_before_the_host_is(asked: ScriptedHost, tmp_path: Path) -> None:
    case = str(written(asked, tmp_path / "case"))
    done = triage("capture", "no-such-host.invalid", "-o", case)
    assert done.returncode == 4
    assert "a case already" in done.stderr
    done = triage("capture", "no-such-host.invalid", "-o", f"{case}/manifest.json/x")
    assert done.returncode == 3
    assert "Not a directory" in done.stderr

"""Whatever a log holds, each of its lines is in some file as it was, and nothing else is."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.logs.corpus import cases, sources
from tests.logs.test_hostile import mutated
from triage.logs.model import LogSource
from triage.logs.reading.content import as_utf8
from triage.logs.views.splitting import split_ranks


def rows(data: bytes) -> Counter[bytes]:
    found = data.split(b"\n")
    return Counter(found if found[-1] else found[:-1])


@pytest.mark.parametrize("seed", range(4))
def test_damaged_logs(seed: int, tmp_path: Path):
    logs = [bytes(source.data[:20_000]) for case in cases() for source in sources(case)]
    rng = random.Random(seed)
    for number in range(40):
        data = mutated(rng.choice(logs), rng)
        where = tmp_path / str(number)
        counts = split_ranks([LogSource("log", data)], where)
        parted = {path.stem: rows(path.read_bytes()) for path in where.iterdir()}
        assert {name: sum(each.values()) for name, each in parted.items()} == counts
        whole, together = rows(bytes(as_utf8(data))), sum(parted.values(), Counter[bytes]())
        assert not whole - together
        assert together.keys() <= whole.keys()


def test_nothing_outside_the_directory_is_written(tmp_path: Path):
    names = b"".join(
        b"[2026-05-12 14:03:59 %s1] x\n" % name
        for name in (b"PP", b"A" * 9, "PP٣".encode(), b"../PP", b"TP0 ..", b"TP0/")
    )
    counts = split_ranks([LogSource("log", names * 3)], tmp_path / "ranks")
    assert [path.name for path in tmp_path.iterdir()] == ["ranks"]
    assert sum(counts.values()) == 18
    assert all(path.name.isascii() for path in (tmp_path / "ranks").iterdir())

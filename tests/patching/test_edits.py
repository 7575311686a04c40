from __future__ import annotations

import pytest

from triage.patching.edits import Found, look
from triage.patching.schema import Edit
from triage.patching.source import Unparsable

OLD, NEW = "pool.get(0)", "pool.get(pool.first)"


def edit(**changes: object) -> Edit:
    plain = {"modules": ["m"], "find": "$P.get(0)", "replace": "$P.get($P.first)"}
    return Edit.model_validate({**plain, **changes})


def found(code: str, **changes: object) -> Found:
    return look(edit(**changes), "m.py", code.encode())


@pytest.mark.parametrize(
    "data",
    [
        f"x = {OLD}\ny = 1".encode(),
        f"\ufeffx = {OLD}\n".encode(),
        f"if a:\r\n\tx = {OLD}\r\n\ty = (1,\r\n\t     2)\r\n".encode(),
        f"if a:\r\n\tx = {OLD}\n\ty = 1\r\n".encode(),
        f"# coding: latin-1\nx = 'é'; y = {OLD}  # ü\n".encode("latin-1"),
        f"# coding: cp1252\nx = '€' + {OLD}\n".encode("cp1252"),
        f"x = '日本'; y = '𝄞'; z = {OLD}\n".encode(),
        f"\x0c\nx = 1 ;  y = {OLD}  \n\n\n".encode(),
        f"x = f'{{a}}', \\\n  {OLD}\n".encode(),
        f"s = '{OLD}'  # {OLD}\nx = {OLD}\n".encode(),
    ],
    ids=repr,
)
def test_every_other_byte_stays(data: bytes) -> None:
    result = look(edit(), "m.py", data)
    assert result.new is not None
    at = data.rindex(OLD.encode())
    assert result.new == data[:at] + NEW.encode() + data[at + len(OLD) :]
    assert look(edit(), "m.py", result.new).new is None


def test_a_site_is_a_whole_statement() -> None:
    result = found(f"a = 1\nb = wide(\n    {OLD},\n)\nc = 2\n")
    (site,) = result.sites
    assert (site.line, site.end_line) == (2, 4)
    assert site.before == f"b = wide(\n    {OLD},\n)"
    assert site.after == f"b = wide(\n    {NEW},\n)"


def test_several_sites_in_one_statement() -> None:
    result = found(f"x = {OLD}, {OLD}\n")
    assert result.new == f"x = {NEW}, {NEW}\n".encode()
    assert [site.after for site in result.sites] == [f"x = {NEW}, {NEW}"] * 2


def test_a_whole_statement_can_take_anothers_place() -> None:
    result = found(
        "a = 0; layer = 0 ;b = 0  # why\n", find="layer = 0", replace="layer += $X".replace("$X", "1")
    )
    assert result.new == b"a = 0; layer += 1 ;b = 0  # why\n"


def test_where_decides_by_the_last_name() -> None:
    code = "a.b.pool.get(0)\npool.get(0)\na.full_pool.get(0)\npool().get(0)\npool[0].get(0)\n"
    assert [site.line for site in found(code, where={"P": {"last_name": "pool"}}).sites] == [1, 2]


@pytest.mark.parametrize(
    "code",
    [
        f"class A:\n    def f(self):\n        {OLD}\n",
        f"if x:\n    class A:\n        try:\n            def f(self):\n                {OLD}\n"
        "        except E:\n            pass\n",
        f"class A:\n    async def f(self):\n        def g():\n            {OLD}\n",
    ],
)
def test_inside_a_qualified_name(code: str) -> None:
    result = found(code, inside="A.f")
    assert (len(result.sites), result.outside) == (1, ())


def test_the_same_shape_elsewhere_is_reported() -> None:
    result = found(f"class A:\n    def f(self): {OLD}\n    def g(self): {OLD}\n", inside="A.f")
    assert ([site.line for site in result.sites], [site.line for site in result.outside]) == ([2], [3])


def test_the_fix_is_seen_in_any_layout() -> None:
    (site,) = found("x = a.pool.get(\n    a.pool.first,\n)\n").fixed
    assert (site.line, site.end_line) == (1, 3)
    assert found("x = a.pool.get(b.pool.first)\n").fixed == ()


def test_further_shapes_of_the_fix_and_of_the_defect() -> None:
    result = found("x = pool.width()\ny = pool.get(layer)\n", fixed=["$P.width()"], suspect=["$P.get($X)"])
    assert ([site.line for site in result.fixed], [site.line for site in result.suspect]) == ([1], [2])


@pytest.mark.parametrize("code", [f"x = {OLD} +\n", f"def f(:\n  {OLD}", f"\x00{OLD}", f"x = '\\N{{{OLD}}}'"])
def test_what_does_not_parse_is_not_edited(code: str) -> None:
    with pytest.raises(Unparsable):
        found(code)

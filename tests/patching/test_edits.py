from __future__ import annotations

import pytest

from tests.patching.wheels import ROOT
from triage.patching.edits import FoundSite, look
from triage.patching.schema import Edit
from triage.patching.source import Unparsable

OLD, NEW = "pool.get(0)", "pool.get(pool.first)"


def edit(**changes: object) -> Edit:
    plain = {"modules": ["m"], "find": "$P.get(0)", "replace": "$P.get($P.first)"}
    return Edit.model_validate({**plain, **changes})


def found(code: str, **changes: object) -> FoundSite:
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


def test_a_fix_may_hold_what_it_is_the_fix_of() -> None:
    wrap = {"find": "load($X)", "replace": "own(load($X))"}
    result = found("load(a)\nfor x in own(load(b)):\n    pass\n", **wrap)
    assert result.new == b"own(load(a))\nfor x in own(load(b)):\n    pass\n"
    assert ([site.line for site in result.sites], [site.line for site in result.fixed]) == ([1], [2])
    elsewhere = found("def f():\n    load(a)\nown(load(b))\nload(c)\n", **wrap, inside="f")
    assert [site.line for site in elsewhere.outside] == [4]


def test_further_shapes_of_the_fix_and_of_the_defect() -> None:
    result = found("x = pool.width()\ny = pool.get(layer)\n", fixed=["$P.width()"], suspect=["$P.get($X)"])
    assert ([site.line for site in result.fixed], [site.line for site in result.suspect]) == ([1], [2])


@pytest.mark.parametrize("code", [f"x = {OLD} +\n", f"def f(:\n  {OLD}", f"\x00{OLD}", f"x = '\\N{{{OLD}}}'"])
def test_what_does_not_parse_is_not_edited(code: str) -> None:
    with pytest.raises(Unparsable):
        found(code)


# Blocks: what a statement becomes, or gets around it, in a function. The table in docs/patches.md has more.
GUARD = "if a not in d:\n    continue\nx = d[a]"
MAKE = "if not x:\n    x = make()"


def in_function(code: str, newline: str = "\n", indent: str = "    ") -> str:
    lines = ["def f():", *(f"    {line}" for line in code.splitlines())]
    return newline.join(line.replace("    ", indent) for line in lines) + newline


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["    ", "\t"])
@pytest.mark.parametrize(
    ("find", "replace", "before", "after"),
    [
        (
            "x = d[a]", GUARD,
            "for a in b:\n    x = d[a]", "for a in b:\n    if a not in d:\n        continue\n    x = d[a]",
        ),
        (
            "x = d[a]", "x = d[a]\ny = x",
            "if b:\n    x = d[a]  # why\n    z()", "if b:\n    x = d[a]  # why\n    y = x\n    z()",
        ),
        ("x = d[$K]", "y = $K * 2\nx = d[$K]", "x = d[p + q]", "y = (p + q) * 2\nx = d[p + q]"),
        ("assert x", MAKE, "assert x  # why", "if not x:\n    x = make()  # why"),
    ],
)  # fmt: skip
def test_blocks(find: str, replace: str, before: str, after: str, indent: str, newline: str) -> None:
    old, new = (in_function(code, newline, indent) for code in (before, after))
    first = found(old, inside="f", find=find, replace=replace)
    assert (first.new or b"").decode() == new
    assert len(first.sites) == 1
    again = found(new, inside="f", find=find, replace=replace)
    assert (again.sites, again.new, len(again.fixed)) == ((), None, 1)


def test_a_block_at_the_end_of_a_file_without_a_newline() -> None:
    old = in_function("x = d[a]").rstrip()
    first = found(old, inside="f", find="x = d[a]", replace="x = d[a]\ny = x")
    assert first.new == in_function("x = d[a]\ny = x").rstrip().encode()
    assert first.sites[0].after == "    x = d[a]\n    y = x"


@pytest.mark.parametrize("code", ["if b: x = d[a]", "x = d[a]; y = 1"])
def test_a_statement_that_shares_its_line_is_not_rewritten(code: str) -> None:
    result = found(in_function(code), inside="f", find="x = d[a]", replace="x = d[a]\ny = x")
    assert (result.new, result.sites, len(result.suspect)) == (None, (), 1)


def test_a_fix_elsewhere_in_the_scope_counts_for_all() -> None:
    code = in_function("if skip(a):\n    return\nx = d[a]\nx = d[a]")
    result = found(code, inside="f", find="x = d[a]", replace=GUARD, fixed=["skip(a)"], sites=2)
    assert (result.sites, len(result.fixed), result.outside) == ((), 1, ())


def test_one_of_two_that_has_its_guard() -> None:
    code = in_function("for a in b:\n    if a not in d:\n        continue\n    x = d[a]\nx = d[a]")
    result = found(code, inside="f", find="x = d[a]", replace=GUARD, sites=2)
    assert ([site.line for site in result.sites], [site.line for site in result.fixed]) == ([6], [5])


def test_the_table_of_blocks() -> None:
    table = (ROOT / "docs" / "patches.md").read_text().partition("## Blocks")[2].partition("## States")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `")][1:]
    for row in rows:
        find, replace, before, after = (
            cell.strip().strip("`").replace("`<br>`", "\n") for cell in row.strip("|").split(" | ")
        )
        body = "\n    pass" if before.endswith(":") else ""
        result = found(in_function(before + body), inside="f", find=find, replace=replace)
        assert result.new == in_function(after + body).encode()
    assert len(rows) == 4

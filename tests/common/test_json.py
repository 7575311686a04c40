from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.common import json as json_module
from triage.common.json import MAX_DEPTH, parse_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_what_is_json_is_read(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(("opened", "closed"), ["[]", ('{"a":', "}")])
def test_what_is_nested_too_deeply_is_refused(opened: str, closed: str) -> None:
    def nested(depth: int) -> str:
        return opened * depth + "1" + closed * depth

    parse_json(nested(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 900, 200_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(nested(depth))


@pytest.mark.parametrize("text", ["", "nonsense", "[1", b"\xff\xfe{", "9" * 5000 + "x"])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)


@pytest.mark.parametrize("kind", [str, bytes])
def test_too_many_values_are_refused_and_what_stands_in_texts_is_none(
    monkeypatch: pytest.MonkeyPatch, kind: type[str] | type[bytes]
) -> None:
    monkeypatch.setattr(json_module, "MAX_CONTAINERS", 20)
    monkeypatch.setattr(json_module, "MAX_VALUES", 30)

    def spelled(value: Any) -> str | bytes:
        text = json.dumps(value)
        return text if kind is str else text.encode()

    for few in ([[]] * 19, [1] * 31, ['[{,"\\'] * 31, {f"[{number}": "[[[" for number in range(31)}):
        assert parse_json(spelled(few)) == few
    for many in ([[]] * 20, [{}] * 20, [1] * 32):
        with pytest.raises(ValueError, match="too many values"):
            parse_json(spelled(many))

from __future__ import annotations

import pytest

from triage.hosts.typed_command import there


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ("local", "systemctl status kimi"),
        ("gpu01", "ssh gpu01 'systemctl status kimi'"),
        ("root@gpu01", "ssh root@gpu01 'systemctl status kimi'"),
        ("root@127.0.1.1:2222", "ssh ssh://root@127.0.1.1:2222 'systemctl status kimi'"),
        ("ssh://root@gpu01:22", "ssh ssh://root@gpu01:22 'systemctl status kimi'"),
    ],
)
def test_a_command_for_a_host_can_be_pasted_here(host: str, line: str) -> None:
    assert there(host, "systemctl status kimi") == line


def test_the_way_to_a_host() -> None:
    assert (there("gpu01"), there("local")) == ("ssh gpu01", "")
    assert there("gpu01", "ls 'a b'") == "ssh gpu01 'ls '\"'\"'a b'\"'\"''"

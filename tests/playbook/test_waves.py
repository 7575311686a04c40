"""Many hosts: who comes when, and that nobody comes after a host has failed."""

from __future__ import annotations

import pytest

from triage.playbook.waves import HostRun, roll_out, waves_of
from triage.report.playbook import rollout_document

HOSTS = [f"gpu{number:02}" for number in range(1, 11)]


@pytest.mark.parametrize(
    ("canaries", "percent", "sizes"),
    [(1, 25, [1, 3, 3, 3]), (2, 50, [2, 5, 3]), (0, 100, [10]), (1, 1, [1] * 10), (20, 10, [10])],
)
def test_canaries_come_first_and_waves_follow(canaries: int, percent: int, sizes: list[int]):
    waves = waves_of(HOSTS, canaries, percent)
    assert [len(wave) for wave in waves] == sizes
    assert [host for wave in waves for host in wave] == HOSTS


def play(failing: str) -> tuple[list[str], object]:
    touched = []

    def work(host: str) -> HostRun:
        touched.append(host)
        return HostRun(host, 1 if host == failing else 0, {"reason": "it died"})

    return touched, roll_out(waves_of(HOSTS, 1, 25), work)


@pytest.mark.parametrize(("failing", "begun"), [("gpu01", 1), ("gpu03", 4), ("gpu10", 10), ("", 10)])
def test_no_wave_is_begun_after_a_failure(failing: str, begun: int):
    touched, result = play(failing)
    assert sorted(touched) == HOSTS[:begun]
    assert result.left == tuple(HOSTS[begun:])
    assert result.exit_code == (1 if failing else 0)
    assert rollout_document(result)["left"] == HOSTS[begun:]


def test_hosts_of_a_wave_run_at_the_same_time():
    from threading import Barrier

    together = Barrier(3)
    result = roll_out([["a", "b", "c"]], lambda host: HostRun(host, together.wait(20) * 0, {}))
    assert result.exit_code == 0

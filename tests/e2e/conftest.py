"""Boxes as fixtures. Where none can run, the tests that ask for one say so by name in the summary;
under TRIAGE_REQUIRE_E2E=1, which CI sets, they fail instead."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e import box as boxes
from tests.e2e.box import Box, why_not

BoxFactory = Callable[..., Box]
NOT_RUN = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def rootfs() -> Path:
    """The root file system of all boxes; built when it is first asked for."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    return boxes.rootfs()


@pytest.fixture
def box_factory(rootfs: Path) -> Iterator[BoxFactory]:
    """Boots boxes, `box_factory(name, **as for Box)`, and shuts them down after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(Box(*args, **kwargs))


@pytest.fixture
def box(box_factory: BoxFactory) -> Box:
    """One booted box."""
    return box_factory()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NOT_RUN] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "rootfs" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _note_skip(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _note_skip(collector.config, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    not_run = config.stash[NOT_RUN]
    if not_run:
        terminalreporter.section("end-to-end tests that did not run")
        for name, reason in not_run.items():
            terminalreporter.write_line(f"{name}: {reason}")


def _note_skip(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    config.stash[NOT_RUN][report.nodeid] = reason.removeprefix("Skipped: ")
    if os.environ.get("TRIAGE_REQUIRE_E2E") == "1":
        report.outcome = "failed"
        report.longrepr = f"TRIAGE_REQUIRE_E2E=1, but it did not run: {reason}"

"""What holds for every test."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import bounds
from tests.surroundings import settle

settle()
hypothesis.settings.register_profile("any machine", deadline=None)  # how long it takes is nobody's claim
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
hypothesis.settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="a sample of long sweeps, fewer made-up examples, nothing slow"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("quick"):
        bounds.QUICK = True
        hypothesis.settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if bounds.QUICK and bounds.left_out(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if bounds.QUICK:
        kept = bounds.sample(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking through thousands of tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def no_settings_of_this_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A test means the same for whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("config", "state"):
            patch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path_factory.mktemp(kind)))
        yield

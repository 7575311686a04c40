"""What holds for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import hypothesis
import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
hypothesis.settings.register_profile("any machine", deadline=None)  # how long it takes is nobody's claim
hypothesis.settings.load_profile("any machine")


@pytest.fixture(autouse=True, scope="session")
def no_settings_of_this_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A test means the same for whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("config", "state"):
            patch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path_factory.mktemp(kind)))
        yield

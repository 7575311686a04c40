"""The README's commands on the story's machine, in the order in which they stand."""

from __future__ import annotations

import pytest

from examples.story.prepare import SERVICE
from examples.story.setup import prepare
from examples.story.stage import machine
from tests.readme import examples


@pytest.mark.timeout(300)
def test_readme(rootfs, tmp_path):
    prepare(SERVICE)
    with machine(tmp_path / "state") as stage:
        stage.start_and_crash()
        for example in examples():
            if example.needs_host:
                done = stage.run(*example.arguments)
                assert done.stderr == ""
                assert example.differs_from(done.stdout) == ""

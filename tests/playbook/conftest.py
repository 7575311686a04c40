from __future__ import annotations

import textwrap

import pytest

from triage.playbook.load import load_playbook


@pytest.fixture
def playbook(tmp_path):
    """A loaded playbook from the text of its `steps`, and of its `vars`."""

    def load(steps, vars="{}"):
        path = tmp_path / "mine.yaml"
        head = f"name: mine\ndescription: a test\nvars: {vars}\nsteps:\n"
        path.write_text(head + textwrap.indent(textwrap.dedent(steps), "  "))
        return load_playbook(str(path))

    return load

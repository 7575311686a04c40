"""The demonstration where no machine of its own can run: a plain process, `triage` on `local`."""

from __future__ import annotations

import pytest

from examples.story import plain


@pytest.mark.timeout(240)
def test_the_story_as_a_plain_process(capfd):
    assert plain.main() == 0
    told = capfd.readouterr().out
    assert "confirmed: the attention backend asks this pipeline stage for layer 0" in told
    assert "0 differ" in told
    assert "applied" in told
    assert "VERDICT" in told

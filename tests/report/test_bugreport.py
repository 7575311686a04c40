"""A report for a tracker: what it holds, that it is redacted, and that no text of a log is markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.cli.command import triage
from triage.evidence.recorded import LogEvidence
from triage.logs.model import LogSource
from triage.report.bugreport import bug_report
from triage.workflows import diagnose

KNOWLEDGE = diagnose.load_knowledge()
LOG = """\
[2026-05-12 14:03:51] server_args=ServerArgs(model_path='/home/alice/models/m', tp_size=1, pp_size=8)
[2026-05-12 14:03:58 PP3] Load weight begin. avail mem=79.00 GB
[2026-05-12 14:03:59 PP3] Scheduler hit an exception: Traceback (most recent call last):
  File "/home/alice/sglang/python/sglang/srt/managers/scheduler.py", line 3600, in run_scheduler_process
    scheduler = Scheduler(
  File "/home/alice/sglang/python/sglang/srt/layers/attention/triton_backend.py", line 120, in __init__
    self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffers(0).shape[
ZebraError: MESSAGE

[2026-05-12 14:03:59] Received sigquit from a child process. It usually means the child failed.
"""


def reported(message: str) -> str:
    log = LOG.replace("MESSAGE", message).encode("utf-8", "backslashreplace")
    return bug_report(diagnose.diagnose(LogEvidence("log"), KNOWLEDGE, "", LogSource("log", log)))


def test_what_it_holds():
    text = reported("no stripes")
    assert text.startswith("# `ZebraError: no stripes`\n")
    headings = re.findall("^## (.*)", text, re.MULTILINE)
    assert headings == [
        "Launch arguments",
        "What failed first",
        "Others",
        "Phases",
        "What the log says of the deployment",
        "What is near, and does not fit",
    ]
    assert "\n[PP3]\nTraceback (most recent call last):\n" in text
    assert 'triton_backend.py", line 120, in __init__\n    self.v_head_dim' in text
    assert "- fingerprint: `" in text
    assert "--pp-size 8\n" in text
    assert "- victim: `child-failed: Received sigquit" in text
    assert "`sglang-pp-value-head-dim`" in text
    assert "- layout: `pp8`" in text


def test_people_and_secrets_are_replaced():
    text = reported("cannot load with api_key='sk-verysecret1234567890' from 10.11.12.13")
    assert "alice" not in text
    assert "verysecret" not in text
    assert "10.11.12.13" not in text
    assert "/home/<user-1>/sglang" in text


@pytest.mark.parametrize(
    "message",
    [
        "``` \n# heading\n<script>alert(1)</script>",
        "`x` **bold** <img src=x onerror=y> [a](http://b)",
        "````````` ~~~~ @everyone #1",
        "` `` ``` `",
        "-->\n\n<!-- hidden",
        "api_key=`secret` password='a`b'",
        "\u202egnp.exe \x1b[31m",
    ],
)
def test_nothing_is_markup(message):
    only_code(reported(message))


@given(st.text(st.sampled_from("`~*_[]()<>#\n\r -!|\\ab@&;:/'\"="), max_size=60))
def test_whatever_is_logged(message):
    only_code(reported(message))


def only_code(text: str) -> None:
    """No token is anything but our own headings, lists and plain words, and code."""
    tokens = MarkdownIt("commonmark").parse(text)
    ours = {"heading_open", "heading_close", "paragraph_open", "paragraph_close", "fence", "inline"}
    ours |= {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"}
    assert {token.type for token in tokens} <= ours
    inline = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inline} <= {"text", "code_inline", "softbreak"}
    plain = "".join(child.content for child in inline if child.type == "text")
    assert re.fullmatch(r"[A-Za-z0-9 .,:;()_-]*", plain), plain
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)


def test_the_command_writes_it(tmp_path: Path):
    (tmp_path / "log").write_text(LOG)
    done = triage("diagnose", "--log", "log", "--bug-report", "bug.md", "--format", "json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("{")
    assert "github.com/sgl-project/sglang/issues" in done.stderr
    assert (tmp_path / "bug.md").read_text().startswith("# `ZebraError: MESSAGE`")


def test_without_an_incident_there_is_none(tmp_path: Path):
    (tmp_path / "log").write_text("[2026-05-12 14:03:51] The server is fired up and ready to roll!\n")
    done = triage("diagnose", "--log", "log", "--bug-report", "bug.md", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "bug.md").exists()) == (0, False)
    assert "no bug report was written" in done.stderr

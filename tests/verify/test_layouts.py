from __future__ import annotations

import pytest

from triage.common.errors import RefusedError, UsageError
from triage.evidence.discovery.command_line import layout_of, parse_arguments, recognise
from triage.evidence.model import Layout
from triage.verify.layouts.launch_commands import name_of, parse_layout, with_layout

SGLANG = ("/opt/v/bin/python", "-m", "sglang.launch_server", "--model-path", "m")
VLLM = ("/opt/v/bin/vllm", "serve", "m", "--port", "8000")


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("tp8", Layout(tp=8)),
        ("pp8", Layout(pp=8)),
        ("ep8", Layout(tp=8, ep=8)),
        ("tp8ep4", Layout(tp=8, ep=4)),
        ("TP2PP4", Layout(tp=2, pp=4)),
        ("pp4tp2", Layout(tp=2, pp=4)),
    ],
)
def test_a_name_is_a_layout(text: str, layout: Layout):
    assert parse_layout(text) == layout
    assert parse_layout(name_of(layout)) == layout


@pytest.mark.parametrize("text", ["", "8", "tp", "tp0", "tp8tp4", "tp8,pp8", "tp99999", "tp8;rm", "tp٨"])
def test_what_is_none_is_refused(text: str):
    with pytest.raises(UsageError, match="it is not like"):
        parse_layout(text)


@pytest.mark.parametrize(
    ("argv", "engine", "layout", "changed"),
    [
        ((*SGLANG, "--pp-size", "8", "-x"), "sglang", "tp8", (*SGLANG, "-x", "--tp-size", "8")),
        ((*SGLANG, "--pp=8"), "sglang", "tp2pp4", (*SGLANG, "--tp-size", "2", "--pp-size", "4")),
        (SGLANG, "sglang", "ep8", (*SGLANG, "--tp-size", "8", "--ep-size", "8")),
        ((*SGLANG, "--tensor_parallel_size", "8"), "sglang", "pp8", (*SGLANG, "--pp-size", "8")),
        ((*VLLM, "-tp", "4"), "vllm", "pp4", (*VLLM, "--pipeline-parallel-size", "4")),
        ((*VLLM, "-tp=4", "--enable-expert-parallel"), "vllm", "tp4", (*VLLM, "--tensor-parallel-size", "4")),
        ((*VLLM[:3], "-ep", *VLLM[3:]), "vllm", "tp4", (*VLLM, "--tensor-parallel-size", "4")),
        (VLLM, "vllm", "ep4", (*VLLM, "--tensor-parallel-size", "4", "--enable-expert-parallel")),
    ],
)  # fmt: skip
def test_sizes_are_set_and_nothing_else(argv, engine, layout: str, changed):
    assert with_layout(argv, engine, parse_layout(layout)) == changed


@pytest.mark.parametrize(
    ("script", "engine", "changed"),
    [
        (
            "source /v/bin/activate && exec python -m sglang.launch_server --model-path m --pp-size=8 -x 1",
            "sglang",
            "source /v/bin/activate && exec python -m sglang.launch_server --tp-size 2 --pp-size 4 "
            "--model-path m -x 1",
        ),
        (
            'vllm serve "$MODEL" -pp "$PP" -tp 1 | tee /var/log/x',
            "vllm",
            'vllm serve --tensor-parallel-size 2 --pipeline-parallel-size 4 "$MODEL" | tee /var/log/x',
        ),
    ],
)
def test_a_script_is_changed_in_its_text(script: str, engine, changed: str):
    argv = with_layout(("/bin/bash", "-lc", script), engine, parse_layout("tp2pp4"))
    assert argv == ("/bin/bash", "-lc", changed)


@pytest.mark.parametrize("name", ["tp8", "tp2pp4", "pp8", "ep8"])
@pytest.mark.parametrize(
    "argv", [(*SGLANG, "--pp", "8"), ("sh", "-c", " ".join((*SGLANG, "--tp-size", "4")))]
)
def test_what_was_asked_for_is_read_back(argv, name: str):
    launch = recognise(with_layout(argv, "sglang", parse_layout(name)))
    assert launch is not None
    assert layout_of("sglang", parse_arguments("sglang", launch.arguments)[0]) == parse_layout(name)


def test_a_layout_that_the_engine_cannot_be_asked_for_is_refused():
    with pytest.raises(UsageError, match="trying tp4ep2: vllm's arguments for it mean tp4ep4"):
        with_layout(VLLM, "vllm", parse_layout("tp4ep2"))


@pytest.mark.parametrize(
    "argv", [("/opt/run.sh",), ("bash", "-c", "/opt/run.sh"), ("bash", "-c", "$SERVER --pp-size 8"), ()]
)
def test_a_command_that_hides_its_arguments_is_refused(argv):
    with pytest.raises(RefusedError, match="does not show"):
        with_layout(argv, "sglang", Layout(tp=8))

"""What the engines' files say fits together, and an engine may leave out all that it does not have."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from triage.engines import ENGINES, UNKNOWN, engine_named, require_engine, titles
from triage.engines.engine import Engine
from triage.evidence.model import Layout
from triage.logs.facts import phase_of
from triage.verify.service.phases import StartLog

every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))


def test_each_engine_is_known_by_its_name():
    assert all(engine_named(name) is engine and engine.name == name for name, engine in ENGINES.items())
    assert engine_named("") is engine_named("nginx") is UNKNOWN


def test_an_error_names_the_engines():
    assert require_engine("") == ""
    with pytest.raises(ValueError, match=", ".join(ENGINES)):
        require_engine("nginx")


def test_engines_in_words():
    first, second = (Engine("a", "A"), Engine("b", "B"))
    assert titles("or", [first]) == "A"
    assert titles("or", [first, second]) == "A or B"
    assert titles("and", [first, second, Engine("c", "C")]) == "A, B and C"
    assert all(engine.title in titles("or") for engine in ENGINES.values())


def test_no_two_engines_are_taken_for_each_other():
    commands = [engine.command for engine in ENGINES.values()]
    said = [each for command in commands for each in (*command.modules, *command.programs)]
    said += [banner for engine in ENGINES.values() for banner in engine.log.banners]
    said += [name for engine in ENGINES.values() for name in {phase.name for phase in engine.log.phases}]
    assert [each for each, count in Counter(said).items() if count > 1] == []


@every_engine
def test_flags_are_spelled_as_they_are_looked_up(engine: Engine):
    command = engine.command
    flags = [*command.aliases.values(), *command.sizes.values(), command.expert_switch, command.memory_share]
    assert all(re.fullmatch(r"(?:[a-z][a-z0-9-]*)?", flag) for flag in flags)
    assert set(command.sizes) <= set(Layout.__dataclass_fields__)
    assert not set(command.aliases) & set(command.aliases.values())


@every_engine
def test_phases_are_told_alike_by_logs_and_while_a_service_starts(engine: Engine):
    for phase in engine.log.phases:
        for words in phase.lines:
            text = _example(phase.pattern, words)
            assert phase_of(text) == phase.name
            told = StartLog().feed(f"[2026-05-12 14:02:44 PP1] {text} and more", 1.0)
            assert told is not None
            assert told.name == phase.name


def _example(pattern: str, words: str) -> str:
    """A line with these words, as the pattern wants it."""
    before = ("", "Capture ", "GPU ")
    after = ("", " CUDA graphs", ": 4")
    lines = [f"{one}{words}{other}" for one in before for other in after]
    return next(line for line in lines if re.search(pattern, line))


@every_engine
def test_the_ready_line_counts_after_its_phase(engine: Engine):
    phases = {phase.name: phase for phase in engine.log.phases}
    for ready in engine.log.ready:
        assert ready.after in ("", *phases)
        log = StartLog()
        log.feed(f"INFO: {ready.text}", 1.0)
        assert log.ready == (not ready.after)
        if ready.after:
            log.feed(phases[ready.after].lines[0], 2.0)
            log.feed(f"INFO: {ready.text}", 3.0)
        assert log.ready
        assert phase_of(ready.text) == ready.name


@every_engine
def test_patterns_have_the_groups_that_are_read(engine: Engine):
    assert all(re.compile(version.pattern).groups == 1 for version in engine.log.versions)
    for fact in engine.log.facts:
        assert (re.compile(fact.pattern).groups == 1) != bool(fact.value)
    assert re.compile(engine.command.images)
    assert re.compile(engine.processes.failures)


@every_engine
def test_the_log_format_is_there(engine: Engine):
    if engine.log.format:
        family = import_module(f"triage.logs.formats.{engine.log.format}")
        assert callable(family.peel)
        assert family.ERRORS


@every_engine
def test_a_split_that_differs_by_version_is_read_from_the_source(engine: Engine):
    if engine.pipeline:
        assert bool(engine.pipeline.module) == (len(engine.pipeline.schemes) > 1)


def test_another_engine_is_added_by_its_own_file_alone():
    """In a process of its own, for what is known of engines is put together when modules are imported."""
    script = Path(__file__).with_name("another.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

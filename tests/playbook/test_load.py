"""Playbook files: found by path or name; a broken one names file, step and key."""

from __future__ import annotations

import pytest

from triage.common.errors import ExitCode, UsageError
from triage.playbook.load import find_playbook, load_playbook, shipped_playbooks

GOOD = """
name: mine
description: a test
vars:
  unit: ""
steps:
  - name: Diagnose
    do: diagnose
    with: {unit: "{{ unit }}"}
    register: found
  - name: Prove
    do: verify
    when: found.incidents
    with: {unit: "{{ unit }}", timeout: 60}
    retry: {count: 2, seconds: 1}
    on_failure:
      - name: Take it back
        do: rollback
        with: {id: some-patch}
"""


def load(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return load_playbook(str(path))


def test_a_good_one(tmp_path):
    playbook = load(tmp_path, GOOD)
    assert [step.name for step in playbook.steps] == ["Diagnose", "Prove"]
    assert playbook.file == str(tmp_path / "mine.yaml")
    assert playbook.steps[1].on_failure[0].with_ == {"id": "some-patch"}


BROKEN = [
    # shape
    ("name: mine", "name: Not An Id", "name:"),
    ("description: a test", "description: ' '", "description:"),
    ("description: a test", "descripton: a test", "descripton: there is no such key"),
    ("do: diagnose", "do: dance", "steps.0.do:"),
    ("do: diagnose", "do: diagnose\n    shell: rm -rf", "steps.0.shell: there is no such key"),
    ("name: Diagnose", "name: ''", "steps.0.name:"),
    ("register: found", "register: Found Things", "steps.0.register:"),
    ("count: 2", "count: 0", "steps.1.retry.count:"),
    ("count: 2", "count: 1000", "steps.1.retry.count:"),
    ("count: 2", "count: '2'", "steps.1.retry.count:"),
    ("register: found", "register: found\n    consent: 1", "steps.0.consent:"),
    ("seconds: 1", "seconds: .inf", "steps.1.retry.seconds:"),
    ("seconds: 1", "seconds: -1", "steps.1.retry.seconds:"),
    ("when: found.incidents", "when: true", "steps.1.when:"),
    ("when: found.incidents", "when: ''", "steps.1.when:"),
    ("timeout: 60", "timeout: .nan", "steps.1.with.timeout:"),
    ("timeout: 60", "timeout: {a: 1}", "steps.1.with.timeout:"),
    ("timeout: 60", "timeout: 2026-05-12", "steps.1.with.timeout:"),
    (
        "      - name: Take",
        "      - on_failure: []\n        name: Take",
        "steps.1.on_failure.0.on_failure: there is no such key",
    ),
    ('unit: ""', "unit: [[1]]", "vars.unit:"),
    ('unit: ""', "Unit: 1", "vars.Unit"),
    # names
    ('unit: ""', 'unit: ""\n  host: x', "vars.host: this name is taken"),
    ('unit: ""', 'unit: ""\n  not: x', "vars.not: this name is taken"),
    ('unit: ""', 'unit: "{{ host }}"', "vars.unit: a default is plain data"),
    ("register: found", "register: unit", "steps.0 (Diagnose).register: the name unit is taken"),
    ("register: found", "register: host", "steps.0 (Diagnose).register: the name host is taken"),
    (
        "id: some-patch}",
        "id: x}\n        register: found",
        "steps.1.on_failure.0 (Take it back).register: the name found",
    ),
    ("name: Take it back", "name: Prove", "steps.1.on_failure.0 (Prove): another step has this name"),
    # expressions
    ("when: found.incidents", "when: fund.incidents", "steps.1 (Prove).when: fund is neither in vars nor"),
    ("when: found.incidents", "when: found.(", "steps.1 (Prove).when: `found.(`"),
    ("when: found.incidents", "when: found | shuffle", "steps.1 (Prove).when: `found | shuffle`: No filter"),
    (
        "when: found.incidents",
        "when: found.clear()",
        "steps.1 (Prove).when: `found.clear()`: calls are not allowed",
    ),
    ('{unit: "{{ unit }}"}', '{unit: "{{ found.x }}"}', "steps.0 (Diagnose).with.unit: found is neither"),
    (
        '{unit: "{{ unit }}"}',
        '{unit: "{% if x %}"}',
        "steps.0 (Diagnose).with.unit: `{% if x %}`: only {{ expressions",
    ),
    ('{unit: "{{ unit }}"}', '{unit: "{{ self }}"}', "steps.0 (Diagnose).with.unit: self is neither"),
    # arguments
    (
        '{unit: "{{ unit }}"}',
        "{unti: x}",
        "steps.0 (Diagnose).with.unti: diagnose has no such argument; it takes unit",
    ),
    ('{unit: "{{ unit }}"}', "{unit: 4}", "steps.0 (Diagnose).with.unit: text expected, not 4"),
    ("timeout: 60", "timeout: soon", 'steps.1 (Prove).with.timeout: number, 1 to 86400 expected, not "soon"'),
    ("timeout: 60", "timeout: true", "steps.1 (Prove).with.timeout: number, 1 to 86400 expected, not true"),
    ("timeout: 60", "timeout: null", "steps.1 (Prove).with.timeout: number, 1 to 86400 expected, not null"),
    (
        "timeout: 60",
        "requests: 1.5",
        "steps.1 (Prove).with.requests: whole number, 0 to 10000 expected, not 1.5",
    ),
    ("timeout: 60", "timeout: 0.5", "steps.1 (Prove).with.timeout: number, 1 to 86400 expected, not 0.5"),
    ("timeout: 60", "concurrency: 257", "steps.1 (Prove).with.concurrency: whole numbers of 1 to 256, each"),
    ("timeout: 60", 'rate: "0"', "steps.1 (Prove).with.rate: numbers of 0.01 to 500, each once, with commas"),
    ("timeout: 60", "max_tokens: true", "steps.1 (Prove).with.max_tokens: a number of 2 to 100000, or two"),
    ("timeout: 60", "arrivals: soon", "steps.1 (Prove).with.arrivals: poisson or constant expected, not"),
    ("timeout: 60", "restart: 1", "steps.1 (Prove).with.restart: true or false expected, not 1"),
    ("timeout: 60", 'restart: "{{ 1 + 1 }}"', "steps.1 (Prove).with.restart: true or false expected, not 2"),
    ("{id: some-patch}", "{}", "steps.1.on_failure.0 (Take it back).with.id: rollback needs it"),
    # built in
    ("do: diagnose\n", "do: stop\n", "steps.0 (Diagnose).register: set needs it, stop does not take it"),
]


@pytest.mark.parametrize(("old", "new", "says"), BROKEN)
def test_a_broken_one_names_file_and_key(tmp_path, old, new, says):
    assert old in GOOD
    with pytest.raises(UsageError) as error:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert str(tmp_path / "mine.yaml") in str(error.value)
    assert says in error.value.happened
    assert error.value.next
    assert error.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("[]", "steps:"),
        ("[{name: a, do: set, with: {x: 1}}]", "steps.0 (a).register: set needs it"),
        (
            "[{name: a, do: set, register: b, consent: true}]",
            "steps.0 (a): set takes neither retry nor consent",
        ),
        ("[{name: a, do: stop, with: {reason: x}, retry: {count: 1}}]", "steps.0 (a): stop takes neither"),
        ("[{name: a, do: stop}]", "steps.0 (a).with.reason: stop needs it"),
        ("[{name: a, do: patch, with: {}}]", "steps.0 (a).with.id: patch needs it"),
        ("{a: b}", "steps:"),
        ("[" + ", ".join(f"{{name: s{n}, do: diagnose}}" for n in range(101)) + "]", "steps:"),
    ],
)
def test_broken_steps(tmp_path, steps, says):
    with pytest.raises(UsageError) as error:
        load(tmp_path, f"name: mine\ndescription: a test\nsteps: {steps}")
    assert says in error.value.happened


FAILING = "{name: a, do: verify, on_failure: [{name: b, do: capture, with: {output: x}, register: kept}]}"


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("{name: c, do: verify, when: kept is defined}", "steps.1 (c).when: kept is neither in vars nor"),
        ("{name: c, do: verify, register: kept}", "steps.1 (c).register: the name kept is taken"),
        (
            "{name: c, do: verify, on_failure: [{name: d, do: diagnose, register: kept}]}",
            "steps.1.on_failure.0 (d).register: the name kept is taken",
        ),
    ],
)
def test_what_on_failure_registers_is_unknown_to_later_steps_and_taken(tmp_path, step, says):
    with pytest.raises(UsageError) as error:
        load(tmp_path, f"name: mine\ndescription: a test\nsteps: [{FAILING}, {step}]")
    assert says in error.value.happened


def test_further_problems_are_counted(tmp_path):
    with pytest.raises(UsageError, match=r"\(and 7 more\)"):
        load(
            tmp_path,
            f"name: a\ndescription: b\nsteps: [{{name: x, do: diagnose, when: {'+'.join('abcdefghij')}}}]",
        )


def test_nested_aliases_are_refused_at_once(tmp_path):
    laughs = "\n".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))
    with pytest.raises(UsageError, match=r"with its aliases it holds too much"):
        load(
            tmp_path,
            f"name: a\ndescription: b\nvars:\n  a0: &a0 lol\n{laughs}\nsteps: [{{name: x, do: diagnose}}]",
        )


@pytest.mark.parametrize(
    "text", ["", "- a\n- b", "name: [", "\tname: x", "name: !!python/object/apply:os.getcwd []"]
)
def test_no_playbook_at_all(tmp_path, text):
    with pytest.raises(UsageError, match=r"mine\.yaml"):
        load(tmp_path, text)


def test_no_such_file(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_playbook(str(tmp_path / "none.yaml"))


def test_binary(tmp_path):
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_playbook(str(tmp_path / "mine.yaml"))


def test_a_shipped_one_is_found_by_name():
    assert find_playbook("pp8-bringup") == shipped_playbooks()["pp8-bringup"]
    assert load_playbook("pp8-bringup").name == "pp8-bringup"


@pytest.mark.parametrize("name", ["pp9-bringup", "..", "", "__init__"])
def test_an_unknown_name_lists_those_that_there_are(name):
    with pytest.raises(UsageError, match=", ".join(shipped_playbooks())):
        find_playbook(name)

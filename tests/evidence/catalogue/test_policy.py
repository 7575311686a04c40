from __future__ import annotations

import re

import pytest

from triage.evidence import catalogue
from triage.evidence.catalogue import (
    CATALOGUE,
    Journal,
    JournalAccess,
    KernelLog,
    NamespaceJournal,
    ProcessEnvironment,
    UnitRuns,
    policy,
)
from triage.evidence.catalogue.policy import sudoers
from triage.evidence.model import Query


def test_the_catalogue_is_complete() -> None:
    exported = {
        value
        for value in vars(catalogue).values()
        if isinstance(value, type) and issubclass(value, Query) and value is not Query
    }
    assert {type(query) for query in CATALOGUE} == exported
    assert len({query.name for query in CATALOGUE}) == len(CATALOGUE)
    for entry in policy.catalogue():
        assert entry.query
        assert entry.purpose
        assert entry.command
        assert entry.absence


def test_no_command_of_the_catalogue_changes_anything() -> None:
    programs = {query.argv()[0] for query in CATALOGUE}
    assert programs <= {
        *("systemctl", "busctl", "journalctl", "ps", "id", "cat", "readlink", "sh", "env", "tail", "find"),
        *("nvidia-smi", "rocm-smi", "stat", "df", "ss", "uname", "sudo", "python3", "docker"),
        *("crictl", "kubectl"),
    }
    containers = {query.argv()[1:] for query in CATALOGUE if query.argv()[0] == "docker"}
    assert {words[0] for words in containers} == {"ps", "inspect", "logs", "cp", "exec"}
    assert [words[-3:] for words in containers if words[0] == "exec"] == [("PYTHON", "-B", "-")]
    assert [words[-1] for words in containers if words[0] == "cp"] == ["-"]  # to standard output
    pods = {query.argv()[1:] for query in CATALOGUE if query.argv()[0] in ("crictl", "kubectl")}
    assert {words[0] for words in pods} == {"inspect", "get", "logs", "exec"}
    assert [words[-3:-1] for words in pods if words[0] == "exec"] == [("cat", "--")]
    assert {query.argv()[1:] for query in CATALOGUE if query.argv()[0] == "sudo"} == {("-n", "-l")}
    assert {query.argv()[1:] for query in CATALOGUE if query.argv()[0] == "python3"} == {("--version",)}
    assert {query.argv()[1] for query in CATALOGUE if query.argv()[0] == "systemctl"} == {"show", "status"}
    assert not [query for query in CATALOGUE if {"-delete", "-exec", "-fprint"} & set(query.argv())]


def allowed(line: str) -> bool:
    """Whether the sudoers lines allow a command after `timeout`, as sudo matches expressions."""
    expressions = [re.search(r"timeout (\^.*\$)", each) for each in sudoers()]
    return any(re.search(found[1].replace("\\,", ","), line) for found in expressions if found)


GRANTED = [
    Journal("sglang-kimi.service", "c915d3cfd26845938b76a4178eaab2e1"),
    Journal("vllm@1.service", "c915d3cfd26845938b76a4178eaab2e1"),
    NamespaceJournal("a.service", "c915d3cfd26845938b76a4178eaab2e1", "kimi-2.6@1"),
    KernelLog(1795972507, 1795972568),
    UnitRuns("a.service"),
    ProcessEnvironment(4711),
    JournalAccess(),
]


@pytest.mark.parametrize("query", GRANTED, ids=lambda query: query.name)
def test_sudoers_allow_the_queries_and_nothing_more(query: Query[object]) -> None:
    line = " ".join(("-k", "2", "30", *query.argv()))
    assert allowed(line)
    for more in (
        f"{line} --rotate",
        f"{line} --cursor-file=/etc/passwd",
        f"-s 9 {line}",
        f"{line}\n--vacuum-size=1",
    ):
        assert not allowed(more)


@pytest.mark.parametrize(
    "line",
    [
        "-k 2 30 sh",
        "-k 2 30 cat /etc/shadow",
        "-k 2 30 cat /proc/../etc/shadow/environ",
        "-k 2 30 cat /proc/1/environ /etc/shadow",
        "-k 2 30 journalctl --vacuum-size=1",
        "-k 2 30 env /tmp/python -B -",
        "30 cat /proc/1/environ",
    ],
)
def test_sudoers_refuse(line: str) -> None:
    assert not allowed(line)

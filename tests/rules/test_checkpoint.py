"""Where a model's files lie, and what they say."""

from __future__ import annotations

import json

import pytest

from tests.rules.world import KIMI, Answers
from triage.evidence.catalogue import ListDirectory
from triage.evidence.model import Unanswered
from triage.rules.checkpoint import INDEX, Checkpoint

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FOLDER = "/models--moonshotai--Kimi-K2.6"
NAME = "moonshotai/Kimi-K2.6"


@pytest.mark.parametrize(
    ("environment", "hub"),
    [
        ({"HF_HUB_CACHE": "/data/hub/"}, "/data/hub"),
        ({"HF_HOME": "/data/hf"}, "/data/hf/hub"),
        ({"HOME": "/home/a"}, "/home/a/.cache/huggingface/hub"),
        ({"HOME": "/home/a", "HF_HOME": "/data/hf", "HF_HUB_CACHE": "/c"}, "/c"),
    ],
)
def test_a_name_of_the_hub_is_looked_up_in_the_service_s_cache(environment: dict[str, str], hub: str) -> None:
    directory = f"{hub}{FOLDER}/snapshots/{COMMIT}"
    files = {
        f"{hub}{FOLDER}/refs/main": f"{COMMIT}\n",
        f"{directory}/config.json": '{"num_hidden_layers": 61, "text_config": {"num_hidden_layers": 62}}',
    }
    found = Checkpoint(Answers(files), NAME, environment)
    assert found.directory() == directory
    assert found.config()["num_hidden_layers"] == 62


def test_a_commit_that_was_asked_for_needs_no_reference() -> None:
    found = Checkpoint(Answers(), NAME, {"HF_HOME": "/h"}, COMMIT)
    assert found.directory() == f"/h/hub{FOLDER}/snapshots/{COMMIT}"


@pytest.mark.parametrize(
    ("name", "environment", "reference", "says"),
    [
        (NAME, {}, None, "is not a path on the host"),
        (NAME, {"HF_HOME": "relative"}, None, "is not a path on the host"),
        ("", {"HF_HOME": "/h"}, None, r"\? is not a path"),
        ("../../etc", {"HF_HOME": "/h"}, None, "is not a path on the host"),
        ("a/b/c", {"HF_HOME": "/h"}, None, "is not a path on the host"),
        (NAME, {"HF_HOME": "/h"}, None, "it is not here"),
        (NAME, {"HF_HOME": "/h"}, "../../../etc", "names no commit"),
    ],
)
def test_what_is_nowhere(name: str, environment: dict[str, str], reference: str | None, says: str) -> None:
    files = {} if reference is None else {f"/h/hub{FOLDER}/refs/main": reference}
    with pytest.raises(Unanswered, match=says):
        Checkpoint(Answers(files), name, environment).directory()


def weighed(index: object, listing: str = "") -> int:
    evidence = Answers({f"{KIMI}/{INDEX}": json.dumps(index)} if index is not None else {})
    if listing:
        evidence._known[ListDirectory(KIMI).key] = listing
    return Checkpoint(evidence, f"{KIMI}/", {}).weights()


def test_weights_by_their_index_else_by_their_files() -> None:
    files = '["f", 7, "model-1.safetensors"]\n["f", 5, "model-2.safetensors"]\n["f", 99, "config.json"]\n'
    assert weighed({"metadata": {"total_size": 595_000_000_000}}, files) == 595_000_000_000
    assert weighed({"metadata": {"total_size": 595e9}}) == 595_000_000_000
    assert weighed(None, files) == 12


NO_INDEX = [None, {}, [], {"metadata": []}]
NO_SIZE = ["9", True, -1, 1e300]


@pytest.mark.parametrize("index", [*NO_INDEX, *({"metadata": {"total_size": size}} for size in NO_SIZE)])
def test_weights_of_which_nothing_is_known(index: object) -> None:
    with pytest.raises(Unanswered, match=r"it is not here|holds no weight files"):
        weighed(index)
    with pytest.raises(Unanswered, match="or links to them"):
        weighed(index, '["l", 76, "model-1.safetensors"]\n')

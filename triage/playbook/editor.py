"""The JSON Schema of playbooks, with which an editor completes and checks them."""

from __future__ import annotations

import json
from typing import Any

from triage.playbook.arguments import ARGUMENTS, StepArgument
from triage.playbook.schema import PlaybookFile


def schema() -> dict[str, Any]:
    """Return the schema of the playbook file, extended by the arguments of each verb."""
    found = PlaybookFile.model_json_schema(by_alias=True)
    verbs = [
        {
            "if": {"properties": {"do": {"const": verb}}, "required": ["do"]},
            "then": {
                "required": ["with"] if any(argument.required for argument in known.values()) else [],
                "properties": {
                    "with": {
                        "properties": {name: _described(argument) for name, argument in known.items()},
                        "required": [name for name, argument in known.items() if argument.required],
                        "additionalProperties": False,
                    }
                },
            },
        }
        for verb, known in ARGUMENTS.items()
        if known
    ]
    for step in ("Step", "MainStep"):
        found["$defs"][step]["allOf"] = verbs
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _described(argument: StepArgument) -> dict[str, Any]:
    return {"description": f"{argument.meaning}: {argument}, or a text with {{{{ expressions }}}}"}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))

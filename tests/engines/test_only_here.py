"""An engine is one file: nothing else in the code names it, so another one takes one file more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import triage
from triage.engines import ENGINES

PACKAGE = Path(triage.__file__).parent
HOME = PACKAGE / "engines"
FORMATS = {PACKAGE / "logs" / "formats" / f"{engine.log.format}.py" for engine in ENGINES.values()}
WORDS = {
    word for engine in ENGINES.values() for word in (engine.name, engine.title, *engine.command.programs)
}
NAMES = re.compile("|".join(re.escape(word) for word in sorted(WORDS)), re.IGNORECASE)


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Strings and identifiers that name an engine, with their lines; docstrings and comments may."""
    tree = ast.parse(source)
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if id(node) in documentation:
            continue
        for field, value in ast.iter_fields(node):
            texts = value if isinstance(value, list) else [value]
            if isinstance(node, ast.Constant) and field == "value" and isinstance(value, bytes):
                texts = [value.decode("latin-1")]
            for text in texts:
                if isinstance(text, str) and NAMES.search(text):
                    yield getattr(node, "lineno", 0), text


@pytest.mark.parametrize(
    "source",
    [
        "ENGINES = ('sglang', 'vllm')",
        "if engine == 'vllm': pass",
        "from triage.logs.formats import sglang",
        "import vllm",
        "def _starts_vllm(image): ...",
        "_SGLANG_READY = 1",
        "pattern = rb'^vllm:num_requests'",
        "told = f'no process runs SGLang{hint}'",
        "case(vllm=1)",
        "self.vllm",
    ],
)
def test_a_name_is_seen(source: str):
    assert list(names_in(source))


@pytest.mark.parametrize(
    "source", ['"""As SGLang has it."""', "x = 1\n'''vllm's'''", "x = 1  # vLLM", "def f():\n    '''vLLM'''"]
)
def test_documentation_may_name_an_engine(source: str):
    assert not list(names_in(source))


def test_no_code_outside_names_an_engine():
    files = [file for file in PACKAGE.rglob("*.py") if HOME not in file.parents and file not in FORMATS]
    assert len(files) > 300
    found = {
        str(file.relative_to(PACKAGE)): told
        for file in files
        if (told := list(names_in(file.read_text("utf-8"))))
    }
    assert not found


def test_no_script_or_template_names_an_engine():
    files = [file for kind in ("*.sh", "*.jinja", "*.html", "*.js") for file in PACKAGE.rglob(kind)]
    assert files
    assert not [str(file) for file in files if NAMES.search(file.read_text("utf-8"))]

"""The options and environment variables that an engine declares, read from its own source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from triage.explain.code import Code
from triage.explain.values import text_of

_ENVIRONMENT = ("getenv", "get_bool_env_var", "get_int_env_var", "get_float_env_var", "get_str_env_var")


@dataclass(frozen=True)
class DeclaredOption:
    """A launch option: as a user writes it, its default and its choices as code."""

    flag: str
    default: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declared:
    """Options by the name of their attribute (`tp_size`), and the names of environment variables."""

    options: Mapping[str, DeclaredOption]
    environment: frozenset[str]


def declared(code: Code, modules: Iterable[str]) -> Declared:
    """What these modules declare: `add_argument` calls, fields of argument classes, and variables."""
    options: dict[str, DeclaredOption] = {}
    environment: set[str] = set()
    for name in modules:
        module = code.module(name)
        if module is None:
            continue
        fields: dict[str, str] = {}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "add_argument":
                    options.update(_argument(node))
            elif isinstance(node, ast.ClassDef) and node.name.endswith("Args"):
                fields.update(_fields(node))
            elif isinstance(node, ast.Dict):
                environment.update(_keys(node))
            elif isinstance(node, ast.ClassDef):
                environment.update(name for name, _ in _fields(node).items() if name.isupper())
        for dest, default in fields.items():
            given = options.get(dest)
            if given is None:
                options[dest] = DeclaredOption(f"--{dest.replace('_', '-')}", default)
            elif not given.default or given.default.startswith(("ServerArgs.", "EngineArgs.")):
                options[dest] = DeclaredOption(given.flag, default, given.choices)
    return Declared(options, frozenset(environment))


def _argument(call: ast.Call) -> dict[str, DeclaredOption]:
    flags = [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    flags = [flag for flag in flags if flag.startswith("--")]
    if not flags:
        return {}
    named = {each.arg: each.value for each in call.keywords if each.arg}
    dest = named.get("dest")
    is_named = isinstance(dest, ast.Constant) and isinstance(dest.value, str)
    name = str(dest.value) if is_named and isinstance(dest, ast.Constant) else flags[0][2:].replace("-", "_")
    choices = named.get("choices")
    items = choices.elts if isinstance(choices, (ast.List, ast.Tuple)) else []
    listed = tuple(str(each.value) for each in items if isinstance(each, ast.Constant))
    default = text_of(named["default"])[:100] if "default" in named else ""
    return {name: DeclaredOption(flags[0], default, listed)}


def _fields(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = text_of(each.value)[:100] if each.value is not None else ""
        elif isinstance(each, ast.Assign):
            target = each.targets[0]
            if isinstance(target, ast.Name) and target.id.isupper():
                found[target.id] = text_of(each.value)[:100]
    return found


def _keys(node: ast.Dict) -> Iterator[str]:
    for key in node.keys:
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isupper():
            yield key.value


def variable_of(node: ast.AST) -> str:
    """The variable that an expression reads: `os.environ["X"]`, `envs.X`, `get_bool_env_var("X")`; or ""."""
    if isinstance(node, ast.Subscript) and text_of(node.value) in ("os.environ", "environ"):
        return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""
    if isinstance(node, ast.Call):
        said = text_of(node.func)
        is_read = said.rpartition(".")[2] in _ENVIRONMENT or said.endswith("environ.get")
        if is_read and node.args and isinstance(node.args[0], ast.Constant):
            return str(node.args[0].value)
        if said.startswith("envs.") and said.endswith(".get"):
            return said.split(".")[1]
    if isinstance(node, ast.Attribute) and text_of(node.value).endswith(("envs", "environ")):
        return node.attr if node.attr.isupper() else ""
    return ""

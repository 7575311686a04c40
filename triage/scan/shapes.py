"""Places in a module that assume that one process owns the whole model, decided on syntax.

A module is looked at when it is dealt out to pipeline stages: it makes placeholders, or its layers for
one rank; towers for images and sound are whole on every stage. A place is not reported where the code
around it asks first: whether the stage is the first or the last, whether the layer is a placeholder or
in the stage, whether the name has a parameter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from triage.patching.model import Site
from triage.patching.source import parse_ast
from triage.scan.model import Confidence, Finding, Kind

# A file without these holds nothing to find.
NEEDLES = (
    b"get_value_buffer(0", b"get_key_buffer(0", b"layers[0]", b".layers)", b"in self.layers", b"model.layers",
    b"embed_tokens.", b"params_dict[", b"_layer = 0", b"layers=self.layers",
)  # fmt: skip
_STAGED = re.compile(rb"PPMissingLayer\(|\bpp_rank=|make_pp_layers\(|^[^#\n]*is_pp_missing_parameter\(", re.M)
_ASKS = re.compile(
    r"PPMissingLayer|is_first_rank|is_last_rank|hasattr\(layer,|getattr\(layer,|isinstance\(layer,|start_layer|"
    r"end_layer|"
    r"layer_id\b.*<|get_layer_id|is_pp_missing|non_local|pp_size (?:!=|==) 1|pp_group.world_size (?:!=|==) 1"
)
_SKIPS = re.compile(r"start_layer|end_layer|get_layer_id|is_pp_missing|_non_local|skip_foreign|is_local")
_FOREIGN = {"embed_tokens"}
_POOLS = {"token_to_kv_pool", "main_pool"}
_PLAIN = {"append", "extend", "__len__", "register_forward_hook"}


def may_hold(data: bytes) -> bool:
    """False only for a file without anything to find; cheap to ask before parsing it."""
    return any(needle in data for needle in NEEDLES)


def look(path: str, data: bytes) -> tuple[Finding, ...]:
    """Every place in a module. Raises Unparsable."""
    if not may_hold(data):
        return ()
    walk = _Walk(path, data)
    walk.visit(parse_ast(data))
    found = {(item.kind, item.site.line): item for item in walk.found}
    return tuple(found[key] for key in sorted(found, key=lambda key: key[1]))


class _Walk(ast.NodeVisitor):
    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.lines = data.decode("utf-8-sig", "backslashreplace").splitlines()
        self.staged = bool(_STAGED.search(data)) and "/models/" in path
        self.around: list[ast.AST] = []
        self.found: list[Finding] = []

    def generic_visit(self, node: ast.AST) -> None:
        self.around.append(node)
        super().generic_visit(node)
        self.around.pop()

    def visit_Call(self, node: ast.Call) -> None:
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get_value_buffer", "get_key_buffer", "get_kv_buffer")
            and node.args
            and _is_zero(node.args[0])
            and _last(node.func.value) in _POOLS
        ):
            self.add("layer-zero-buffer", node, "high")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self.staged:
            value = node.value
            if isinstance(value, ast.Subscript) and _is_zero(value.slice) and _is_layers(value.value):
                if not self.asked(node):
                    self.add("layer-zero", node, "high")
            elif (
                isinstance(value, ast.Attribute)
                and value.attr in _FOREIGN
                and isinstance(value.value, ast.Name)
                and node.attr not in ("weight",)
                and not self.asked(node)
            ):
                self.add("foreign-part", node, "medium")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if (
            self.staged
            and len(names) > 1
            and _is_zero(node.value)
            and all(n.endswith("_layer") for n in names)
        ):
            self.add("layer-zero", node, "high")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        whole = node.arg == "layers" and isinstance(node.value, ast.Attribute) and _is_layers(node.value)
        if self.staged and whole and not self.asked(node):
            self.add("all-layers", node, "high")
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self.walked(node, node.target, node.iter, node.body)
        self.generic_visit(node)

    def visit_comprehension_of(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        for part in node.generators:
            values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            self.walked(node, part.target, part.iter, [*part.ifs, *values])
        self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_comprehension_of

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if (
            self.staged
            and isinstance(node.value, ast.Name)
            and node.value.id == "params_dict"
            and isinstance(node.ctx, ast.Load)
            and self.loads_unasked(node)
        ):
            self.add("unguarded-parameter", node, "high")
        self.generic_visit(node)

    def walked(self, node: ast.AST, target: ast.expr, over: ast.expr, body: Sequence[ast.AST]) -> None:
        """A walk over all layers that takes a part of each without asking."""
        if not self.staged or not (over_layers := _all_layers(over)):
            return
        index, item = over_layers
        names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
        text = "\n".join(ast.unparse(part) for part in body)
        if not names or _ASKS.search(text) or self.asked(node):
            return
        for part in (n for b in body for n in ast.walk(b)):
            if not isinstance(part, ast.Attribute) or part.attr in _PLAIN:
                continue
            by_item = item and isinstance(part.value, ast.Name) and part.value.id == names[-1]
            by_index = (
                index
                and isinstance(part.value, ast.Subscript)
                and _is_layers(part.value.value)
                and isinstance(part.value.slice, ast.Name)
                and part.value.slice.id == names[0]
            )
            if by_item or by_index:
                self.add("all-layers", node, "high")
                return

    def asked(self, node: ast.AST) -> bool:
        """Does a condition around a node, or one before it that leaves, ask whether this stage has it?"""
        inner = node
        for outer in reversed(self.around):
            if isinstance(outer, (ast.If, ast.IfExp, ast.While)) and _ASKS.search(ast.unparse(outer.test)):
                return True
            if isinstance(outer, ast.BoolOp) and any(
                _ASKS.search(ast.unparse(v)) for v in _before(outer, inner)
            ):
                return True
            if isinstance(outer, ast.Try):
                return True
            before = _ifs_before(outer, node)
            if any(_leaves(part) and _ASKS.search(ast.unparse(part.test)) for part in before):
                return True
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return False
            inner = outer
        return False

    def loads_unasked(self, node: ast.Subscript) -> bool:
        functions = [n for n in self.around if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        if not functions or "load_weight" not in functions[0].name or self.in_tower():
            return False
        if _SKIPS.search(ast.unparse(functions[0])):
            return False
        key = ast.unparse(node.slice)
        if not isinstance(node.slice, ast.Name):
            return False
        asks = re.compile(rf"\b{re.escape(key)}(?: not)? in (?:params_dict|loaded_params)\b")
        for outer in reversed(self.around):
            if isinstance(outer, (ast.If, ast.IfExp)) and asks.search(ast.unparse(outer.test)):
                return False
            if isinstance(outer, ast.Try):
                return False
            for field in ("body", "orelse"):
                body = getattr(outer, field, None)
                if not isinstance(body, list) or not any(node is n for b in body for n in ast.walk(b)):
                    continue
                for statement in body:
                    if any(node is n for n in ast.walk(statement)):
                        break
                    if isinstance(statement, ast.If) and _leaves(statement) and _guards(statement.test, asks):
                        return False
            if outer is functions[0]:
                break
        return True

    def in_tower(self) -> bool:
        return any(
            isinstance(n, ast.ClassDef) and re.search("Vi(?:sion|T)|Audio", n.name) for n in self.around
        )

    def add(self, kind: Kind, node: ast.AST, confidence: Confidence) -> None:
        line = getattr(node, "lineno", 1)
        last = line if isinstance(node, (ast.For, ast.ListComp, ast.GeneratorExp)) else node.end_lineno  # type: ignore[attr-defined]
        text = "\n".join(self.lines[line - 1 : last])
        names = [
            n.name
            for n in self.around
            if isinstance(n, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        self.found.append(
            Finding(kind, confidence, Site(self.path, line, last or line, text), ".".join(names))
        )


def _all_layers(over: ast.expr) -> tuple[bool, bool] | None:
    """Does an iteration go over all layers: by their index, by themselves?"""
    text = ast.unparse(over)
    if re.fullmatch(r"range\(len\((?:\w+\.)*layers\)\)", text):
        return True, False
    if re.fullmatch(r"enumerate\((?:\w+\.)*layers\)", text):
        return True, True
    if isinstance(over, ast.Attribute) and _is_layers(over):
        return False, True
    return None


def _is_layers(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "layers" and "encoder" not in ast.unparse(node)


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _before(outer: ast.BoolOp, inner: ast.AST) -> Iterator[ast.expr]:
    for value in outer.values:
        if any(part is inner for part in ast.walk(value)):
            return
        yield value


def _ifs_before(outer: ast.AST, node: ast.AST) -> Iterator[ast.If]:
    """The conditions before a node among the statements of what is around it."""
    line, body = getattr(node, "lineno", 0), getattr(outer, "body", ())
    return (
        part
        for part in (body if isinstance(body, list) else ())
        if isinstance(part, ast.If) and (part.end_lineno or 0) < line
    )


def _leaves(node: ast.If) -> bool:
    return isinstance(node.body[-1], (ast.Continue, ast.Return, ast.Break, ast.Raise))


def _guards(test: ast.expr, asks: re.Pattern[str]) -> bool:
    """Does a condition leave whenever the name has no parameter, and not only for some names?"""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return False
    return bool(asks.search(ast.unparse(test)))

"""Places in a module that assume that one process owns the whole model, decided on syntax.

A class is looked at when it runs as one stage of a pipeline. A place is not reported where the code around
it asks first: whether the stage is the first or the last, whether the layer is a placeholder or in the
stage, whether the name has a parameter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from triage.patching.model import Site
from triage.patching.source import Unparsable, parse_plain
from triage.scan.model import Confidence, Kind, ScanFinding
from triage.scan.prefilter import PARTS, may_hold
from triage.scan.staged import EMBEDDINGS, Module, dealt, last, whole

_ASKS = re.compile(
    r"PPMissingLayer|is_first_rank|is_last_rank|(?:has|get)attr\(layer,|isinstance\(layer,|start_layer|end_layer"
    r"|layer_id\b.*<|get_layer_id|is_pp_missing|non_local|pp_size (?:!=|==) 1|world_size (?:!=|==) 1"
)
# Whether the stage is the last one does not tell whether it has the embedding.
_ASKS_FOR_BOTH = re.compile(r"is_first_rank|pp_size == 1|world_size == 1")
# Whether there is a layer before: the last one of a stage does not tell.
_ASKS_FOR_FIRST = re.compile(r"start_layer|is_first_rank|PPMissingLayer")
_SKIPS = re.compile(r"start_layer|end_layer|get_layer_id|is_pp_missing|_non_local|skip_foreign|is_local")
_RENAMED = r"(?:\.replace\([\w\s,]*\))?"
_BUFFERS = ("get_value_buffer", "get_key_buffer", "get_kv_buffer")
_POOLS = ("token_to_kv_pool", "main_pool")
_PLAIN = ("append", "extend", "__len__", "register_forward_hook")
_WALKS = re.compile(r"(enumerate\()?(range\(len\()?(?:\w+\.)+layers\)*")
_OTHER = re.compile(r"encoder|draft")  # towers, and models beside the model
_NUMBERS = re.compile(r"\bnum_hidden_layers\b|\.\w*layer_ids\b")
# Elastic expert parallelism, which vLLM refuses with a pipeline, is all that calls it.
_ON_ONE_STAGE = ("update_physical_experts_metadata",)
_COMMENT = re.compile(r"#[^\n]*")

MANY = 1000  # questions that a file may raise; a model raises some tens
LONG = 20_000  # characters of a statement or condition that are looked at

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Comprehension = ast.ListComp | ast.GeneratorExp | ast.DictComp


def look(path: str, data: bytes) -> tuple[ScanFinding, ...]:
    """Every place in a module. Raises Unparsable."""
    if not may_hold(data):
        return ()
    walk = _Walk(path, data, parse_plain(data))
    try:
        walk.module()
    except RecursionError:
        raise Unparsable("its syntax is nested too deeply") from None
    except _Enough:
        pass
    found = {(item.kind, item.site.line): item for item in walk.found}
    return tuple(found[key] for key in sorted(found, key=lambda key: key[1]))


class _Enough(Exception):
    """A file raises more questions than any model does: what was found so far is the answer."""


class _Walk(ast.NodeVisitor):
    def __init__(self, path: str, data: bytes, tree: ast.Module) -> None:
        self.path = path
        self.stages = Module(tree, data)
        self.lines = data.decode("utf-8-sig", "backslashreplace").splitlines()
        self.around: list[ast.AST] = []
        self.found: list[ScanFinding] = []
        self.questions = 0
        self.skipping: dict[ast.AST, bool] = {}
        self.dealt = False
        self.foreign_embedding = False

    def module(self) -> None:
        """Pools are asked anywhere, everything else in the classes that run as a stage."""
        self.pools()
        staged = list(self.stages.staged()) if "/models/" in self.path else []
        self.foreign_embedding = bool(staged) and self.stages.has_foreign_embedding()
        for node in staged:
            self.dealt = dealt(node)
            self.around = [node]
            if self.stages.takes(node):
                for call in whole(node):
                    self.add("whole-model", call, "medium")
            for part in node.body:
                if isinstance(part, _Function) and part.name not in _ON_ONE_STAGE and self.worth(part):
                    self.visit(part)

    def pools(self) -> None:
        if not any(name.encode() in self.stages.data for name in _BUFFERS):
            return
        for node in ast.walk(self.stages.tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _BUFFERS
                and node.args
                and _is_zero(node.args[0])
                and last(node.func.value) in _POOLS
            ):
                self.add("layer-zero-buffer", node, "high")

    def worth(self, node: ast.AST) -> bool:
        """Do the words of any shape stand in a method?"""
        text = "\n".join(self.lines[node.lineno - 1 : node.end_lineno]).encode()  # type: ignore[attr-defined]
        return any(word in text for word in PARTS)

    def generic_visit(self, node: ast.AST) -> None:
        self.around.append(node)
        super().generic_visit(node)
        self.around.pop()

    def visit_Attribute(self, node: ast.Attribute) -> None:
        value = node.value
        if isinstance(value, ast.Subscript) and _is_layers(value.value):
            if _is_zero(value.slice) and not self.asked(node):
                self.add("layer-zero", node, "high")
            elif _is_before(value.slice) and not self.asked(node, _ASKS_FOR_FIRST):
                self.add("layer-before", node, "high")
        elif (
            isinstance(value, ast.Attribute)
            and value.attr in EMBEDDINGS
            and isinstance(value.value, ast.Name)
            and node.attr != "weight"
            and not self.asked(node)
        ):
            self.add("foreign-part", node, "medium")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if len(names) > 1 and _is_zero(node.value) and all(name.endswith("_layer") for name in names):
            self.add("layer-zero", node, "high")
        if self.foreign_embedding and _ties(node) and self.in_init() and not self.asked(node, _ASKS_FOR_BOTH):
            self.add("tied-head", node, "high")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg == "layers" and _is_layers(node.value) and not self.asked(node):
            self.add("all-layers", node, "high")
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self.walked(node, node.target, node.iter, node.body)
        self.generic_visit(node)

    def visit_comprehension_of(self, node: _Comprehension) -> None:
        for part in node.generators:
            values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            self.walked(node, part.target, part.iter, [*part.ifs, *values])
        self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_comprehension_of

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if (
            isinstance(node.value, ast.Name)
            and node.value.id == "params_dict"
            and isinstance(node.ctx, ast.Load)
            and self.loads_unasked(node)
        ):
            self.add("unguarded-parameter", node, "high")
        self.generic_visit(node)

    def walked(self, node: ast.AST, target: ast.expr, over: ast.expr, body: Sequence[ast.AST]) -> None:
        """A walk over all layers, by their number or themselves, that does not ask which are here."""
        names = [item.id for item in ast.walk(target) if isinstance(item, ast.Name)]
        by_number, by_item = self.walks(over)
        if not names or not (by_number or by_item):
            return
        if any(_ASKS.search(self.text(part)) for part in (over, *body)) or self.asked(node):
            return
        nodes = [item for part in body for item in ast.walk(part)]
        layers = {names[-1]} if by_item else set()
        number = names[0] if by_number else ""
        layers |= {
            last(statement.targets[0])
            for statement in nodes
            if isinstance(statement, ast.Assign) and _is_layer(statement.value, number)
        }

        def is_layer(item: ast.expr) -> bool:
            return _is_layer(item, number) or (isinstance(item, ast.Name) and item.id in layers)

        parts = (n for n in nodes if isinstance(n, ast.Attribute) and n.attr not in _PLAIN)
        calls = (n for n in nodes if self.dealt and isinstance(n, ast.Assign))
        if stale := _stale(body, number):
            if self.called():
                self.add("stale-layer", stale, "high")
        elif part := next((n for n in parts if is_layer(n.value)), None):
            if self.may_have(part.attr):
                self.add("all-layers", node, "high", part)
        elif call := next((n for n in calls if (called := _called_for_two(n)) and is_layer(called)), None):
            self.add("all-layers-called", node, "high", call)

    def walks(self, over: ast.expr) -> tuple[bool, bool]:
        """Does an iteration go over all layers: by their number, by themselves?"""
        text = self.text(over)
        if _WALKS.fullmatch(text) and not _OTHER.search(text):
            return text.startswith(("range(", "enumerate(")), not text.startswith("range(")
        return bool(isinstance(over, (ast.Call, ast.Attribute)) and _NUMBERS.search(text)), False

    def asked(self, node: ast.AST, asks: re.Pattern[str] = _ASKS) -> bool:
        """Does a condition around a node, or one before it that leaves, ask whether this stage has it?"""
        self.count()
        inner = node
        for outer in reversed(self.around):
            if isinstance(outer, (ast.If, ast.IfExp, ast.While)) and asks.search(self.text(outer.test)):
                return True
            if isinstance(outer, ast.BoolOp) and any(
                asks.search(self.text(value)) for value in _before(outer, inner)
            ):
                return True
            if isinstance(outer, ast.Try):
                return True
            before = _ifs_before(outer, node)
            if any(_leaves(part) and asks.search(self.text(part.test)) for part in before):
                return True
            if isinstance(outer, _Function):
                return False
            inner = outer
        return False

    def loads_unasked(self, node: ast.Subscript) -> bool:
        """Does load_weights look up a name that may be another stage's, and that nothing asked for?"""
        functions = [item for item in self.around if isinstance(item, _Function)]
        if not isinstance(node.slice, ast.Name) or not functions or not _loads(functions[0].name):
            return False
        if any(arg.arg == "params_dict" for item in functions for arg in item.args.args):
            return False  # the caller asks
        if self.skips(functions[0]):
            return False
        self.count()
        key = node.slice.id
        asks = re.compile(rf"\b{re.escape(key)}{_RENAMED}(?: not)? in (?:params_dict|loaded_params)\b")
        inner: ast.AST = node
        for outer in reversed(self.around):
            if isinstance(outer, (ast.If, ast.IfExp)) and asks.search(self.text(outer.test)):
                return False
            if isinstance(outer, ast.Try):
                return False
            for statement in _statements_before(outer, inner):
                if isinstance(statement, ast.If) and _leaves(statement) and self.guards(statement.test, asks):
                    return False
            if outer is functions[0]:
                break
            inner = outer
        return True

    def skips(self, function: ast.AST) -> bool:
        """Does a function skip what is another stage's, or leave it to another that does?"""
        if function not in self.skipping:
            text = self.text(function, len(self.stages.data))
            self.skipping[function] = bool(_SKIPS.search(text)) or ".load_weights([" in text
        return self.skipping[function]

    def count(self) -> None:
        self.questions += 1
        if self.questions > MANY:
            raise _Enough

    def guards(self, test: ast.expr, asks: re.Pattern[str]) -> bool:
        """Does a condition hold whenever the name has no parameter, and not only for some names?"""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return False
        return bool(asks.search(self.text(test)))

    def may_have(self, part: str) -> bool:
        """Whether a layer may have a part; a part that no layer has fails without a pipeline, too."""
        return self.stages.layer_parts is None or part in self.stages.layer_parts

    def called(self) -> bool:
        """Does the module call the method that this is in? What only its own name mentions is dead code."""
        name = next(item.name for item in self.around if isinstance(item, _Function))
        return f".{name}(".encode() in self.stages.data

    def in_init(self) -> bool:
        return any(isinstance(item, ast.FunctionDef) and item.name == "__init__" for item in self.around)

    def text(self, node: ast.AST, most: int = LONG) -> str:
        """The code of a node on one line, without comments; no more than so many characters of it."""
        first, end = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        lines = self.lines[first - 1 : min(end, first + most // 8)]
        if not lines:
            return ""
        if lines[-1].isascii() and len(lines) == end - first + 1:
            lines[-1] = lines[-1][: node.end_col_offset]  # type: ignore[attr-defined]
        if lines[0].isascii():
            lines[0] = lines[0][node.col_offset :]  # type: ignore[attr-defined]
        return " ".join(_COMMENT.sub("", "\n".join(lines)[:most]).split())

    def add(self, kind: Kind, node: ast.AST, confidence: Confidence, until: ast.AST | None = None) -> None:
        """A place: a node, or of a loop what leads to the part that is wrong."""
        line = node.lineno  # type: ignore[attr-defined]
        last_part = until if until is not None and isinstance(node, ast.For) else node
        end = max(line, last_part.end_lineno)  # type: ignore[attr-defined]
        names = [item.name for item in self.around if isinstance(item, (ast.ClassDef, *_Function))]
        text = "\n".join(self.lines[line - 1 : end])
        self.found.append(ScanFinding(kind, confidence, Site(self.path, line, end, text), ".".join(names)))


def _is_layers(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "layers" and not _OTHER.search(ast.unparse(node))


def _is_layer(node: ast.expr, number: str) -> bool:
    """`self.layers[NUMBER]`"""
    return (
        isinstance(node, ast.Subscript)
        and _is_layers(node.value)
        and isinstance(node.slice, ast.Name)
        and node.slice.id == number
    )


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def _is_before(node: ast.expr) -> bool:
    """`layer - 1`"""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Name)


def _ties(node: ast.Assign) -> bool:
    """`self.lm_head = self.model.embed_tokens`, or their weights"""
    if not any("lm_head" in (last(t), last(getattr(t, "value", t))) for t in node.targets):
        return False
    value = node.value
    if isinstance(value, ast.Call) and last(value.func) == "tie_weights" and value.args:
        value = value.args[0]
    if isinstance(value, ast.Attribute) and value.attr == "weight":
        value = value.value
    return last(value) in EMBEDDINGS


def _stale(body: Sequence[ast.AST], number: str) -> ast.If | None:
    """A layer that is only taken where it is here, and used also where it is not."""
    for place, part in enumerate(body):
        if (
            not isinstance(part, ast.If)
            or part.orelse
            or not any(_is_layer(node, number) for node in ast.walk(part.test) if isinstance(node, ast.expr))
        ):
            continue
        set_here = {last(t) for s in part.body if isinstance(s, ast.Assign) for t in s.targets}
        after = (node for later in body[place + 1 :] for node in ast.walk(later))
        if any(isinstance(node, ast.Name) and node.id in set_here for node in after):
            return part
    return None


def _called_for_two(node: ast.Assign) -> ast.expr | None:
    """What is called in `hidden_states, residual = layer(...)`."""
    pair = isinstance(node.targets[0], ast.Tuple)
    return node.value.func if pair and isinstance(node.value, ast.Call) else None


def _loads(name: str) -> bool:
    return "load" in name and "weight" in name


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


def _statements_before(outer: ast.AST, inner: ast.AST) -> Iterator[ast.stmt]:
    """The statements before one, among those that it stands with."""
    for field in ("body", "orelse"):
        body = getattr(outer, field, None)
        if isinstance(body, list) and inner in body:
            yield from body[: body.index(inner)]


def _leaves(node: ast.If) -> bool:
    return isinstance(node.body[-1], (ast.Continue, ast.Return, ast.Break, ast.Raise))

"""What a rule says, under five headings, and the Markdown pages made of that."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from triage.common.commands import command
from triage.rules.categories import CATEGORIES
from triage.rules.checks import Probe
from triage.rules.schema import Category, Place, RemedySpec, Rule, Signature

INDEX = "index.md"
REGENERATE = "make docs"
GENERATED = f"Generated from the rule files by `{REGENERATE}`; edits go there."
PLACES: Mapping[Place, str] = {
    "kernel-log": "the kernel log of the run",
    "other-ranks": "what other ranks said, or did not say",
    "other-hosts": "the logs of the run's other hosts",
    "worker-log": "the lines of the engine's own processes",
    "earlier-lines": "the lines before it",
}
ROLES = {
    "cause": "A cause: what has to be fixed.",
    "consequence": "A consequence: what brought it about stands elsewhere, and is the answer there.",
    "benign": "Harmless: it looks like an error, and stops nothing.",
}
_NO_PROBE = "Nothing that can be read from a host proves it, so it is never more than likely."
_NO_REMEDY = {
    "cause": "No remedy is known.",
    "consequence": "Look for what came before it: on another rank, on another node, in the kernel log.",
    "benign": "Nothing needs to be done.",
}
_CODE = re.compile(r"`[^`]*`")
_MARKUP = re.compile(
    r"[\\*<\[\]`|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
)  # an underscore inside a word is none


@dataclass(frozen=True)
class Block:
    """A paragraph, an item of a list, a line to type or that a log holds, or an address."""

    kind: Literal["text", "item", "code", "link"]
    text: str


@dataclass(frozen=True)
class RuleSection:
    heading: str
    blocks: tuple[Block, ...]


def sections(rule: Rule) -> tuple[RuleSection, ...]:
    """What it means, why it happens, how it is confirmed, what to do, references (where there are any)."""
    found = (
        RuleSection("What it means", tuple(_meaning(rule))),
        RuleSection("Why it happens", tuple(Block("text", part) for part in paragraphs(rule.explanation))),
        RuleSection("How it is confirmed", tuple(_confirmation(rule))),
        RuleSection("What to do", tuple(_advice(rule))),
        RuleSection("References", tuple(Block("link", address) for address in rule.references)),
    )
    return tuple(section for section in found if section.blocks)


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a text, each on one line."""
    for part in re.split(r"\n\s*\n", text.strip()):
        yield " ".join(part.split())


def in_words(signature: Signature) -> str:
    """`exception ^IndexError$, message ^list index, through /a.py in f`: what a fault must have."""
    parts = [
        f"{name} `{pattern}`"
        for name, pattern in (
            ("kind", signature.kind),
            ("exception", signature.exception),
            ("message", signature.message),
            ("header", signature.header),
        )
        if pattern
    ]
    for frame in signature.frames:
        inside = f" in `{frame.function}`" if frame.function else ""
        code = f" at `{frame.code}`" if frame.code else ""
        parts.append(f"a frame of `{frame.file}`{inside}{code}")
    if signature.innermost:
        parts[-1] += " as the last"
    parts += [f"in the phase `{signature.phase}`"] if signature.phase else []
    parts += (f"{name} `{pattern}`" for name, pattern in signature.facts.items())
    return ", ".join(parts)


def _meaning(rule: Rule) -> Iterator[Block]:
    yield Block("text", f"{_sentence(rule.title)} {ROLES[rule.role]}")
    versions = " ".join(filter(None, (rule.engine, rule.affected)))
    if versions:
        yield Block("text", f"Seen in {versions}.")
    yield Block("text", "In the log:")
    yield Block("code", _telling_line(rule))


def _telling_line(rule: Rule) -> str:
    """The line of the first case that the signature is about."""
    lines = [line.strip() for line in rule.cases.match[0].log.splitlines() if line.strip()]
    signature = rule.signatures[0]
    for pattern in filter(None, (signature.message, signature.header, signature.exception)):
        # in a log the message stands behind the class's name, so it is not at an edge of the line
        loose = re.sub(r"(?<![\\\[])\^|(?<!\\)\$", "", pattern)
        for line in lines:
            if re.search(loose, line):
                return line[:500]
    return lines[-1][:500] if lines else ""


def _confirmation(rule: Rule) -> Iterator[Block]:
    for signature in rule.signatures:
        yield Block("item", f"the log: {in_words(signature)}")
    if rule.conclusive:
        yield Block("text", "That leaves no other cause.")
    elif not rule.probes:
        yield Block("text", _NO_PROBE)
    if rule.probes:
        yield Block("text", "On the host, all of these must hold:")
        yield from map(_probe, rule.probes)
    if rule.falsifiers:
        yield Block("text", "It is refuted, or in doubt, where one of these does not hold:")
        yield from map(_probe, rule.falsifiers)
    if rule.cause_in:
        yield Block(
            "text", f"Its cause is looked for in {', '.join(map(PLACES.__getitem__, rule.cause_in))}."
        )


def _probe(probe: Probe) -> Block:
    return Block("item", f"{probe.says} (`{probe.check}`)")


def _advice(rule: Rule) -> Iterator[Block]:
    if not rule.remedies:
        yield Block("text", _NO_REMEDY[rule.role])
    for remedy in rule.remedies:
        yield from _remedy(remedy)


def _remedy(remedy: RemedySpec) -> Iterator[Block]:
    text = ""
    if remedy.kind == "layouts":
        summary = "split the same GPUs into another tp x pp; a diagnosis judges each by the stage arithmetic"
    else:
        summary = remedy.summary
    if remedy.kind == "patch":
        text = str(command("patch HOST", "", "--id", remedy.patch, "--apply"))
    elif remedy.kind == "upgrade":
        text = f"python -m pip install --upgrade {shlex.quote(remedy.distribution + remedy.version)}"
    elif remedy.kind == "setting":
        text = str(remedy.set)
    elif remedy.kind == "action":
        text = remedy.command
    cost = f" Costs: {remedy.cost}." if remedy.cost else ""
    proof = getattr(remedy, "proof", "")
    yield Block("item", f"{remedy.kind}: {summary}.{cost}{f' Proof: {proof}.' if proof else ''}")
    if text:
        yield Block("code", text)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def pages(rules: Iterable[Rule]) -> dict[str, str]:
    """File name -> Markdown: one page a category that has rules, and an index."""
    by_category: dict[Category, list[Rule]] = {name: [] for name in get_args(Category)}
    for rule in rules:
        by_category[rule.category].append(rule)
    found = {name: sorted(members, key=_order) for name, members in by_category.items() if members}
    return {INDEX: _index(found), **{f"{name}.md": _page(name, part) for name, part in found.items()}}


def _order(rule: Rule) -> tuple[int, str]:
    return list(ROLES).index(rule.role), rule.id


def _index(categories: dict[Category, list[Rule]]) -> str:
    count = sum(map(len, categories.values()))
    lines = [
        "# Rules",
        "",
        GENERATED,
        "",
        f"{count} rules in {len(categories)} categories. `triage explain RULE` prints one in the terminal.",
    ]
    for name, rules in categories.items():
        lines += ["", f"## [{name}]({name}.md)", "", _sentence(CATEGORIES[name]), ""]
        lines += (f"- [{rule.id}]({name}.md#{rule.id}): {_escaped(rule.title)}" for rule in rules)
    return "\n".join(lines) + "\n"


def _page(name: Category, rules: list[Rule]) -> str:
    lines = [f"# {name}", "", _sentence(CATEGORIES[name]), "", GENERATED]
    for rule in rules:
        lines += ["", f"## {rule.id}"]
        for section in sections(rule):
            lines += ["", f"### {section.heading}"]
            previous = ""
            for block in section.blocks:
                if not (block.kind == previous and previous in ("item", "link")):
                    lines.append("")
                lines += _markdown(block, indented=previous == "item")
                previous = "item" if block.kind == "code" and previous == "item" else block.kind
    return "\n".join(lines) + "\n"


def _markdown(block: Block, indented: bool) -> Iterator[str]:
    if block.kind == "code":
        indent = "  " if indented else ""
        fence = "`" * max(3, _longest_run(block.text) + 1)
        yield f"{indent}{fence}text"
        yield from (f"{indent}{line}".rstrip() for line in block.text.strip("\n").splitlines())
        yield f"{indent}{fence}"
    elif block.kind == "link":
        yield (
            f"- <{block.text}>"
            if re.match(r"https?://[^\s<>]+$", block.text)
            else f"- {_escaped(block.text)}"
        )
    else:
        yield f"{'- ' if block.kind == 'item' else ''}{_escaped(block.text)}"


def _escaped(text: str) -> str:
    """Text in which only `code` is markup."""
    parts = re.split(f"({_CODE.pattern})", text)
    return "".join(part if _CODE.fullmatch(part) else _MARKUP.sub(r"\\\g<0>", part) for part in parts)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)

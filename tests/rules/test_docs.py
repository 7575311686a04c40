"""The pages about rules: never other than the rule files, and right Markdown whatever a rule says."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from markdown_it import MarkdownIt

from tests.rules.test_load import GOOD
from triage.rules.authoring.docs import INDEX, REGENERATE, in_words, pages, sections
from triage.rules.categories import CATEGORIES
from triage.rules.load import load_rules
from triage.rules.schema import Category

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "rules"
RULES = load_rules()


def test_the_pages_are_those_of_the_rules():
    written = {path.name: path.read_text("utf-8") for path in DOCS.glob("*.md")}
    made = pages(RULES)
    other = sorted(name for name in {*written, *made} if written.get(name) != made.get(name))
    assert other == [], f"docs/rules is not what the rule files say; run: {REGENERATE}"


def test_the_command_that_mends_it_exists():
    assert f"\n{REGENERATE.partition(' ')[2]}: " in (ROOT / "Makefile").read_text()


def test_every_category_says_what_it_means():
    assert list(CATEGORIES) == list(get_args(Category))


def test_every_rule_is_on_its_page_and_in_the_index():
    made = pages(RULES)
    for rule in RULES:
        assert f"\n## {rule.id}\n" in made[f"{rule.category}.md"]
        assert f"]({rule.category}.md#{rule.id})" in made[INDEX]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_headings(rule):
    headings = [section.heading for section in sections(rule)]
    expected = ["What it means", "Why it happens", "How it is confirmed", "What to do", "References"]
    assert headings == (expected if rule.references else expected[:-1])
    said = " ".join(block.text for section in sections(rule) for block in section.blocks)
    assert all(probe.says in said for probe in (*rule.probes, *rule.falsifiers))
    assert all(in_words(signature) in said for signature in rule.signatures)


def test_only_code_and_links_are_markup():
    """Titles and explanations are prose: an angle bracket or an underscore in them is itself."""
    allowed = {"text", "code_inline", "softbreak", "link_open", "link_close"}
    for name, text in pages(RULES).items():
        for token in MarkdownIt("commonmark").parse(text):
            assert token.type not in ("html_block", "code_block"), (name, token.content)
            assert {child.type for child in token.children or ()} <= allowed, (name, token.content)


def test_a_hostile_rule_stays_text(tmp_path):
    text = GOOD.replace("a title", "'<b>x</b> __init__ *a* [y](http://z) `code` ` |'")
    (tmp_path / "rule.yaml").write_text(text.replace('match: [{log: "x"}]', 'match: [{log: "````"}]'))
    page = pages(rule for rule in load_rules([tmp_path]) if rule.id == "my-rule")["unknown.md"]
    tokens = MarkdownIt("commonmark").parse(page)
    inline = [child for token in tokens for child in token.children or ()]
    plain = "".join(child.content for child in inline if child.type == "text")
    assert "<b>x</b> __init__ *a* [y](http://z) " in plain
    assert {child.type for child in inline} == {"text", "code_inline"}
    assert [token.content for token in tokens if token.type == "fence"] == ["````\n"]

"""The form that pages of the book keep, as a list of what is wrong with one.

Enters: `docs/book/en/NN_slug.md` and its twin in `docs/book/zh`. Leaves: sentences, one for each fault: lengths,
blocks, assertions, pictures, headings, exercises, paths of the tree that are gone, code that differs between the
languages by more than comments and strings. Runs nothing: tools/blocks.py does.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from blocks import ROOT, Block, blocks_of

BOOK = ROOT / "docs" / "book"
LANGUAGES = ("en", "zh")
PAGES = ("index", "glossary", "checklist", "resources")          # beside the chapters, in both languages
LENGTH = {"en": 900, "zh": 1300}                                 # words, characters: of prose
PRINTING, ASSERTIONS, PICTURES, PATHS, EXERCISES = 6, 4, 2, 3, 3
HEADINGS = {"en": ("Summary", "Exercises"), "zh": ("小结", "练习")}
_ROOMS = ("rushlight", "csrc", "docs", "tests", "tools", "examples", "benchmarks")
_PATH = re.compile(rf"`((?:{'|'.join(_ROOMS)})/[\w./-]*)`")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_HAN = re.compile(r"[\u3400-\u9fff]")


def chapters() -> list[str]:
    """The names `NN_slug` of all chapters, of either language, in order."""
    return sorted({page.stem for language in LANGUAGES for page in (BOOK / language).glob("[0-9][0-9]_*.md")})


def slug_of(chapter: str) -> str:
    return chapter.partition("_")[2]


def page_of(language: str, name: str) -> Path:
    return BOOK / language / f"{name}.md"


def prose_of(text: str) -> str:
    """A page without its code, its comments and the addresses of links."""
    text = re.sub(r"^```.*?^```[ \t]*$", "", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    return re.sub(r"\]\([^)]*\)", "]", text)


def length_of(language: str, text: str) -> int:
    prose = prose_of(text)
    return len(_HAN.findall(prose)) if language == "zh" else len(re.findall(r"[A-Za-z0-9_.'-]*[A-Za-z][\w.'-]*", prose))


class _Wordless(ast.NodeTransformer):
    """Strings become empty; of an f-string the values stay, whatever order a language puts them in."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Constant(""), node) if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        values = sorted(ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue))
        return ast.copy_location(ast.Constant(tuple(values) or ""), node)


def bare_code(block: Block) -> str:
    """What two languages must agree upon: the code without comments and the words of strings."""
    return ast.dump(_Wordless().visit(ast.parse(block.code)))


def faults_of_page(language: str, name: str) -> list[str]:
    """What is wrong with any page of the book: pictures and paths that are not there, half-width Chinese commas."""
    page = page_of(language, name)
    text = page.read_text(encoding="utf-8")
    found = []
    for alt, target in _PICTURE.findall(text):
        if not (page.parent / target).is_file():
            found.append(f"the picture {target} is not there")
        if len(alt) < (8 if language == "zh" else 20):
            found.append(f"the picture {target} needs words for those who cannot see it, got {alt!r}")
    found += [f"`{path}` is not in the tree" for path in sorted(set(_PATH.findall(text))) if not (ROOT / path).exists()]
    if language == "zh":
        half = re.findall(r"[\u3400-\u9fff][,;:?!][\u3400-\u9fff]", prose_of(text))
        found += [f"half-width punctuation between Chinese characters: {piece}" for piece in half]
    return found


def faults_of_chapter(language: str, name: str) -> list[str]:
    """What is wrong with one chapter in one language."""
    page, slug = page_of(language, name), slug_of(name)
    text = page.read_text(encoding="utf-8")
    blocks = blocks_of(page)
    trees = [ast.parse(block.code) for block in blocks]
    printing = sum(
        any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print" for node in ast.walk(tree))
        for tree in trees
    )
    assertions = sum(isinstance(node, ast.Assert) for tree in trees for node in ast.walk(tree))
    headings = re.findall(r"^## (.+?)\s*$", text, re.M)
    counts = [
        (length_of(language, text), LENGTH[language], "characters of prose" if language == "zh" else "words of prose"),
        (printing, PRINTING, "blocks that print"),
        (assertions, ASSERTIONS, "assertions"),
        (len(set(_PICTURE.findall(text))), PICTURES, "pictures"),
        (len(set(_PATH.findall(text))), PATHS, "files of this project named by path"),
    ]
    found = [f"expected {least} or more {what}, got {count}" for count, least, what in counts if count < least]
    found += [f"no heading `## {heading}`" for heading in HEADINGS[language] if heading not in headings]
    found += [
        f"exercise {slug}.{number} is not named"
        for number in range(1, EXERCISES + 1)
        if f"python -m rushlight learn start {slug}.{number}" not in text
    ]
    return found


def faults_of_twins(name: str) -> list[str]:
    """What differs between the languages and should not."""
    pages = [page_of(language, name) for language in LANGUAGES]
    if absent := [page for page in pages if not page.is_file()]:
        return [f"{absent[0].parent.name}/{absent[0].name} is not there"]
    english, chinese = (blocks_of(page) for page in pages)
    if len(english) != len(chinese):
        return [f"{len(english)} blocks in English, {len(chinese)} in Chinese"]
    found = [
        f"the blocks at line {a.line} (en) and {b.line} (zh) differ by more than comments and strings"
        for a, b in zip(english, chinese, strict=True)
        if a.words != b.words or bare_code(a) != bare_code(b)
    ]
    drawn = [
        [target for _, target in _PICTURE.findall(page.read_text(encoding="utf-8"))] for page in pages
    ]
    return found + (["the languages show different pictures"] if drawn[0] != drawn[1] else [])


def faults() -> list[str]:
    """What is wrong with the book, page by page."""
    found = []
    for name in chapters():
        found += [f"{name}: {fault}" for fault in faults_of_twins(name)]
        for language in LANGUAGES:
            if page_of(language, name).is_file():
                found += [f"{language}/{name}: {fault}" for fault in faults_of_chapter(language, name)]
    for language in LANGUAGES:
        names = [page.stem for page in sorted((BOOK / language).glob("*.md"))]
        found += [f"{language}/{name}: {fault}" for name in names for fault in faults_of_page(language, name)]
        found += [f"{language}/{name}.md is not there" for name in PAGES if name not in names]
    return found

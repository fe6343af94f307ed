"""The words of MLIR text, one after the other.

Enters: text. Leaves: the word at the current place (`kind`, `text`, `at`), and errors that say line and column. Refuses
characters that no word begins with, strings that do not end, and nesting deeper than DEEPEST, so that no text exhausts
the stack.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import NoReturn

from .errors import ParseError, UnsupportedText

DEEPEST = 64
_SUFFIX = r"(?:\d+|[A-Za-z$._-][\w$.-]*)"
_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_WORD = re.compile(
    rf"""(?P<value>%{_SUFFIX}(?:\#\d+)?)
    |(?P<label>\^{_SUFFIX})
    |(?P<symbol>@(?:[A-Za-z_][\w$.]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"))
    |(?P<attribute>\#(?!-\}}){_SUFFIX})
    |(?P<type>!{_SUFFIX})
    |(?P<float>\d+\.\d*(?:[eE][+-]?\d+)?)
    |(?P<hex>0x[0-9a-fA-F]+)
    |(?P<int>\d+)
    |(?P<name>[A-Za-z_][\w$.]*)
    |(?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*")
    |(?P<sign>->|::|\{{-\#|\#-\}}|[(){{}}\[\]<>,:=*+\-?|/])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r'\\(["\\nt]|[0-9a-fA-F]{2})')
_ESCAPES = {'"': b'"', "\\": b"\\", "n": b"\n", "t": b"\t"}


class Lexer:
    """A place in a text, and the word that stands there."""

    def __init__(self, source: str) -> None:
        self.source, self.end, self.depth = source, 0, 0
        self.kind = self.text = ""
        self.at = 0
        self.jump(0)

    # --- places -------------------------------------------------------------------------------------------------------

    def position(self, at: int) -> tuple[int, int]:
        """Line and column of a place, from 1."""
        return self.source.count("\n", 0, at) + 1, at - self.source.rfind("\n", 0, at)

    def error(self, message: str, at: int | None = None) -> ParseError:
        return ParseError(message, *self.position(self.at if at is None else at))

    def refusal(self, message: str, at: int | None = None) -> UnsupportedText:
        return UnsupportedText(message, *self.position(self.at if at is None else at))

    def fail(self, wanted: str) -> NoReturn:
        found = "the end of the text" if self.kind == "end" else f"'{self.text[:40]}'"
        raise self.error(f"expected {wanted}, got {found}")

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """One level deeper, while it lasts."""
        if self.depth >= DEEPEST:
            raise self.error(f"nested more than {DEEPEST} levels deep")
        self.depth += 1
        yield
        self.depth -= 1

    # --- words --------------------------------------------------------------------------------------------------------

    def jump(self, to: int) -> None:
        """Go to a place, and read the word there."""
        space = _SPACE.match(self.source, to)
        self.at = space.end() if space is not None else to
        found = _WORD.match(self.source, self.at)
        if found is not None:
            self.kind, self.text, self.end = found.lastgroup or "", found.group(), found.end()
        elif self.at >= len(self.source):
            self.kind, self.text, self.end = "end", "", self.at
        else:
            character = self.source[self.at]
            raise self.error("a string that does not end on its line" if character == '"'
                             else f"a character that begins no word: {character!r}")

    def advance(self) -> str:
        """The word here, after which comes the next."""
        text = self.text
        self.jump(self.end)
        return text

    def here(self, *words: str) -> bool:
        """Whether one of these signs or names stands here."""
        return self.text in words and self.kind in ("sign", "name")

    def take(self, word: str) -> bool:
        """Go on if this sign or name stands here; whether it does."""
        if self.text == word and self.kind in ("sign", "name"):
            self.jump(self.end)
            return True
        return False

    def expect(self, word: str) -> int:
        """Go on after this sign or name; where it stood."""
        at = self.at
        if not self.take(word):
            self.fail(f"'{word}'")
        return at

    def expect_kind(self, kind: str, wanted: str) -> str:
        if self.kind != kind:
            self.fail(wanted)
        return self.advance()

    def string(self) -> str:
        """The content of a string."""
        return unquoted(self.expect_kind("string", "a string"))

    def symbol(self) -> str:
        """The name of a function or resource."""
        text = self.expect_kind("symbol", "a symbol like @main")[1:]
        return unquoted(text) if text.startswith('"') else text

    def integer(self) -> int:
        """A whole number, with its sign."""
        negative = self.take("-")
        if self.kind not in ("int", "hex"):
            self.fail("a whole number")
        if len(self.text) > 100:
            raise self.error("a number of more than 100 digits")
        value = int(self.text, 16 if self.kind == "hex" else 10)
        self.advance()
        return -value if negative else value

    def separated(self, closing: str) -> Iterator[None]:
        """Once for each element of a list with commas, up to `closing`, which is taken."""
        if self.take(closing):
            return
        while True:
            yield
            if not self.take(","):
                break
        self.expect(closing)


def unquoted(text: str) -> str:
    """What a string in quotes says."""
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    parts = _ESCAPE.split(inner)
    raw = b"".join(
        part.encode("utf-8", "surrogatepass") if i % 2 == 0 else _ESCAPES.get(part) or bytes.fromhex(part)
        for i, part in enumerate(parts)
    )
    return raw.decode("utf-8", "backslashreplace")

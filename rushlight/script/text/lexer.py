"""Words of graph and schema text.

Enters: text. Leaves: a `Tokens` to walk. Refuses: what is no word, with the lines around it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..source import Range, Source

_WORD = re.compile(
    r"(?P<space>[ \t\r\n]+|\#[^\n]*)|(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?j?|\.\d+(?:[eE][+-]?\d+)?j?)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<ident>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>->|::|[%:=,.()\[\]{}<>?!*^+\-|/@&])"
)


class Token(NamedTuple):
    kind: str                # number, string, ident, mark, eof
    text: str
    start: int
    end: int


class TextError(RuntimeError):
    """Text that cannot be read, with the lines around the place."""


class Tokens:
    """The words of a text, one of them the current one."""

    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.words: list[Token] = []
        at = 0
        while at < len(text):
            found = _WORD.match(text, at)
            if found is None:
                self.refuse(f"unexpected character {text[at]!r}", at, at + 1)
            if found.lastgroup != "space":  # type: ignore[union-attr]
                self.words.append(Token(found.lastgroup, found.group(), at, found.end()))  # type: ignore
            at = found.end()  # type: ignore[union-attr]
        self.words.append(Token("eof", "", len(text), len(text)))
        self.at = 0

    @property
    def now(self) -> Token:
        return self.words[self.at]

    def ahead(self, count: int = 1) -> Token:
        return self.words[min(self.at + count, len(self.words) - 1)]

    def take(self) -> Token:
        word = self.now
        self.at = min(self.at + 1, len(self.words) - 1)
        return word

    def is_(self, *texts: str) -> bool:
        """Whether the current word is one of some marks or identifiers."""
        return self.now.kind in ("mark", "ident") and self.now.text in texts

    def take_if(self, text: str) -> bool:
        if self.is_(text):
            self.take()
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.is_(text):
            found = self.now.text if self.now.kind in ("mark", "ident") else self.now.kind
            self.refuse(f"expected {text} but found '{found}' here", self.now.start, self.now.end)
        return self.take()

    def expect_kind(self, kind: str) -> Token:
        if self.now.kind != kind:
            found = self.now.text if self.now.kind == "mark" else self.now.kind
            self.refuse(f"expected {kind} but found '{found}' here", self.now.start, self.now.end)
        return self.take()

    def refuse(self, why: str, start: int | None = None, end: int | None = None) -> None:
        """Raise, showing the place (the current word's where none is given)."""
        begin = self.now.start if start is None else start
        stop = self.now.end if end is None else end
        shown = Range(self.source, begin, max(stop, begin + 1)).highlight().partition("\n")[2]
        raise TextError(f"{why}:\n{shown}")


_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", "'": "'", '"': '"'}


def unquoted(text: str) -> str:
    """The string that a quoted word stands for; octal escapes are bytes of UTF-8."""
    out = bytearray()
    body, at = text[1:-1], 0
    while at < len(body):
        character = body[at]
        if character != "\\":
            out += character.encode()
            at += 1
            continue
        octal = re.match(r"[0-7]{1,3}", body[at + 1 :])
        if octal:
            out.append(int(octal.group(), 8) & 255)
            at += 1 + octal.end()
        else:
            out += _PLAIN.get(body[at + 1], "\\" + body[at + 1]).encode()
            at += 2
    return out.decode("utf-8", "replace")

"""Words of code text, lines and indentation among them.

Enters: the text of an archive's member and its name. Leaves: `CodeTokens`, a row of words with `newline`, `indent` and
`dedent` between them; inside brackets lines do not end. Refuses: what is no word, and indentation that fits no line
above, naming file and line.
"""

from __future__ import annotations

import re
from typing import NoReturn

from ..source import Range, Source
from .lexer import TextError, Token, Tokens

_WORD = re.compile(
    r"(?P<space>[ \t\r]+|\#[^\n]*)|(?P<newline>\n)"
    r"|(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?j?|\.\d+(?:[eE][+-]?\d+)?j?)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<ident>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>->|\*\*|//|<<|>>|==|!=|<=|>=|[-+*/%&|^~<>=:,.()\[\]{}@;])"
)
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
TAB = 8


class CodeTokens(Tokens):
    """The words of one member of an archive."""

    def __init__(self, text: str, source: Source) -> None:
        self.source, self.words, self.at = source, [], 0
        self._indents = [0]
        self._depth = 0
        self._split(text)
        end = len(text)
        self._newline(end)
        self.words += [Token("dedent", "", end, end)] * (len(self._indents) - 1)
        self.words.append(Token("eof", "", end, end))

    def _split(self, text: str) -> None:
        at, is_first = 0, True
        match = _WORD.match
        while at < len(text):
            found = match(text, at)
            if found is None:
                self.refuse(f"unexpected character {text[at]!r}", at, at + 1)
            kind, end = found.lastgroup, found.end()  # type: ignore[union-attr]
            if kind == "newline":
                is_first = True
                self._newline(at)
            elif kind != "space":
                if is_first and not self._depth:
                    self._indent(text, at)
                is_first = False
                word = found.group()  # type: ignore[union-attr]
                self._depth += (word in _OPEN) - (word in _CLOSE)
                self.words.append(Token(kind, word, at, end))  # type: ignore[arg-type]
            at = end

    def _newline(self, at: int) -> None:
        if not self._depth and self.words and self.words[-1].kind not in ("newline", "indent", "dedent"):
            self.words.append(Token("newline", "", at, at))

    def _indent(self, text: str, at: int) -> None:
        """The step in or out that the first word of a line makes."""
        width = 0
        for character in text[text.rfind("\n", 0, at) + 1 : at]:
            width += TAB - width % TAB if character == "\t" else 1
        if width > self._indents[-1]:
            self._indents.append(width)
            self.words.append(Token("indent", "", at, at))
        while width < self._indents[-1]:
            self._indents.pop()
            self.words.append(Token("dedent", "", at, at))
        if width != self._indents[-1]:
            self.refuse("the indentation fits no line above", at, at + 1)

    def refuse(self, why: str, start: int | None = None, end: int | None = None) -> NoReturn:
        """Raise, naming file and line and showing the place (the current word's where none is given)."""
        begin = self.now.start if start is None else start
        stop = self.now.end if end is None else end
        raise TextError(f"{why}:\n{Range(self.source, begin, max(stop, begin + 1)).highlight()}")

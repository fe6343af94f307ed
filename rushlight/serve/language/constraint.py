"""Answers that follow a grammar: which words may come next, worked out over the whole vocabulary.

Enters: a vocabulary, a JSON schema (or none: any object), and the words of an answer one by one. Leaves: a mask of the
words that may follow, and whether the answer is whole. Refuses: nothing at this point; words that do not fit cannot be
chosen. What a symbol lets through is found once for all texts, so that only what closes it is looked at again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ... import _C
from ...tensors.interop import frombuffer
from .grammar import Json, Rules, Stack
from .schema import compiled
from .vocabulary import Vocabulary

MOST_RULES = 50_000      # of all schemas, until all is forgotten
MOST_MASKS = 128         # of stacks


class Masks:
    """The grammars of one vocabulary, and the masks that were worked out."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary, self.rules = vocabulary, Rules()
        self.json = Json(self.rules, vocabulary.is_wide)
        self._starts: dict[str, int] = {}
        self._states: dict[frozenset[Stack], int] = {}
        self._stacks: list[frozenset[Stack]] = []
        self._next: list[dict[int, int]] = []
        self._whole: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._masks: dict[Stack, int] = {}

    def start(self, form: str) -> int:
        """The symbol of a schema, written as JSON; "" is any object."""
        if form not in self._starts:
            said = json.loads(form) if form else {"type": "object"}
            self._starts[form] = compiled(said, self.json)
        return self._starts[form]

    # --- what a symbol lets through -----------------------------------------------------------------------------------

    def _state(self, stacks: frozenset[Stack]) -> int:
        if stacks not in self._states:
            self._states[stacks] = len(self._stacks)
            self._stacks.append(stacks)
            self._next.append({})
        return self._states[stacks]

    def _after(self, state: int, byte: int) -> int:
        """The state behind a byte, -1 for none."""
        found = self._next[state].get(byte)
        if found is None:
            stacks = frozenset(self.rules.opened(self.rules.after(self._stacks[state], byte)))
            found = self._next[state][byte] = self._state(stacks) if stacks else -1
        return found

    def _through(self, symbol: int, starts: Iterable[int], allowed: bytearray) -> list[int]:
        """Marks the words whose bytes fit a symbol from some nodes on; the nodes where it can be at its end."""
        tree = self.vocabulary
        first, following, byte, ends = tree.first, tree.following, tree.byte, tree.ends
        start = self._state(frozenset(self.rules.opened([(symbol,)])))
        done: set[int] = set()
        waiting = [(node, start) for node in starts]
        while waiting:
            node, state = waiting.pop()
            if () in self._stacks[state]:
                done.add(node)
            known, child = self._next[state], first[node]
            while child:
                then = known.get(byte[child])
                if then is None:
                    then = self._after(state, byte[child])
                if then >= 0:
                    for word in ends.get(child, ()):
                        allowed[word] = 1
                    waiting.append((child, then))
                child = following[child]
        return list(done)

    def _from_start(self, symbol: int) -> tuple[int, tuple[int, ...]]:
        if symbol not in self._whole:
            allowed = bytearray(self.vocabulary.words)
            done = self._through(symbol, (0,), allowed)
            self._whole[symbol] = int.from_bytes(allowed, "little"), tuple(done)
        return self._whole[symbol]

    def mask(self, stack: Stack) -> int:
        """The words that may follow, a byte for each."""
        found = self._masks.get(stack)
        if found is not None:
            return found
        found, nodes = 0, {0}
        allowed = bytearray(self.vocabulary.words)
        for symbol in reversed(stack):
            left = set()
            if 0 in nodes:
                more, done = self._from_start(symbol)
                found |= more
                left.update(done)
            left.update(self._through(symbol, nodes - {0}, allowed))
            nodes = left
            if not nodes:
                break
        if len(self._masks) >= MOST_MASKS:
            self._masks.clear()
        found |= int.from_bytes(allowed, "little")
        self._masks[stack] = found
        return found


class Constraint:
    """One answer on its way through a grammar."""

    def __init__(self, masks: Masks, form: str) -> None:
        start = masks.start(form)
        self._masks, self._stacks = masks, frozenset([(start, masks.json.space)])

    @property
    def may_end(self) -> bool:
        return () in self._masks.rules.opened(self._stacks)

    @property
    def is_done(self) -> bool:
        """Whether nothing can follow."""
        return self._masks.rules.opened(self._stacks) <= {()}

    def note(self, word: int) -> None:
        """A word was chosen."""
        for byte in self._masks.vocabulary.bytes.get(word, b""):
            self._stacks = self._masks.rules.after(self._stacks, byte)

    def allowed(self, ends: Iterable[int]) -> Any:
        """True for words that may follow; those that end a text among them where it is whole."""
        found = 0
        for stack in self._stacks:
            found |= self._masks.mask(stack)
        marks = bytearray(found.to_bytes(self._masks.vocabulary.words, "little"))
        may_end = self.may_end
        for word in ends:
            if 0 <= word < len(marks):
                marks[word] = may_end
        return frombuffer(marks, dtype=_C.uint8).to(_C.bool)


class Constraints:
    """Makes constraints for the sequences of one model."""

    def __init__(self, folder: str, words: int) -> None:
        self._folder, self._words = folder, words
        self._masks: Masks | None = None
        self._why = ""

    def of(self, form: str | None) -> Constraint | None:
        """None where nothing was asked for. ValueError where the vocabulary cannot write it."""
        if form is None:
            return None
        if self._masks is None and not self._why:
            try:
                self._masks = Masks(Vocabulary(self._folder, self._words))
            except (ValueError, KeyError, TypeError, OSError) as error:
                self._why = f"response_format: expected type text of this model: {error}"
        if self._masks is None:
            raise ValueError(self._why)
        if len(self._masks.rules.alternatives) > MOST_RULES:
            self._masks = Masks(self._masks.vocabulary)
        return Constraint(self._masks, form)

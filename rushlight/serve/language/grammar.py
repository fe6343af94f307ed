"""Grammars of bytes: what a text may go on with, and JSON's own rules.

Enters: rules, each a choice of sequences of symbols, where a symbol is a rule or a class of bytes. Leaves: stacks of
symbols that still have to come, moved on byte by byte; several where a text can be read in several ways. Refuses:
nothing; whether any text fits a rule at all is told by `is_finite`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Stack = tuple[int, ...]          # symbols to come, the next one last
Alternative = tuple[int, ...]

SPACES = 24          # that may stand in a row: texts that go on with nothing else never end
_HEX = b"0123456789abcdefABCDEF"


class Rules:
    """Rules by number from 0 on; classes of bytes are numbers below 0. Equal rules have one number."""

    def __init__(self) -> None:
        self.alternatives: list[tuple[Alternative, ...]] = []
        self.classes: list[frozenset[int]] = []
        self._classes: dict[frozenset[int], int] = {}
        self._rules: dict[tuple[Alternative, ...], int] = {}

    def among(self, allowed: Iterable[int]) -> int:
        """One byte of several."""
        found = frozenset(allowed)
        if found not in self._classes:
            self.classes.append(found)
            self._classes[found] = -len(self.classes)
        return self._classes[found]

    def text(self, content: bytes) -> Alternative:
        return tuple(self.among((b,)) for b in content)

    def rule(self, *alternatives: Sequence[int]) -> int:
        """A choice."""
        found = tuple(map(tuple, alternatives))
        if found not in self._rules:
            self._rules[found] = self.later()
            self.alternatives[-1] = found
        return self._rules[found]

    def later(self) -> int:
        """A rule that is said later, since others refer to it."""
        self.alternatives.append(())
        return len(self.alternatives) - 1

    def say(self, rule: int, *alternatives: Sequence[int]) -> None:
        self.alternatives[rule] = tuple(map(tuple, alternatives))

    # --- reading ------------------------------------------------------------------------------------------------------

    def opened(self, stacks: Iterable[Stack]) -> set[Stack]:
        """The same with classes of bytes as what comes next; the empty stack is a text that may end."""
        found: set[Stack] = set()
        seen: set[Stack] = set()
        waiting = list(stacks)
        while waiting:
            stack = waiting.pop()
            if not stack or stack[-1] < 0:
                found.add(stack)
            elif stack not in seen:
                seen.add(stack)
                rest = stack[:-1]
                waiting += [rest + one[::-1] for one in self.alternatives[stack[-1]]]
        return found

    def after(self, stacks: Iterable[Stack], byte: int) -> frozenset[Stack]:
        """What has to come behind a byte; nothing where it does not fit."""
        return frozenset(s[:-1] for s in self.opened(stacks) if s and byte in self.classes[-1 - s[-1]])

    def is_finite(self, start: int) -> bool:
        """Whether a rule can be written to its end at all."""
        reached, waiting = {start}, [start]
        while waiting:
            for one in self.alternatives[waiting.pop()]:
                fresh = {s for s in one if s >= 0} - reached
                reached |= fresh
                waiting += fresh
        done: set[int] = set()
        count = -1
        while count < len(done) and start not in done:
            count = len(done)
            for n in sorted(reached - done):      # parts have lower numbers, mostly
                if any(all(s < 0 or s in done for s in one) for one in self.alternatives[n]):
                    done.add(n)
        return start in done


class Json:
    """JSON's rules: symbols for values of each kind, as texts that readers of any strictness take."""

    def __init__(self, rules: Rules, is_wide: bool = True) -> None:
        """`is_wide`: strings may hold characters beyond ASCII as they are, else escaped alone."""
        self.rules, self.is_wide = rules, is_wide
        among, rule, text = rules.among, rules.rule, rules.text
        blank = among(b" \t")
        blanks = rule(())
        for _ in range(SPACES):
            blanks = rule((), (blank, blanks))
        self.space = rule((), (among(b" "),), (among(b"\n"), blanks))
        self.characters = self._characters()
        self.string = rule((*text(b'"'), self.characters))
        digit = among(b"0123456789")
        self.digits = rules.later()
        rules.say(self.digits, (), (digit, self.digits))
        some = (digit, self.digits)
        whole = rule(text(b"0"), (among(b"123456789"), self.digits))
        sign = rule((), text(b"-"))
        self.integer = rule((sign, whole))
        part = rule((), (*text(b"."), *some))
        power = rule((), (among(b"eE"), rule((), (among(b"+-"),)), digit, rule((), (digit,))))
        self.number = rule((sign, whole, part, power))
        self.boolean = rule(text(b"true"), text(b"false"))
        self.null = rule(text(b"null"))
        self.value = rules.later()
        self.object = self.mapping(self.value)
        self.array = self.sequence(self.value, 0, None)
        rules.say(self.value, (self.object,), (self.array,), (self.string,), (self.number,), (self.boolean,),
                  (self.null,))

    def _characters(self) -> int:
        """The rest of a string and its end, as UTF-8."""
        rules, among, text = self.rules, self.rules.among, self.rules.text
        rest, digit, tail = rules.later(), among(_HEX), among(range(0x80, 0xC0))
        escaped = rules.rule(
            (among(b'"\\/bfnrt'),), (*text(b"u"), among(set(_HEX) - set(b"dD")), digit, digit, digit),
            (*text(b"u"), among(b"dD"), among(b"01234567"), digit, digit),
            (*text(b"u"), among(b"dD"), among(b"89abAB"), digit, digit, *text(b"\\u"), among(b"dD"),
             among(b"cdefCDEF"), digit, digit))
        plain = (among(set(range(0x20, 0x80)) - set(b'"\\')), rest)
        wide = [
            (among(range(0xC2, 0xE0)), tail, rest), (among((0xE0,)), among(range(0xA0, 0xC0)), tail, rest),
            (among((*range(0xE1, 0xED), 0xEE, 0xEF)), tail, tail, rest),
            (among((0xED,)), among(range(0x80, 0xA0)), tail, rest),
            (among((0xF0,)), among(range(0x90, 0xC0)), tail, tail, rest),
            (among(range(0xF1, 0xF4)), tail, tail, tail, rest),
            (among((0xF4,)), among(range(0x80, 0x90)), tail, tail, rest)] if self.is_wide else []
        rules.say(rest, text(b'"'), plain, (*text(b"\\"), escaped, rest), *wide)
        return rest

    def joined(self, first: Sequence[int], rest: int) -> Alternative:
        """An item, and those behind it."""
        return (*first, self.space, rest)

    def pair(self, key: Sequence[int], value: int) -> Alternative:
        text = self.rules.text
        return (*key, self.space, *text(b":"), self.space, value)

    def mapping(self, value: int) -> int:
        """An object of any names."""
        rules, text = self.rules, self.rules.text
        more = rules.later()
        pair = self.pair((self.string,), value)
        rules.say(more, text(b"}"), (*text(b","), self.space, *self.joined(pair, more)))
        return rules.rule((*text(b"{"), self.space, *text(b"}")), (*text(b"{"), self.space, *self.joined(pair, more)))

    def record(self, entries: Sequence[tuple[bytes, int, bool]]) -> int:
        """An object of these names in this order, each with its value, and whether it must be there."""
        rules, text = self.rules, self.rules.text
        first = others = rules.rule(text(b"}"))
        for key, value, is_needed in reversed(entries):
            pair = self.joined(self.pair(text(key), value), others)
            leading, following = [pair], [(*text(b","), self.space, *pair)]
            first, others = (rules.rule(*leading, *([] if is_needed else [(first,)])),
                             rules.rule(*following, *([] if is_needed else [(others,)])))
        return rules.rule((*text(b"{"), self.space, first))

    def sequence(self, item: int, low: int, high: int | None, before: Sequence[int] = ()) -> int:
        """An array of `before`, one of each, and of `low` to `high` items behind them."""
        rules, text = self.rules, self.rules.text
        end, comma = text(b"]"), (*text(b","), self.space)
        needed = [*before, *[item] * low]
        is_empty = not needed
        if is_empty and high != 0:
            needed, low = [item], 1
        if high is None:
            more = rules.later()
            rules.say(more, end, (*comma, *self.joined((item,), more)))
        else:
            more = rules.rule(end)
            for _ in range(high - low):
                more = rules.rule(end, (*comma, *self.joined((item,), more)))
        for symbol in reversed(needed[1:]):
            more = rules.rule((*comma, *self.joined((symbol,), more)))
        choices = [(*text(b"["), self.space, *self.joined((symbol,), more)) for symbol in needed[:1]]
        if is_empty:
            choices.append((*text(b"["), self.space, *end))
        return rules.rule(*choices)

"""Programs that write through views, lists and loops, made at random: no pass may change what they give."""

from __future__ import annotations

import random


class _Maker:
    """One program: lines, and the names of the tensors, lists and dicts that they know."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def statement(self, tensors: list[str], lists: list[str], depth: int, inside: str) -> None:
        pick = self.random.choice
        pad = "    " * (depth + 1)
        kinds = ["pure", "pure", "view", "write", "write", "list", "append", "item", "set", "join", "again", "equal"]
        kind = pick(kinds + (["if", "loop"] if depth < 2 else []))
        a, b = pick(tensors), pick(tensors)
        if kind == "pure":
            made = self.new("t")
            self.lines.append(f"{pad}{made} = {pick([f'{a} + {b}', f'{a} * 2', f'torch.relu({a})', f'{a} - {b}'])}")
            tensors.append(made)
        elif kind == "again":              # twice the same, something written in between
            first, second = self.new("t"), self.new("t")
            self.lines += [f"{pad}{first} = {a} * 3", f"{pad}{pick(tensors)}.add_(1)", f"{pad}{second} = {a} * 3"]
            tensors += [first, second]
        elif kind == "equal":
            made = self.new("t")
            self.lines.append(f"{pad}{made} = torch.ones([2, 2]) * {pick(['1', '2'])}")
            tensors.append(made)
        elif kind == "view":
            made = self.new("t")
            self.lines.append(f"{pad}{made} = {a}{pick(['.t()', '.view([2, 2])', '.detach()', '.transpose(0, 1)'])}")
            tensors.append(made)
        elif kind == "write":
            self.lines.append(f"{pad}{a}{pick(['.add_(1)', '.mul_(2)', f'.add_({b})', '[0].fill_(3)', '.zero_()'])}")
        elif kind == "list":
            made = self.new("l")
            self.lines.append(f"{pad}{made} = [{a}, {b}]")
            lists.append(made)
        elif lists and kind == "append":
            self.lines.append(f"{pad}{pick(lists)}.append({a})")
        elif lists and kind == "item":
            made = self.new("t")
            self.lines.append(f"{pad}{made} = {pick(lists)}[{pick(['0', '1', '-1'])}]")
            tensors.append(made)
        elif lists and kind == "set":
            self.lines.append(f"{pad}{pick(lists)}[{pick(['0', '1'])}] = {a}")
        elif lists and kind == "join":
            made, held = self.new("t"), pick(lists)
            self.lines.append(f"{pad}{made} = torch.stack({held}).sum(0) + len({held})")
            tensors.append(made)
        elif kind in ("if", "loop"):
            self.nested(kind, tensors, lists, depth, pad, a)

    def nested(self, kind: str, tensors: list[str], lists: list[str], depth: int, pad: str, held: str) -> None:
        """A branch or a loop: what is defined inside is not known outside, what was there may be exchanged."""
        count = self.random.choice("23n")
        self.lines.append(f"{pad}if flag:" if kind == "if" else f"{pad}for i{self.count} in range({count}):")
        inner, rows = list(tensors), list(lists)
        for _ in range(self.random.randint(1, 3)):
            self.statement(inner, rows, depth + 1, kind)
        self.lines.append(f"{pad}    {held} = {self.random.choice(inner)}")

    def program(self) -> str:
        tensors, lists = ["x", "y"], []
        for _ in range(self.random.randint(5, 12)):
            self.statement(tensors, lists, 0, "")
        shown = self.random.sample(tensors, min(3, len(tensors)))
        parts = [*shown, "x", "y", *(f"torch.stack({name})" for name in lists[:2])]
        text = "\n".join(self.lines)
        return f"def program(x, y, flag: bool, n: int):\n{text}\n    return ({', '.join(parts)})\n"


def program(seed: int) -> str:
    """The text of one program: `program(x, y, flag, n)`."""
    return _Maker(seed).program()

"""Random programs from the grammar of scripts: functions over ints, floats, bools, strings and lists of ints, with
branches, loops, breaks, early returns and writes. Each is valid Python that ends."""

from __future__ import annotations

import random

NAMES = {"int": ("a", "b", "c", "d"), "float": ("f", "g"), "bool": ("p", "q"), "str": ("s", "t"),
         "List[int]": ("xs", "ys")}


class Maker:
    """Makes one function; `known` holds the variables that are surely set, by type."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.known: dict[str, set[str]] = {"int": {"a", "b"}, "float": {"f"}, "bool": {"p"}, "str": {"s"},
                                           "List[int]": {"xs"}}
        self.lines: list[str] = []
        self.loops = 0
        self.counter = 0
        self.budget = 14

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    # --- expressions
    def expression(self, kind: str, depth: int = 0) -> str:
        leaf = depth > 2 or self.random.random() < 0.3
        known = sorted(self.known[kind])
        if leaf and known and self.random.random() < 0.8:
            return self.pick(*known)
        return getattr(self, "_" + kind.partition("[")[0])(depth, leaf)

    def _int(self, depth: int, leaf: bool) -> str:
        if leaf:
            return str(self.random.randint(-9, 9))
        a, b = self.expression("int", depth + 1), self.expression("int", depth + 1)
        row = self.expression("List[int]", depth + 1)
        p = self.expression("bool", depth + 1)
        return self.pick(f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {self.random.choice((2, 3, -4))})",
                         f"({a} % {self.random.choice((5, 7, -3))})", f"min({a}, {b})", f"max({a}, {b})", f"abs({a})",
                         f"len({row})", f"len({self.expression('str', depth + 1)})", f"({a} & {b})", f"({a} ^ {b})",
                         f"({a} if {p} else {b})", f"sum({row} + [1])", f"-{a}", f"int({p})",
                         f"({row} + [{a}])[{self.random.choice((0, -1))}]")

    def _float(self, depth: int, leaf: bool) -> str:
        if leaf:
            return f"{self.random.randint(-40, 40) / 8}"
        a, b, n = self.expression("float", depth + 1), self.expression("float", depth + 1), self.expression("int", 2)
        return self.pick(f"({a} + {b})", f"({a} - {n})", f"({a} * {b})", f"({a} / 4)", f"float({n})", f"abs({a})",
                         f"max({a}, {b})", f"({n} / 8)", f"({a} // 2)", f"({b} % 3)")

    def _bool(self, depth: int, leaf: bool) -> str:
        if leaf:
            return self.pick("True", "False")
        a, b = self.expression("int", depth + 1), self.expression("int", depth + 1)
        p, q = self.expression("bool", depth + 1), self.expression("bool", depth + 1)
        word = self.pick("<", "<=", "==", "!=", ">", ">=")
        return self.pick(f"({a} {word} {b})", f"({p} and {q})", f"({p} or {q})", f"(not {p})", f"({a} < {b} <= {a})",
                         f"({self.expression('float', depth + 1)} {word} {a})",
                         f"({a} in {self.expression('List[int]', depth + 1)})",
                         f"({self.expression('str', depth + 1)} == {self.expression('str', depth + 1)})",
                         f"({self.pick(repr('a'), repr('b'))} in {self.expression('str', depth + 1)})")

    def _str(self, depth: int, leaf: bool) -> str:
        if leaf:
            return repr(self.pick("a", "b", "ab", ""))
        s, n = self.expression("str", depth + 1), self.expression("int", depth + 1)
        name = self.pick(*sorted(self.known["int"]))
        return self.pick(f"({s} + {self.expression('str', depth + 1)})", f"str({n})", f"{s}.upper()",
                         f"{s}.replace('a', 'cd')", f"f'{{{name}}}-x'", f"'{{}}:{{}}'.format({n}, {n})",
                         f"({s} + 'z')[0]", f"{s}[1:]", f"{s}[::-1]", f"('%d.' % {n})",
                         f"','.join([str(i) for i in {self.expression('List[int]', 2)}])")

    def _List(self, depth: int, leaf: bool) -> str:  # noqa: N802 - by the name of the type
        if leaf:
            return f"[{self.random.randint(0, 5)}, {self.random.randint(0, 5)}]"
        row, n = self.expression("List[int]", depth + 1), self.expression("int", depth + 1)
        return self.pick(f"({row} + [{n}])", f"[i * 2 % 97 for i in {row}]", f"{row}[1:]", f"sorted({row})",
                         f"list(range(min(4, {n})))", f"[{n}, {n}]", f"{row}[::-1]",
                         f"[i + j for i, j in zip({row}, {row})]")

    # --- statements
    def body(self, indent: int, depth: int) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(indent, depth)
            if self.lines[-1].lstrip().startswith(("return", "break", "continue")):
                return

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def statement(self, indent: int, depth: int) -> None:
        self.budget -= 1
        if depth < 3 and self.budget > 0 and self.random.random() < 0.45:
            self.random.choice((self.branch, self.branch, self.count, self.walk, self.while_))(indent, depth)
            return
        if self.random.random() < 0.15:
            self.leave(indent)
            return
        kind = self.random.choice((*NAMES, "int", "int"))
        if kind == "List[int]" and self.random.random() < 0.5:
            row, n = self.pick(*sorted(self.known[kind])), f"({self.expression('int', 1)}) % 1009"
            self.put(indent, self.pick(f"{row}.append({n})", f"{row} += [{n}]", f"{row} = {row} + [{n}]"))
            return
        if kind in ("int", "float") and self.random.random() < 0.3:
            name = self.pick(*sorted(self.known[kind]))
            self.put(indent, f"{name} {self.pick('+=', '-=')} {self.expression(kind, 1)}")
            return
        name = self.random.choice(NAMES[kind])
        text = self.expression(kind)
        self.put(indent, f"{name} = ({text}) % 1009" if kind == "int" else f"{name} = {text}" if kind != "str" else
                 f"{name} = ({text})[:9]")
        self.known[kind].add(name)

    def leave(self, indent: int) -> None:
        if self.loops and self.random.random() < 0.8:
            self.put(indent, f"if {self.expression('bool', 1)}:")
            self.put(indent + 1, self.pick("break", "continue"))
        elif self.random.random() < 0.5:
            self.put(indent, f"if {self.expression('bool', 1)}:")
            self.put(indent + 1, self.result())
        else:
            self.put(indent, "assert len(s) >= 0")

    def result(self) -> str:
        return f"return {self.expression('int', 1)} % 1009, {self.expression('float', 1)}, s[:9], xs[:5], p"

    def within(self, indent: int, depth: int) -> dict[str, set[str]]:
        """A body of its own; what it surely sets."""
        before = {kind: set(names) for kind, names in self.known.items()}
        self.body(indent, depth + 1)
        after, self.known = self.known, before
        return after

    def branch(self, indent: int, depth: int) -> None:
        self.put(indent, f"if {self.expression('bool', 1)}:")
        first = self.within(indent + 1, depth)
        if self.random.random() < 0.6:
            self.put(indent, "else:")
            second = self.within(indent + 1, depth)
            for kind in self.known:
                self.known[kind] |= first[kind] & second[kind]

    def turn(self, indent: int, depth: int) -> None:
        self.loops += 1
        self.within(indent, depth)
        self.loops -= 1

    def count(self, indent: int, depth: int) -> None:
        self.counter += 1
        bounds = self.pick("3", "1, 4", "5, 0, -2", "len(xs[:3])")
        self.put(indent, f"for i{self.counter} in range({bounds}):")
        self.put(indent + 1, f"a = (a + i{self.counter}) % 1009")
        self.turn(indent + 1, depth)

    def walk(self, indent: int, depth: int) -> None:
        self.counter += 1
        at, item = f"n{self.counter}", f"e{self.counter}"
        self.put(indent, self.pick(f"for {item} in xs[:4]:", f"for {at}, {item} in enumerate(xs[:3]):"))
        self.put(indent + 1, f"b = (b + {item}) % 1009")
        self.turn(indent + 1, depth)

    def while_(self, indent: int, depth: int) -> None:
        self.counter += 1
        name = f"w{self.counter}"
        self.put(indent, f"{name} = 0")
        self.put(indent, f"while {name} < {self.random.randint(1, 4)}:")
        self.put(indent + 1, f"{name} += 1")
        self.turn(indent + 1, depth)

    def function(self, name: str) -> str:
        head = f"def {name}(a: int, b: int, f: float, p: bool, s: str, xs: List[int]):"
        while self.budget > 0:
            self.statement(1, 0)
        self.put(1, self.result())
        return "\n".join([head, *self.lines])


def program(seed: int) -> str:
    """The text of one function called `made<seed>`."""
    return Maker(seed).function(f"made{seed}")

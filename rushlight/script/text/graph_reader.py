"""Graphs from text: what `torch._C.parse_ir` reads.

Enters: text as `graph_writer` prints it. Leaves: a graph. Constants are read by the type of what they define. Refuses:
words that are out of place, values that are not defined, with the lines around them.
"""

from __future__ import annotations

from typing import Any

from ...base import late
from .. import types as t
from ..ir import Block, Graph, Value
from .lexer import Token, Tokens, unquoted
from .type_reader import TypeReader


class _Reader:
    def __init__(self, text: str, with_tensors: bool) -> None:
        self.words = Tokens(text)
        self.types = TypeReader(self.words)
        self.graph = Graph()
        self.values: dict[str, Value] = {}
        self.with_tensors = with_tensors

    # --- values
    def name(self) -> tuple[str, Token]:
        """`%x.1`."""
        first = self.words.expect("%")
        parts = [self._word()]
        while self.words.is_(".") or (self.words.now.kind == "number" and self._is_joined()):
            parts.append(self.words.take().text)
            if parts[-1] == ".":
                parts.append(self._word())
        return "".join(parts), first

    def _word(self) -> str:
        if self.words.now.kind not in ("ident", "number"):
            self.words.expect_kind("ident")
        return self.words.take().text

    def _is_joined(self) -> bool:
        return self.words.words[self.words.at - 1].end == self.words.now.start

    def typed(self) -> tuple[str, t.Type]:
        name, _ = self.name()
        return name, self.types.read() if self.words.take_if(":") else t.TENSOR

    def known(self) -> Value:
        name, first = self.name()
        if name not in self.values:
            self.words.refuse(f"Cannot find a variable with name '{name}'", first.start)
        return self.values[name]

    def row(self, end: str) -> list[Value]:
        found: list[Value] = []
        while not self.words.take_if(end):
            if found:
                self.words.expect(",")
            found.append(self.known())
        return found

    def parameters(self, block: Block) -> None:
        self.words.expect("(")
        while not self.words.take_if(")"):
            self.words.take_if(",")
            name, type = self.typed()
            self.values[name] = block.add_input("" if name.isdigit() else name, type)
        self.words.expect(":")

    # --- nodes
    def read(self) -> Graph:
        self.words.expect("graph")
        self.parameters(self.graph.block)
        self.nodes(self.graph.block, "return")
        self.words.expect("return")
        self.words.expect("(")
        for value in self.row(")"):
            self.graph.register_output(value)
        return self.graph

    def nodes(self, block: Block, end: str) -> None:
        while not self.words.is_(end):
            self.node(block)

    def node(self, block: Block) -> None:
        outputs: list[tuple[str, t.Type]] = []
        while not self.words.take_if("="):
            if outputs:
                self.words.expect(",")
            outputs.append(self.typed())
        kind = self.words.expect_kind("ident").text
        while self.words.is_("::", "."):
            kind += self.words.take().text + self.words.expect_kind("ident").text
        node = self.graph.create(kind, (), 0)
        if self.words.take_if("["):
            self.attributes(node, outputs[0][1] if outputs else None)
        self.words.expect("(")
        for value in self.row(")"):
            node.add_input(value)
        block.append(node)
        while self.words.is_("block0", "block1") or (
                self.words.now.kind == "ident" and self.words.now.text.startswith("block")):
            self.block(node.add_block())
        for name, type in outputs:
            self.values[name] = node.add_output(type)

    def block(self, block: Block) -> None:
        self.words.take()
        self.parameters(block)
        self.nodes(block, "->")
        self.words.expect("->")
        self.words.expect("(")
        for value in self.row(")"):
            block.register_output(value)

    # --- attributes
    def attributes(self, node: Any, type: t.Type | None) -> None:
        while not self.words.take_if("]"):
            self.words.take_if(",")
            name = self.words.expect_kind("ident").text
            self.words.expect("=")
            if name == "types":
                node.set("tys", name, self.row_of_types())
                continue
            value, kind = self.constant(type if node.kind_ == "prim::Constant" else None)
            if kind:
                node.set(kind, name, value)

    def row_of_types(self) -> list[t.Type]:
        self.words.expect("[")
        found: list[t.Type] = []
        while not self.words.take_if("]"):
            self.words.take_if(",")
            found.append(self.types.read())
        return found

    def constant(self, type: t.Type | None) -> tuple[Any, str]:
        """A value and the letter of its kind."""
        words = self.words
        if words.is_("[", "("):
            return self._sequence(type)
        if words.is_("{", "<"):
            return self._tensor(type), "t"
        if words.is_("inf", "nan"):
            return float(words.take().text), "f"
        if words.now.kind == "string":
            text = unquoted(words.take().text)
            return text, "s"
        if words.is_("True", "False"):
            return int(words.take().text == "True"), "i"
        if words.take_if("None"):
            return None, "ival"
        if words.is_("annotate"):
            return self._annotated()
        return self._number(type)

    def _number(self, type: t.Type | None) -> tuple[Any, str]:
        words = self.words
        sign = -1 if words.take_if("-") else 1
        if words.is_("inf", "nan"):
            return sign * float(words.take().text), "f"
        text = words.expect_kind("number").text
        if text.endswith("j") or (words.is_("+", "-") and words.ahead().text.endswith("j")):
            return self._complex(sign, text), "c"
        if isinstance(type, t.FloatType) or any(c in text for c in ".eE"):
            return sign * float(text), "f"
        return sign * int(text), "i"

    def _complex(self, sign: int, text: str) -> complex:
        if text.endswith("j"):
            return sign * complex(text)
        other = -1 if self.words.take().text == "-" else 1
        return complex(sign * float(text), other * float(self.words.take().text[:-1]))

    def _sequence(self, type: t.Type | None) -> tuple[Any, str]:
        is_tuple = self.words.take().text == "("
        inner = type.element if isinstance(type, t.ListType) else None
        items, kinds = [], set()
        end = ")" if is_tuple else "]"
        while not self.words.take_if(end):
            if self.words.take_if(",") and self.words.take_if(end):
                break
            value, kind = self.constant(inner)
            items.append(value)
            kinds.add(kind)
        if is_tuple:
            return tuple(items), "ival"
        if isinstance(inner, t.BoolType):
            return [bool(item) for item in items], "ival"
        if isinstance(inner, t.FloatType):
            return [float(item) for item in items], "fs"
        return items, f"{kinds.pop()}s" if len(kinds) == 1 and kinds <= {"i", "f", "s"} else "ival"

    def _annotated(self) -> tuple[Any, str]:
        self.words.take()
        self.words.expect("(")
        type = self.types.read()
        self.words.expect(",")
        value, kind = self.constant(type)
        self.words.expect(")")
        return value, kind

    def _tensor(self, type: t.Type | None) -> Any:
        from ..._C import tensor

        words = self.words
        if not self.with_tensors:
            words.refuse("a tensor constant is met but `parse_tensor_constants` is set to false")
        if words.take_if("<"):
            words.expect("Tensor")
            words.expect(">")
            return self._unwritten(type)
        words.expect("{")
        value, _ = self.constant(None)
        words.expect("}")
        dtype = type.dtype if isinstance(type, t.TensorType) else None
        shape = type.sizes() if isinstance(type, t.TensorType) else None
        return tensor(value, dtype=dtype).reshape(shape or [])

    def _unwritten(self, type: t.Type | None) -> Any:
        """A tensor whose elements the text does not hold: of the right shape, elements unknown."""
        if not isinstance(type, t.TensorType) or type.sizes() is None or type.dtype is None:
            self.words.refuse("a tensor constant needs a type that says its sizes and dtype")
        return late.provided("package").empty_strided(type.sizes(), type.contiguous().strides(), dtype=type.dtype)  # type: ignore


def read_graph(text: str, with_tensors: bool = False) -> Graph:
    """The graph that a text describes."""
    return _Reader(text, with_tensors).read()

"""Sizes that vary, computed with."""

from __future__ import annotations

from typing import Any

from ..printing import Value as Built


class Size:
    """An index in the arithmetic of sizes: each operation builds one of `arith`."""

    def __init__(self, tensors: Any, value: Built) -> None:
        self.tensors, self.value = tensors, value

    def of(self, name: str, a: Any, b: Any) -> Size:
        left, right = (x.value if isinstance(x, Size) else self.tensors.index(int(x)) for x in (a, b))
        return Size(self.tensors, self.tensors.b.op(f"arith.{name}", [left, right], Built("index")))

    def __add__(self, other: Any) -> Size:
        return self.of("addi", self, other)

    def __sub__(self, other: Any) -> Size:
        return self.of("subi", self, other)

    def __rsub__(self, other: Any) -> Size:
        return self.of("subi", other, self)

    def __mul__(self, other: Any) -> Size:
        return self.of("muli", self, other)

    def __floordiv__(self, other: Any) -> Size:
        return self.of("floordivsi", self, other)

    def __mod__(self, other: Any) -> Size:
        return self.of("subi", self, self.of("muli", self.of("floordivsi", self, other), other))

    def __neg__(self) -> Size:
        return self.of("subi", 0, self)

    def __pow__(self, exponent: int) -> Size:
        result = self
        for _ in range(exponent - 1):
            result = result * self
        return result

    __radd__, __rmul__ = __add__, __mul__

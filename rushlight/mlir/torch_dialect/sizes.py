"""Sizes that vary, computed with in the torch dialect."""

from __future__ import annotations

from typing import Any

from ..printing import Value


class Size:
    """A number in the arithmetic of sizes: each operation builds one of the dialect."""

    def __init__(self, operands: Any, value: Value) -> None:
        self.operands, self.value = operands, value

    def of(self, name: str, a: Any, b: Any) -> Size:
        left, right = (x.value if isinstance(x, Size) else self.operands.int(int(x)) for x in (a, b))
        return Size(self.operands, self.operands.b.op(f"torch.aten.{name}.int", [left, right], Value("!torch.int")))

    def __add__(self, other: Any) -> Size:
        return self.of("add", self, other)

    def __sub__(self, other: Any) -> Size:
        return self.of("sub", self, other)

    def __rsub__(self, other: Any) -> Size:
        return self.of("sub", other, self)

    def __mul__(self, other: Any) -> Size:
        return self.of("mul", self, other)

    def __floordiv__(self, other: Any) -> Size:
        return self.of("floordiv", self, other)

    def __mod__(self, other: Any) -> Size:
        return self.of("remainder", self, other)

    def __neg__(self) -> Size:
        return self.of("sub", 0, self)

    def __pow__(self, exponent: int) -> Size:
        result = self
        for _ in range(exponent - 1):
            result = result * self
        return result

    __radd__, __rmul__ = __add__, __mul__

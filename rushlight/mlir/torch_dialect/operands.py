"""Arguments of ATen's overloads as values of the torch dialect: numbers, lists and types are constants there.

Enters: what a call was given, and the type that PyTorch's signature has for it. Leaves: values. Refuses: arguments that
the dialect has no type for, by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ... import _C
from .. import types
from ..building import Builder
from ..printing import Value

DTYPES = {code: number for number, code in enumerate(
    "u8 i8 i16 i32 i64 f16 f32 f64 c32 c64 c128 b1 - - - bf16 - - - - - - - f8e5m2 f8e4m3fn f8e5m2fnuz f8e4m3fnuz u16"
    " u32 u64".split()) if code != "-"}
"""Types of elements by their numbers in PyTorch."""
FORMATS = {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3}
ELEMENTS = {**types.ELEMENTS, **{f"i{n}": f"si{n}" for n in (8, 16, 32, 64)}}
_LIST = re.compile(r"(\w+\??)\[(\d*)\]\??$")
NONE, INT, FLOAT, BOOL = "!torch.none", "!torch.int", "!torch.float", "!torch.bool"
_ITEMS = {"int": INT, "SymInt": INT, "float": FLOAT, "bool": BOOL, "Tensor": "vtensor", "Tensor?": "optional<vtensor>"}


def tensor(dtype: Any, shape: Sequence[Any]) -> Value:
    """A tensor that is yet to be named."""
    element = ELEMENTS.get(dtype.code)
    if element is None:
        raise NotImplementedError(f"tensors of {dtype} have no type in the torch dialect")
    sizes = ",".join(str(n) if type(n) is int else "?" for n in shape)
    return Value(f"!torch.vtensor<[{sizes}],{element}>", dtype, shape)


class Operands:
    """Builds arguments. `size_of(n)` builds the number that a symbolic size is."""

    def __init__(self, b: Builder, size_of: Any) -> None:
        self.b, self.size_of = b, size_of

    def of(self, a: Any, kind: str) -> Value:
        """An argument as a parameter of type `kind` takes it."""
        if isinstance(a, Value):
            return a
        if a is None:
            return self.none()
        listed = _LIST.match(kind)
        if listed is not None:
            count = int(listed[2] or 1)
            items = list(a) if isinstance(a, (list, tuple)) else [a] * count
            return self.list([self.of(x, listed[1]) for x in items], listed[1].removesuffix("?")
                             if listed[1] != "Tensor?" else listed[1])
        if isinstance(a, _C.SymbolicInt):
            return self.size_of(a)
        plain = kind.removesuffix("?")
        if isinstance(a, _C.dtype):
            return self.int(DTYPES[a.code])
        if isinstance(a, bool):
            return self.int(int(a)) if plain in ("Scalar", "int", "SymInt") else self.bool(a)
        if isinstance(a, int):
            return self.float(float(a)) if plain == "float" else self.int(a)
        if isinstance(a, float):
            return self.float(a)
        if isinstance(a, str):
            return self.b.op("torch.constant.str", [], Value("!torch.str"), {"value": types.string(a)})
        if isinstance(a, _C.device):
            return self.b.op("torch.constant.device", [], Value("!torch.Device"), {"value": types.string(str(a))})
        name = str(a).rpartition(".")[2]
        if name in FORMATS:
            return self.int(FORMATS[name])
        if name == "strided":
            return self.int(0)
        raise NotImplementedError(f"an argument is {a!r}, which the torch dialect has no constant for")

    def none(self) -> Value:
        return self.b.op("torch.constant.none", [], Value(NONE))

    def int(self, n: int) -> Value:
        return self.b.op("torch.constant.int", [], Value(INT), {"value": types.integer(n)})

    def float(self, x: float) -> Value:
        return self.b.op("torch.constant.float", [], Value(FLOAT), {"value": f"{types.number(x, 'f64')} : f64"})

    def bool(self, x: bool) -> Value:
        return self.b.op("torch.constant.bool", [], Value(BOOL), {"value": types.truth(x)})

    def list(self, items: Sequence[Value], kind: str) -> Value:
        item = _ITEMS.get(kind) or (items[0].type if items else INT)
        return self.b.op("torch.prim.ListConstruct", items, Value(f"!torch.list<{item.removeprefix('!torch.')}>"))

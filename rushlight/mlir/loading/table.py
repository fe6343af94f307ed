"""The operations that can be loaded: how each is checked, and how it is written with ATen.

Enters: `@op(name, check)` over a function of a writer, the operation and the nodes of its operands. Leaves: `OPS`.
Refuses by name, in `REFUSED`, operations that are StableHLO and have no counterpart here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..syntax import Operation, TupleType
from ..types import TensorType

Check = Callable[[Operation], Sequence[Any] | None]
Lowering = Callable[..., Any]

SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("ui8", "ui16", "ui32", "ui64")
FLOATS = ("f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E8M0FNU")
COMPLEX = ("complex<f32>", "complex<f64>")
BOOL = ("i1",)
INTEGERS = SIGNED + UNSIGNED
INEXACT = FLOATS + COMPLEX

REFUSED = {
    "custom_call": "calls code outside of the module",
    **dict.fromkeys(
        ("rng_bit_generator",), "its bits depend on an algorithm that is not here"),
    **dict.fromkeys(
        ("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "cross-replica-sum",
         "reduce_scatter", "partition_id", "replica_id"), "a module runs on one device"),
    **dict.fromkeys(
        ("infeed", "outfeed", "recv", "send", "after_all", "create_token"), "there is nobody to exchange tokens with"),
    **dict.fromkeys(("uniform_quantize", "uniform_dequantize"), "quantized types are not supported"),
    **dict.fromkeys(("set_dimension_size", "trace", "async_start", "async_done"), "it has no counterpart here"),
}


@dataclasses.dataclass(frozen=True)
class Rule:
    """`check` gives the types that the results must have, or None where it has compared them itself."""

    check: Check
    lower: Lowering
    lifts: bool      # works one by one, and so in bodies that are computed for many elements at once


OPS: dict[str, Rule] = {}


def op(names: str, check: Check, lifts: bool = False) -> Callable[[Lowering], Lowering]:
    """Register the lowering of operations of StableHLO, or of another dialect if the name has a dot."""
    def register(lower: Lowering) -> Lowering:
        for name in names.split():
            OPS[name if "." in name else f"stablehlo.{name}"] = Rule(check, lower, lifts)
        return lower

    return register


# --- what checks ask --------------------------------------------------------------------------------------------------


def require(op: Operation, holds: bool, message: str) -> None:
    if not holds:
        raise op.error(message)


def compatible(a: Any, b: Any) -> bool:
    """Whether two types may be those of one value: sizes that vary fit all sizes."""
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.items) == len(b.items) and all(map(compatible, a.items, b.items))
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return bool(a == b)
    return a.element == b.element and len(a.shape) == len(b.shape) and all(map(size_fits, a.shape, b.shape))


def size_fits(a: int | None, b: int | None) -> bool:
    return a is None or b is None or a == b


def tensors(op: Operation, least: int, most: int | None = None) -> list[TensorType]:
    """The types of the operands, which are so many tensors."""
    count, most = len(op.operands), least if most is None else most
    wanted = str(least) if most == least else f"at least {least}" if most > 1000 else f"{least} to {most}"
    require(op, least <= count <= most, f"expected {wanted} operand{'s' * (wanted != '1')}, got {count}")
    for t in op.types:
        require(op, isinstance(t, TensorType), f"expected tensors as operands, got {t}")
    return op.types


def of_elements(op: Operation, types: Iterable[TensorType], allowed: Sequence[str]) -> None:
    for t in types:
        require(op, t.element in allowed, f"elements of type {t.element} are not allowed, only {', '.join(allowed)}")


def alike(op: Operation, types: Sequence[TensorType], what: str = "operands") -> TensorType:
    """The one type of all; sizes are known where one of them knows."""
    first = types[0]
    shape = list(first.shape)
    for t in types[1:]:
        require(op, compatible(t, first), f"{what} must have one type, got {first} and {t}")
        shape = [b if a is None else a for a, b in zip(shape, t.shape, strict=True)]
    return TensorType(tuple(shape), first.element)


def scalar(op: Operation, kind: Any, what: str) -> TensorType:
    require(op, isinstance(kind, TensorType) and kind.shape == (), f"{what} must be a tensor without dimensions, got"
            f" {kind}")
    return kind


def distinct(op: Operation, dims: Sequence[int], rank: int, what: str) -> None:
    """Dimensions that exist, each once."""
    require(op, all(0 <= d < rank for d in dims), f"{what} {list(dims)} are not all dimensions of {rank}")
    require(op, len(set(dims)) == len(dims), f"{what} {list(dims)} name one twice")


def counted(op: Operation, values: Sequence[Any], count: int, what: str) -> None:
    require(op, len(values) == count, f"{what}: expected {count} numbers, got {len(values)}")


def body(op: Operation, index: int, arguments: Sequence[Any], results: Sequence[Any] | None = None) -> list[Any]:
    """The types that a region returns; its arguments must be those given."""
    require(op, len(op.blocks) > index, f"expected {index + 1} regions, got {len(op.blocks)}")
    block = op.blocks[index]
    found = [v.type for v in block.arguments]
    require(op, len(found) == len(arguments) and all(map(compatible, found, arguments)),
            f"its region takes ({', '.join(map(str, found))}), expected ({', '.join(map(str, arguments))})")
    last = block.operations[-1] if block.operations else None
    if last is None or last.name != "stablehlo.return":
        raise op.error("its region must end with stablehlo.return")
    returned = last.types
    if results is not None:
        require(last, len(returned) == len(results) and all(map(compatible, returned, results)),
                f"the region of {op.name} must return ({', '.join(map(str, results))}), got"
                f" ({', '.join(map(str, returned))})")
    return returned


def regions(op: Operation, count: int) -> None:
    require(op, len(op.blocks) == count, f"expected {count} regions, got {len(op.blocks)}")

"""The short forms of operations, as the printers of their dialects write them.

Enters: a parser behind the name of an operation. Leaves: the same record that the generic form gives. Most forms are
words and attributes between operands and types, one line of `PATTERNS` each. Refuses, through the parser, what does not
fit the form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .syntax import Block, FunctionType, Keyword, Number, Operation, Struct, Symbol, Value
from .types import TensorType

if TYPE_CHECKING:
    from .parsing import Parser

Form = Callable[["Parser", str, int], Operation]

_ANOTHER = re.compile(r"\s*%")
DIALECTS = ("stablehlo.", "func.", "builtin.", "chlo.", "mhlo.", "sdy.")

ELEMENTWISE = """abs add and atan2 bitcast_convert cbrt ceil clamp complex convert cosine count_leading_zeros divide
exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply negate not or
popcnt power real remainder reshape round_nearest_afz round_nearest_even rsqrt shift_left shift_right_arithmetic
shift_right_logical sign sine sqrt subtract tan tanh xor dynamic_reshape dynamic_pad real_dynamic_slice
dynamic_update_slice uniform_quantize uniform_dequantize partition_id replica_id after_all create_token
dynamic_conv trace""".split()

# After the operands: word, attribute, how its value is written.
PATTERNS: dict[str, list[tuple[str, str, str]]] = {
    "broadcast": [("sizes", "broadcast_sizes", "integers")],
    "broadcast_in_dim": [("dims", "broadcast_dimensions", "integers")],
    "dynamic_broadcast_in_dim": [("dims", "broadcast_dimensions", "integers")],
    "cholesky": [("lower", "lower", "truth")],
    "concatenate": [("dim", "dimension", "integer")],
    "dynamic_iota": [("dim", "iota_dimension", "integer")],
    "dynamic_slice": [("sizes", "slice_sizes", "integers")],
    "einsum": [("config", "einsum_config", "string")],
    "unary_einsum": [("config", "einsum_config", "string")],
    "fft": [("type", "fft_type", "fft_type"), ("length", "fft_length", "integers")],
    "get_dimension_size": [("dim", "dimension", "integer")],
    "set_dimension_size": [("dim", "dimension", "integer")],
    "iota": [("dim", "iota_dimension", "integer")],
    "pad": [("low", "edge_padding_low", "integers"), ("high", "edge_padding_high", "integers"),
            ("interior", "interior_padding", "integers")],
    "reduce_precision": [("format", "", "format")],
    "reverse": [("dims", "dimensions", "integers")],
    "rng": [("distribution", "rng_distribution", "rng_distribution")],
    "rng_bit_generator": [("algorithm", "rng_algorithm", "rng_algorithm")],
    "transpose": [("dims", "permutation", "integers")],
}


# --- pieces -----------------------------------------------------------------------------------------------------------


def operands(p: Parser) -> list[tuple[Value, int]]:
    """Values with commas, up to what is no value; also in parentheses."""
    if p.take("("):
        return [p.use() for _ in p.separated(")")]
    found = []
    while p.kind == "value":
        found.append(p.use())
        if not p.here(","):
            break
        if not _ANOTHER.match(p.source, p.end):
            break
        p.advance()
    return found


def integers(p: Parser) -> list[int]:
    p.expect("[")
    return [p.integer() for _ in p.separated("]")]


def assigned(p: Parser, kind: str) -> Any:
    """The value after `word =`."""
    if kind == "integers":
        return integers(p)
    if kind == "integer":
        return Number(p.integer())
    if kind == "string":
        return p.string()
    if kind == "truth":
        if not p.here("true", "false"):
            p.fail("true or false")
        return p.advance() == "true"
    return Keyword(kind, p.expect_kind("name", "a value"))


def attributes(p: Parser) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if p.here("<"):
        p.advance()
        found = p.dictionary()
        p.expect(">")
    return {**found, **p.dictionary()} if p.here("{") else found


def finished(p: Parser, name: str, at: int, used: list[tuple[Value, int]], found: dict[str, Any],
             blocks: list[Block] | None = None) -> Operation:
    """The attributes and types at the end. One type alone is that of all operands and the result."""
    found = {**found, **attributes(p)}
    p.expect(":")
    where = p.at
    kind = p.type()
    if isinstance(kind, FunctionType):
        values = p.typed(used, kind.arguments, where)
        return p.made(name, values, kind.results, found, blocks or [], at)
    return p.made(name, short_types(p, name, used, kind, where), [kind], found, blocks or [], at)


def short_types(p: Parser, name: str, used: list[tuple[Value, int]], kind: Any, where: int) -> list[Value]:
    if name == "stablehlo.complex" and isinstance(kind, TensorType) and kind.element.startswith("complex"):
        kind = TensorType(kind.shape, kind.element[8:-1])
    if name in ("stablehlo.real", "stablehlo.imag", "stablehlo.is_finite", "stablehlo.compare"):
        raise p.error(f"{name}: expected a type like (tensor<f32>) -> tensor<f32>", where)
    if name == "stablehlo.abs" and isinstance(kind, TensorType) and not kind.element.startswith("complex"):
        kinds = [TensorType(kind.shape, e) for e in (kind.element, f"complex<{kind.element}>")]
        if used and used[0][0].type in kinds:
            kind = used[0][0].type
    return p.typed(used, [kind] * len(used), where)


# --- forms ------------------------------------------------------------------------------------------------------------


def plain(p: Parser, name: str, at: int) -> Operation:
    return finished(p, name, at, operands(p), {})


def patterned(p: Parser, name: str, at: int) -> Operation:
    used = operands(p)
    found: dict[str, Any] = {}
    for i, (word, attribute, kind) in enumerate(PATTERNS[name.partition(".")[2]]):
        if used or i:
            p.expect(",")
        p.expect(word)
        p.expect("=")
        if kind == "format":
            exponent, mantissa = p.exponent_and_mantissa()
            found |= {"exponent_bits": Number(exponent), "mantissa_bits": Number(mantissa)}
        else:
            found[attribute] = assigned(p, kind)
    return finished(p, name, at, used, found)


def compare(p: Parser, name: str, at: int) -> Operation:
    found = {"comparison_direction": Keyword("comparison_direction", p.expect_kind("name", "a direction like LT"))}
    p.expect(",")
    used = operands(p)
    if p.take(","):
        found["compare_type"] = Keyword("comparison_type", p.expect_kind("name", "a kind like FLOAT"))
    return finished(p, name, at, used, found)


def select(p: Parser, name: str, at: int) -> Operation:
    used = operands(p)
    found = attributes(p)
    p.expect(":")
    where, first = p.at, p.type()
    if isinstance(first, FunctionType):
        return p.made(name, p.typed(used, first.arguments, where), first.results, found, [], at)
    p.expect(",")
    kind = p.type()
    return p.made(name, p.typed(used, [first, kind, kind], where), [kind], found, [], at)


def constant(p: Parser, name: str, at: int) -> Operation:
    if p.take("("):      # ) <{value = ...}> : () -> type
        p.expect(")")
        return finished(p, name, at, [], {})
    found = attributes(p)
    value = p.attribute()
    if not hasattr(value, "type") or not isinstance(value.type, TensorType):
        raise p.error(f"{name}: expected a constant like dense<0.0> : tensor<f32>", at)
    return p.made(name, [], [value.type], {**found, "value": value}, [], at)


def slices(p: Parser, name: str, at: int) -> Operation:
    used = [p.use()]
    starts, limits, strides = [], [], []
    p.expect("[")
    for _ in p.separated("]"):
        starts.append(p.integer())
        p.expect(":")
        limits.append(p.integer())
        strides.append(p.integer() if p.take(":") else 1)
    return finished(p, name, at, used, {"start_indices": starts, "limit_indices": limits, "strides": strides})


def crossed(p: Parser) -> tuple[list[int], list[int]]:
    """`[0] x [1]`."""
    left = integers(p)
    if p.kind == "name" and p.text == "x":
        p.advance()
    else:
        p.fail("'x'")
    return left, integers(p)


def products(p: Parser, name: str, at: int) -> Operation:
    used = operands(p)
    found: dict[str, Any] = {}
    fields: dict[str, Any] = {"lhs_batching_dimensions": [], "rhs_batching_dimensions": [],
                              "lhs_contracting_dimensions": [], "rhs_contracting_dimensions": []}
    while p.take(","):
        word = p.expect_kind("name", "batching_dims, contracting_dims, precision or algorithm")
        p.expect("=")
        if word in ("batching_dims", "contracting_dims"):
            key = "batching_dimensions" if word == "batching_dims" else "contracting_dimensions"
            fields[f"lhs_{key}"], fields[f"rhs_{key}"] = crossed(p)
        elif word == "precision":
            p.expect("[")
            found["precision_config"] = [
                Keyword("precision", p.expect_kind("name", "a precision")) for _ in p.separated("]")
            ]
        elif word == "algorithm":
            found["algorithm"] = p.balanced(p.at)
        else:
            p.fail(f"batching_dims, contracting_dims, precision or algorithm in place of {word}")
    if name == "stablehlo.dot_general":
        found["dot_dimension_numbers"] = Struct("dot", fields)
    return finished(p, name, at, used, found)


def convolution(p: Parser, name: str, at: int) -> Operation:
    p.expect("(")
    used = [p.use() for _ in p.separated(")")]
    p.expect("dim_numbers")
    if not p.here("="):
        p.fail("'='")
    p.jump(p.end)
    found: dict[str, Any] = {"dimension_numbers": p.convolution_dimensions()}
    p.expect(",")
    p.expect("window")
    p.expect("=")
    p.expect("{")
    names = {"stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation",
             "reverse": "window_reversal"}
    for _ in p.separated("}"):
        if p.text not in names or p.kind != "name":
            p.fail("stride, pad, lhs_dilate, rhs_dilate or reverse")
        key = names[p.advance()]
        p.expect("=")
        p.expect("[")
        if key == "padding":
            found[key] = [n for _ in p.separated("]") for n in pair(p)]
        else:
            found[key] = [flag(p) for _ in p.separated("]")]
    return finished(p, name, at, used, found)


def pair(p: Parser) -> list[int]:
    at, found = p.at, integers(p)
    if len(found) != 2:
        raise p.error("a padding is two numbers", at)
    return found


def flag(p: Parser) -> int:
    """A number, or true or false."""
    return int(p.advance() == "true") if p.here("true", "false") else p.integer()


def reduce(p: Parser, name: str, at: int) -> Operation:
    values, inits = [], []
    while True:
        p.expect("(")
        values.append(p.use())
        p.expect("init")
        p.expect(":")
        inits.append(p.use())
        p.expect(")")
        if not p.take(","):
            break
    inner = ""
    if p.take("applies"):
        where, inner = p.at, p.expect_kind("name", "the name of an operation")
        if inner.partition(".")[2] not in ELEMENTWISE or len(values) != 1:
            raise p.error(f"stablehlo.reduce cannot apply '{inner}'", where)
    p.expect("across")
    p.expect("dimensions")
    p.expect("=")
    found: dict[str, Any] = {"dimensions": integers(p), **attributes(p)}
    p.expect(":")
    where, kind = p.at, p.function_type()
    given = p.typed([*values, *inits], kind.arguments, where)
    block = applied(p, inner, given[-1].type, at) if inner else reducer(p)
    return p.made(name, given, kind.results, found, [block], at)


def applied(p: Parser, inner: str, kind: Any, at: int) -> Block:
    """The body that `applies` stands for."""
    if not isinstance(kind, TensorType):
        raise p.error(f"stablehlo.reduce: expected tensors, got {kind}", at)
    scalar = TensorType((), kind.element)
    arguments = [Value("%lhs", scalar), Value("%rhs", scalar)]
    op = p.made(inner, list(arguments), [scalar], {}, [], at)
    return Block(arguments, [op, p.made("stablehlo.return", [op.results[0]], [], {}, [], at)])


def reducer(p: Parser) -> Block:
    """`reducer(%a: t, %b: t) (%c: t, %d: t) { ... }`: left ones first in the record, then right ones."""
    p.expect("reducer")
    with p.scope(isolated=False):
        left, right = [], []
        while p.take("("):
            left.append(p.argument())
            p.expect(",")
            right.append(p.argument())
            p.expect(")")
        return p.block([*left, *right], p.expect("{"))


def loop(p: Parser, name: str, at: int) -> Operation:
    names: list[tuple[str, int]] = []
    used = []
    p.expect("(")
    for _ in p.separated(")"):
        names.append((p.text, p.at))
        p.expect_kind("value", "the name of an argument")
        p.expect("=")
        used.append(p.use())
    types: list[Any] = []
    if p.take(":"):
        where = p.at
        types.append(p.type())
        while p.take(","):
            types.append(p.type())
    else:
        where = p.at
    values = p.typed(used, types, where)
    found = p.dictionary() if p.take("attributes") else {}
    blocks = []
    for word in ("cond", "do"):
        p.expect(word)
        with p.scope(isolated=False):
            arguments = [Value(n, t) for (n, _), t in zip(names, types, strict=True)]
            for value, (n, where) in zip(arguments, names, strict=True):
                p.define(n, [value], where)
            blocks.append(p.block(arguments, p.expect("{")))
    return p.made(name, values, types, found, blocks, at)


def returned(p: Parser, name: str, at: int) -> Operation:
    found = attributes(p)
    used = p.uses()
    types: list[Any] = []
    where = p.at
    if used:
        p.expect(":")
        where = p.at
        types.append(p.type())
        while p.take(","):
            types.append(p.type())
    return p.made(name, p.typed(used, types, where), [], found, [], at)


def barrier(p: Parser, name: str, at: int) -> Operation:
    used, types = [], []
    if p.take("("):
        p.expect(")")
    else:
        used = p.uses()
    found = attributes(p)
    where = p.at
    if used:
        p.expect(":")
        types.append(p.type())
        while p.take(","):
            types.append(p.type())
    return p.made(name, p.typed(used, types, where), types, found, [], at)


def tuple_of(p: Parser, name: str, at: int) -> Operation:
    used = p.uses()
    found = attributes(p)
    p.expect(":")
    where, kind = p.at, p.type()
    items = getattr(kind, "items", None)
    if not isinstance(items, tuple):
        raise p.error(f"expected a type like tuple<tensor<f32>>, got {kind}", where)
    return p.made(name, p.typed(used, items, where), [kind], found, [], at)


def element_of(p: Parser, name: str, at: int) -> Operation:
    used = [p.use()]
    p.expect("[")
    index = p.integer()
    p.expect("]")
    return finished(p, name, at, used, {"index": Number(index)})


def call(p: Parser, name: str, at: int) -> Operation:
    callee = p.symbol()
    p.expect("(")
    used = [p.use() for _ in p.separated(")")]
    return finished(p, name, at, used, {"callee": Symbol(callee)})


def custom_call(p: Parser, name: str, at: int) -> Operation:
    target = p.symbol()
    p.expect("(")
    used = [p.use() for _ in p.separated(")")]
    return finished(p, name, at, used, {"call_target_name": target})


def composite(p: Parser, name: str, at: int) -> Operation:
    title = p.string()
    return finished(p, name, at, operands(p), {"name": title})


def function(p: Parser, name: str, at: int) -> Operation:
    """`func.func private @name(arguments) -> results attributes {...} { body }`."""
    found: dict[str, Any] = {}
    if p.here("public", "private", "nested"):
        found["sym_visibility"] = p.advance()
    found["sym_name"] = p.symbol()
    with p.scope(isolated=True):
        p.expect("(")
        arguments, types = [], []
        for _ in p.separated(")"):
            if p.kind == "value":
                arguments.append(p.argument())
                types.append(arguments[-1].type)
            else:
                types.append(p.type())
        results = function_results(p) if p.take("->") else ()
        if p.take("attributes"):
            found |= p.dictionary()
        found["function_type"] = FunctionType(tuple(types), results)
        blocks = []
        if p.here("{"):
            if len(arguments) != len(types):
                raise p.error("func.func: a function with a body has named arguments", at)
            blocks.append(p.block(arguments, p.expect("{")))
    return p.made(name, [], [], found, blocks, at)


def function_results(p: Parser) -> tuple[Any, ...]:
    if not p.take("("):
        return (p.type(),)
    found = []
    for _ in p.separated(")"):
        found.append(p.type())
        if p.here("{"):
            p.dictionary()
    return tuple(found)


def module(p: Parser, name: str, at: int) -> Operation:
    found: dict[str, Any] = {}
    if p.kind == "symbol":
        found["sym_name"] = p.symbol()
    if p.take("attributes"):
        found |= p.dictionary()
    return p.made(name, [], [], found, [p.region(isolated=True)], at)


def mesh(p: Parser, name: str, at: int) -> Operation:
    """`sdy.mesh @mesh = <[...]>`: how devices are laid out, which one device need not know."""
    found: dict[str, Any] = {"sym_name": p.symbol()}
    p.expect("=")
    p.balanced(p.at)
    return p.made(name, [], [], found, [], at)


FORMS: dict[str, Form] = {
    **{f"stablehlo.{n}": plain for n in ELEMENTWISE},
    **{f"stablehlo.{n}": patterned for n in PATTERNS},
    "stablehlo.compare": compare, "stablehlo.select": select, "stablehlo.constant": constant,
    "stablehlo.slice": slices, "stablehlo.dot_general": products, "stablehlo.dot": products,
    "stablehlo.convolution": convolution, "stablehlo.reduce": reduce, "stablehlo.while": loop,
    "stablehlo.return": returned, "func.return": returned, "stablehlo.optimization_barrier": barrier,
    "stablehlo.tuple": tuple_of, "stablehlo.get_tuple_element": element_of, "func.call": call,
    "stablehlo.custom_call": custom_call, "stablehlo.composite": composite, "func.func": function,
    "builtin.module": module, "sdy.mesh": mesh,
}

"""Calls against signatures: which one fits, what is converted, what results.

Enters: a graph, signatures, given values. Leaves: values in the order of the signature, defaults made constants,
numbers and tensors converted where the language does so unasked. Refuses: calls that fit none, with every candidate and
its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from . import types as t
from .constants import insert_constant
from .ir import Graph, Node, Value
from .schemas import Argument, Schema, bind_variables, substitute, without_optional

_SAME = """absolute abs, clip clamp, arccos acos, arcsin asin, arctan atan, arctan2 atan2, arccosh acosh, arcsinh asinh,
    arctanh atanh, fix trunc, negative neg, subtract sub, greater_equal ge, greater gt, less_equal le, less lt,
    not_equal ne, divide div, multiply mul, true_divide div, swapdims transpose, swapaxes transpose"""
_ALIKE = """ger outer, linalg_matmul matmul, inverse linalg_inv, det linalg_det, concat cat, concatenate cat,
    row_stack vstack, moveaxis movedim, special_erf erf, special_erfc erfc, special_erfinv erfinv,
    special_expit sigmoid, special_exp2 exp2, special_expm1 expm1, special_gammainc igamma,
    special_gammaincc igammac, special_gammaln lgamma,
    special_i0 i0, special_log_softmax log_softmax, special_logit logit, special_logsumexp logsumexp,
    special_polygamma polygamma, special_psi digamma, special_digamma digamma, special_round round, special_sinc sinc,
    special_softmax softmax, special_multigammaln mvlgamma, special_xlogy xlogy, orgqr linalg_householder_product"""
ALIASES = {f"aten::{a}{tail}": f"aten::{b}{tail}" for names, tails in ((_SAME, ("", "_")), (_ALIKE, ("",)))
           for a, b in (pair.split() for pair in names.split(",")) for tail in tails}       # as graphs write them


class Matched(NamedTuple):
    """Inputs of a call as its signature wants them."""

    schema: Schema
    inputs: list[Value]
    variables: dict[str, t.Type]

    def return_types(self) -> list[t.Type]:
        return [substitute(r.type, self.variables) for r in self.schema.returns]


# A dtype is an int here, so these would take calls that mean sizes, or results to write into.
_NOT_CALLED = frozenset((("aten::view", "dtype"), ("aten::max", "unary_out"), ("aten::min", "unary_out")))


class Mismatch(Exception):
    """A signature that does not fit, with the reason."""


def match(graph: Graph, schema: Schema, args: Sequence[Value], kwargs: Mapping[str, Value], *,
          convert: bool, receiver: Value | None = None) -> Matched:
    """Fit a call to one signature. Raises Mismatch with the reason."""
    given = [*([receiver] if receiver is not None else []), *args]
    variables: dict[str, t.Type] = {}
    inputs: list[Value] = []
    if schema.is_vararg:
        if len(given) < len(schema.arguments) or kwargs:
            raise Mismatch(f"it takes {len(schema.arguments)} positional arguments or more, by position alone;"
                           f" {len(given)} were given.")
        for argument, value in zip(schema.arguments, given, strict=False):
            _fitted(graph, argument, value, variables, convert)
        return Matched(schema, given, variables)
    used, named = 0, set()
    for at, argument in enumerate(schema.arguments):
        if used < len(given) and not argument.kwarg_only:
            if convert and _takes_rest(schema, at, given, used):
                value = _as_list(graph, given[used:], argument)
                used = len(given)
            else:
                value = given[used]
                used += 1
            if argument.name in kwargs:
                raise Mismatch(f"Argument '{argument.name}' was specified twice")
        elif argument.name in kwargs:
            value = kwargs[argument.name]
            named.add(argument.name)
        elif argument.has_default:
            value = _default(graph, argument)
        else:
            raise Mismatch(f"Argument {argument.name} not provided.")
        inputs.append(_fitted(graph, argument, value, variables, convert))
    if used < len(given):
        raise Mismatch(f"it takes at most {used} positional arguments, {len(given)} were given.")
    for name in kwargs:
        if name not in named:
            known = schema.index(name) is not None
            raise Mismatch(f"Keyword argument {name} specified twice." if known else
                           f"Unknown keyword argument '{name}'.")
    return Matched(schema, inputs, variables)


def _default(graph: Graph, argument: Argument) -> Value:
    """The constant a parameter takes where nothing is given; it comes from no line of the program."""
    inner = without_optional(argument.type)
    value = argument.default
    with graph.at_range(None):
        if isinstance(value, list):
            return insert_constant(graph, list(value), inner if isinstance(inner, t.ListType) else None)
        if isinstance(inner, t.FloatType) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        return insert_constant(graph, value)


def _takes_rest(schema: Schema, at: int, given: Sequence[Value], used: int) -> bool:
    """Whether a list parameter stands for all positional values that are left: `x.view(2, 3)`."""
    argument = schema.arguments[at]
    is_last = at + 1 == len(schema.arguments) or schema.arguments[at + 1].kwarg_only
    inner = without_optional(argument.type)
    if not isinstance(inner, t.ListType) or inner.element.has_free_variables() or argument.length is not None:
        return False
    first = given[used].type_
    is_list = isinstance(first, (t.ListType, t.NoneType)) or (
        isinstance(first, t.TupleType) and all(part.is_subtype_of(inner.element) for part in first.elements_)) or (
        isinstance(first, t.OptionalType))
    return is_last and not is_list


def _as_list(graph: Graph, values: Sequence[Value], argument: Argument) -> Value:
    element = without_optional(argument.type).contained()[0]
    fitted = [_converted(graph, element, value, convert=True) for value in values]
    for value in fitted:
        if not value.type_.is_subtype_of(element):
            raise Mismatch(_expected(argument, value.type_, argument.type))
    return _list_of(graph, fitted, element)


def _list_of(graph: Graph, values: Sequence[Value], element: t.Type) -> Value:
    with graph.at_range(None):
        return graph.insert("prim::ListConstruct", values, t.ListType(element)).outputs_[0]


def _expected(argument: Argument, found: t.Type, wanted: t.Type) -> str:
    return (f"Expected a value of type '{wanted.annotation_str}' for argument '{argument.name}' but instead found type"
            f" '{found}'." + (f"\n{reason}" if (reason := found.why_not(wanted)) else ""))


def _fitted(graph: Graph, argument: Argument, value: Value, variables: dict[str, t.Type], convert: bool) -> Value:
    """A value as one parameter takes it."""
    inner = without_optional(argument.type)
    if argument.length is not None and isinstance(inner, t.ListType) and value.type_.is_subtype_of(inner.element):
        return _list_of(graph, [value] * argument.length, inner.element)
    reason = bind_variables(argument.type, t.plain(value.type_), variables)
    if reason is not None:
        raise Mismatch(f"Could not match type {value.type_} to {argument.type}, that of argument '{argument.name}':"
                       f" {reason}.")
    wanted = substitute(argument.type, variables)
    if wanted.has_free_variables():
        raise Mismatch(f"{value.type_} does not tell what the type variables of {argument.type} stand for")
    value = _converted(graph, wanted, value, convert)
    if not value.type_.is_subtype_of(wanted):
        raise Mismatch(_expected(argument, value.type_, wanted))
    return value


def _converted(graph: Graph, wanted: t.Type, value: Value, convert: bool) -> Value:
    """A value converted as the language does unasked: tuples to lists, and, if `convert`, tensors to numbers and
    words to devices."""
    given = value.type_
    if isinstance(wanted, t.OptionalType) and not isinstance(given, (t.OptionalType, t.NoneType)):
        return _converted(graph, wanted.element, value, convert)
    if isinstance(given, t.TupleType):
        return _converted_tuple(graph, wanted, value, convert)
    if not convert:
        return value
    if isinstance(given, t.TensorType):
        kinds = {t.IntType: "Int", t.FloatType: "Float", t.ComplexType: "Complex", t.NumberType: "Scalar"}
        word = kinds.get(type(wanted))
        if word:
            return graph.insert(f"aten::{word}Implicit", [value], wanted).outputs_[0]
    if isinstance(given, t.BoolType) and isinstance(wanted, t.NumberType):
        return graph.insert("aten::Int", [value], t.IntType()).outputs_[0]
    if isinstance(given, t.StringType) and isinstance(wanted, t.DeviceObjType):
        return graph.insert("aten::device", [value], wanted).outputs_[0]
    return value


def _converted_tuple(graph: Graph, wanted: t.Type, value: Value, convert: bool) -> Value:
    given: t.TupleType = value.type_  # type: ignore[assignment]
    if isinstance(wanted, t.ListType) and all(
            part.is_subtype_of(wanted.element) for part in given.elements_):
        return _list_of(graph, unpacked(graph, value), wanted.element)
    if isinstance(wanted, t.TupleType) and len(wanted.elements_) == len(given.elements_) and (
            not given.is_subtype_of(wanted)):
        parts = [_converted(graph, element, part, convert)
                 for element, part in zip(wanted.elements_, unpacked(graph, value), strict=True)]
        with graph.at_range(None):
            return graph.insert("prim::TupleConstruct", parts,
                                given.with_contained([part.type_ for part in parts])).outputs_[0]
    return value


def unpacked(graph: Graph, value: Value) -> list[Value]:
    """The elements of a tuple."""
    type: t.TupleType = value.type_  # type: ignore[assignment]
    if value.node_.kind_ == "prim::TupleConstruct":
        return value.node_.inputs()
    with graph.at_range(None):
        node = graph.insert("prim::TupleUnpack", [value], outputs=len(type.elements_))
    for output, element in zip(node.outputs_, type.elements_, strict=True):
        output.type_ = element
    return node.outputs()


def match_any(graph: Graph, schemas: Sequence[Schema], args: Sequence[Value], kwargs: Mapping[str, Value],
              receiver: Value | None = None) -> tuple[Matched | None, list[tuple[Schema, str]]]:
    """The first signature that fits, without conversions before with them; or the reason of each. What a failed try
    left in the graph is taken out again."""
    reasons: list[tuple[Schema, str]] = []
    schemas = [schema for schema in schemas if (schema.name, schema.overload) not in _NOT_CALLED]
    for convert in (False, True):
        reasons = []
        for schema in schemas:
            mark = graph.insert_at.prev_
            try:
                return match(graph, schema, args, kwargs, convert=convert, receiver=receiver), []
            except Mismatch as mismatch:
                reasons.append((schema, str(mismatch)))
                _undo(graph, mark)  # type: ignore[arg-type]
    return None, reasons


def _undo(graph: Graph, mark: Node) -> None:
    """Take out the nodes after `mark`."""
    node = graph.insert_at.prev_
    while node is not mark:
        before = node.prev_  # type: ignore[union-attr]
        node.destroy()  # type: ignore[union-attr]
        node = before


def emit_call(graph: Graph, kind: str, matched: Matched) -> Value:
    """The node of a matched builtin call; several results come as a tuple."""
    schema, types = matched.schema, matched.return_types()
    node = graph.insert(ALIASES.get(kind, kind), matched.inputs, outputs=len(types))
    for output, made in zip(node.outputs_, types, strict=True):
        output.type_ = made
    if not types:
        with graph.at_range(None):
            return graph.insert("prim::TupleConstruct", (), t.TupleType(())).outputs_[0]
    if len(types) == 1:
        return node.outputs_[0]
    fields = tuple(r.name for r in schema.returns)
    with graph.at_range(None):
        made = t.TupleType(types, "NamedTuple" if all(fields) else None, fields if all(fields) else ())
        return graph.insert("prim::TupleConstruct", node.outputs_, made).outputs_[0]


def refusal(kind: str, reasons: Sequence[tuple[Schema, str]]) -> str:
    """Why a call fits none of its signatures."""
    if not reasons:
        return f"Unknown builtin op: {kind}."
    if len(reasons) == 1:
        schema, reason = reasons[0]
        return f"\n{schema}:\n{reason}\n"
    listed = "\n".join(f"  \n  {schema}:\n  {reason}" for schema, reason in reasons)
    return f"\nArguments for call are not valid.\nThe following variants are available:\n{listed}\n"

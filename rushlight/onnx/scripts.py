"""Functions of onnxscript as rules: what PyTorch's users give in `custom_translation_table`.

Enters: a function of tensors that calls operators (`onnxscript.opset18.Add`), plain or decorated by
`onnxscript.script`, and the arguments of an op. Leaves: a rule that builds the same nodes: the function runs once, on
values that record what it calls. Refuses Python that depends on elements.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _C
from .building import Builder, Size
from .model import ELEMENT, Value

# Names that the first parameter of a rule of our own has; functions of onnxscript take tensors only.
BUILDERS = ("g", "graph", "builder")
_TYPES = {f"tensor({name})": code for name, code in {
    "bool": "b1", "int64": "i64", "int32": "i32", "float": "f32", "double": "f64", "uint8": "u8", "int8": "i8",
    "float16": "f16", "bfloat16": "bf16"}.items()}


def as_rule(function: Any) -> Callable[..., Any]:
    """A rule as it is, or a function of onnxscript as one; of several the first that takes the arguments."""
    if isinstance(function, (list, tuple)):
        return as_rule(function[0])
    if _is_rule(function):
        return function

    def rule(g: Builder, *args: Any, **kwargs: Any) -> Any:
        return traced(g, function, args, kwargs)

    return rule


def _is_rule(function: Any) -> bool:
    if type(function).__module__.startswith("onnxscript"):
        return False
    params = list(inspect.signature(function).parameters.values())
    return bool(params) and (params[0].name in BUILDERS or params[0].annotation in (Builder, "Builder"))


class Traced:
    """A value that records what is computed with it."""

    def __init__(self, g: Builder, value: Value) -> None:
        self.g, self.value = g, value

    @property
    def dtype(self) -> int:
        return ELEMENT[self.value.dtype.code]

    @property
    def shape(self) -> Any:
        return self.value.shape

    def __bool__(self) -> bool:
        raise NotImplementedError("a function that decides by the elements of a tensor; use Where or If")


def _operator(name: str, swapped: bool = False, truth: bool = False) -> Callable[..., Traced]:
    def run(self: Traced, other: Any) -> Traced:
        a, b = self.value, _value(self.g, other, self.value.dtype)
        a, b = (b, a) if swapped else (a, b)
        return Traced(self.g, self.g.node(name, a, b, dtype=_C.bool if truth else a.dtype))

    return run


for _method, _op in {"add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "pow": "Pow", "matmul": "MatMul",
                     "mod": "Mod", "and": "And", "or": "Or"}.items():
    setattr(Traced, f"__{_method}__", _operator(_op))
    setattr(Traced, f"__r{_method}__", _operator(_op, True))
for _method, _op in {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal"}.items():
    setattr(Traced, f"__{_method}__", _operator(_op, truth=True))
Traced.__neg__ = lambda self: Traced(self.g, self.g.node("Neg", self.value))      # type: ignore[attr-defined]
Traced.__hash__ = object.__hash__      # type: ignore[assignment]


def _value(g: Builder, x: Any, like: Any) -> Any:
    """An argument of an operator as a value."""
    if isinstance(x, Traced):
        return x.value
    if x is None or isinstance(x, Value):
        return x
    if isinstance(x, Size):
        return x.value
    if isinstance(x, (list, tuple)):
        is_whole = all(isinstance(n, int) for n in x)
        return g.constant(list(x), _C.int64 if is_whole else like)
    if isinstance(x, (bool, int, float)):
        return g.constant(x, _C.bool if isinstance(x, bool) else like)
    array = getattr(x, "value", x)      # onnxscript's tensors hold an array
    return g.tensor("c_array", _tensor(array))


def _tensor(array: Any) -> Any:
    import numpy  # noqa: PLC0415 - for constants of functions alone

    from ..tensors.interop import from_numpy  # noqa: PLC0415

    return from_numpy(numpy.asarray(array))


class _Recording:
    """What onnxscript asks to evaluate operators."""

    def __init__(self, g: Builder) -> None:
        self.g = g

    def eval_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        schema, g = op.op_schema, self.g
        formal = [] if schema is None else list(schema.inputs)
        given, settings = list(args), dict(kwargs)
        names = set() if schema is None else set(schema.attributes)
        for i, parameter in enumerate(formal):
            if parameter.name in settings:
                given.extend([None] * (i + 1 - len(given)))
                given[i] = settings.pop(parameter.name)
        for name, extra in zip(names, given[len(formal):] if formal and not _is_variadic(formal) else ()):
            settings.setdefault(name, extra)
        like = next((x.value.dtype for x in given if isinstance(x, Traced)), _C.float32)
        inputs = [_value(g, x, like) for x in given]
        count = 1 if schema is None else max(1, sum(o.option.name == "Single" for o in schema.outputs))
        dtypes = [_type_of(schema, i, inputs, settings, like) for i in range(count)]
        domain = op.opset.domain
        if domain:
            g.domains[domain] = op.opset.version
        found = g.nodes(op.name, *inputs, dtypes=dtypes, domain=domain, **settings)
        return Traced(g, found[0]) if len(found) == 1 else tuple([Traced(g, v) for v in found])

    def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return function.function(*args, **kwargs)


def _is_variadic(formal: Sequence[Any]) -> bool:
    return formal[-1].option.name == "Variadic"


def _type_of(schema: Any, index: int, inputs: Sequence[Any], settings: Mapping[str, Any], like: Any) -> Any:
    """The type of a result: what the operator says, that of an input that it names, or of a setting."""
    if "to" in settings:
        return _by_number(settings["to"])
    if schema is None or index >= len(schema.outputs):
        return like
    said = schema.outputs[index].type_str
    if said in _TYPES:
        return _by_code(_TYPES[said])
    for parameter, value in zip(schema.inputs, inputs, strict=False):
        if parameter.type_str == said and value is not None:
            return value.dtype
    return like


def _by_number(number: int) -> Any:
    return _by_code(next(code for code, n in ELEMENT.items() if n == int(number)))


def _by_code(code: str) -> Any:
    from ..op.pack import BY_CODE  # noqa: PLC0415 - the core's table

    return BY_CODE[code]


def traced(g: Builder, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The results of a function of onnxscript on values."""
    from .sessions import optional  # noqa: PLC0415 - onnxscript is there if somebody wrote such a function

    evaluator = optional("onnxscript.evaluator", "custom_translation_table with functions of onnxscript")
    given = [_wrapped(g, a) for a in args]
    named = {k: _wrapped(g, v) for k, v in kwargs.items()}
    with evaluator.default_as(_Recording(g)):
        inner = getattr(function, "function", function)
        found = inner(*given, **named)
    if isinstance(found, Traced):
        return found.value
    return tuple([_value(g, v, _C.float32) for v in found]) if isinstance(found, (list, tuple)) else _value(
        g, found, _C.float32)


def _wrapped(g: Builder, x: Any) -> Any:
    if isinstance(x, Size):
        return Traced(g, x.value)
    if isinstance(x, (list, tuple)):
        return [_wrapped(g, v) for v in x]
    return Traced(g, x) if isinstance(x, Value) else x

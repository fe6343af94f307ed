"""Floats from outside that differ from call to call: numbers of the graph, not of the guards.

Enters: a float argument that was another one the last time. Leaves: a `SymFloat` for the program to compute with, and,
where a tensor is added to it, multiplied or divided by it, a tensor of one float64 element that the graph is given.
Numbers take part in ops by other rules than tensors do: they leave the type of the result alone, and are rounded to the
type that the op computes in; so the tensor is converted to that type first, and the op's result to its own. Whatever
else is done with a float (other ops, other functions of Python) makes it the number that it is, with a guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import _C
from ..._C import Tensor
from ...op import ops
from ...symbols import SymBool, SymFloat, SymInt
from ...symbols.expression import number
from ...symbols.real import Real, real, truth
from ..record.breaks import GraphBreak
from ..record.hidden import is_hidden
from ..record.recorder import without_modes
from .guards import Kind
from .sources import AsDouble, Source, as_double

if TYPE_CHECKING:
    from ...fake import ShapeEnv
    from ..record.recorder import Recorder
    from .outside import Outside

SYMBOLS = (SymInt, SymFloat, SymBool)
_COMPUTED_IN = {_C.float16: _C.float32, _C.bfloat16: _C.float32, _C.float32: _C.float32, _C.float64: _C.float64}
_ARITHMETIC = {"+": Tensor.add, "-": Tensor.sub, "*": Tensor.mul, "/": Tensor.div, "neg": Tensor.neg}
# names under which functions are seen -> the op, and whether the operands stand the other way round
_OPS: dict[str, tuple[Any, bool]] = {
    "add": (Tensor.add, False), "__add__": (Tensor.add, False), "__radd__": (Tensor.add, True),
    "sub": (Tensor.sub, False), "__sub__": (Tensor.sub, False), "__rsub__": (Tensor.sub, True),
    "rsub": (Tensor.sub, True), "subtract": (Tensor.sub, False),
    "mul": (Tensor.mul, False), "multiply": (Tensor.mul, False), "__mul__": (Tensor.mul, False),
    "__rmul__": (Tensor.mul, True),
    "div": (Tensor.div, False), "divide": (Tensor.div, False), "true_divide": (Tensor.div, False),
    "__truediv__": (Tensor.div, False), "__rtruediv__": (Tensor.div, True),
}
_WRITING = {
    "add_": Tensor.add_, "__iadd__": Tensor.add_, "sub_": Tensor.sub_, "__isub__": Tensor.sub_,
    "mul_": Tensor.mul_, "__imul__": Tensor.mul_, "div_": Tensor.div_, "__itruediv__": Tensor.div_,
}
_FACTORS = (Tensor.mul, Tensor.div)
_SCALED = {"add": Tensor.add, "sub": Tensor.sub, "add_": Tensor.add_, "sub_": Tensor.sub_}


def as_numbers(value: Any) -> Any:
    """A value with numbers in the place of symbols, each of which is a guard from now on."""
    if is_hidden(value):
        raise GraphBreak("elements", "a number that elements tell is wanted as it is")
    if isinstance(value, SYMBOLS):
        return int(value) if isinstance(value, SymInt) else float(value) if isinstance(value, SymFloat) else bool(value)
    if type(value) in (list, tuple) and holds_symbols(value):
        return type(value)(map(as_numbers, value))
    if isinstance(value, tuple) and holds_symbols(value):
        return type(value)(tuple(map(as_numbers, value)))
    if type(value) is dict and holds_symbols(value):
        return {as_numbers(k): as_numbers(v) for k, v in value.items()}
    return value


def holds_symbols(value: Any) -> bool:
    """Whether symbolic numbers are in a value."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_symbols, value))
    if isinstance(value, dict):
        return any(map(holds_symbols, value)) or any(map(holds_symbols, value.values()))
    return isinstance(value, SYMBOLS)


class Floats:
    """The floats of one capture that may be others."""

    def __init__(self, env: ShapeEnv, recorder: Recorder, outside: Outside) -> None:
        self.env, self.recorder, self.outside = env, recorder, outside
        self.sources: dict[str, Source] = {}      # by the name of the symbol
        self.given: dict[str, float] = {}
        self.tensors: dict[Real, Tensor] = {}     # what stands for a formula in the graph
        recorder.with_floats = self.call

    def new(self, source: Source, value: float) -> SymFloat:
        """A number that stands for the floats at a source."""
        name = f"f{len(self.sources)}"
        self.sources[name], self.given[name] = source, value
        self.env.hints[name] = value
        self.outside.guard(Kind.TYPE_IS, source, float)
        return SymFloat(real(name), self.env)

    def is_one(self, value: Any) -> bool:
        """Whether a value depends on floats from outside."""
        return isinstance(value, SymFloat) and not self.sources.keys().isdisjoint(value.expression.names)

    # --- ops ----------------------------------------------------------------------------------------------------------

    def call(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An op on tensors and such floats; NotImplemented where there are none."""
        if not self.sources or not any(map(self.is_in, (*args, *kwargs.values()))):
            return NotImplemented
        result = self.computed(getattr(function, "__name__", ""), args, kwargs)
        if result is not NotImplemented:
            return result
        return self.recorder.call(function, tuple(map(self.fixed, args)), {k: self.fixed(v) for k, v in kwargs.items()})

    def is_in(self, value: Any) -> bool:
        return any(map(self.is_in, value)) if type(value) in (list, tuple) else self.is_one(value)

    def fixed(self, value: Any) -> Any:
        """The number that a float is now."""
        if type(value) in (list, tuple):
            return type(value)(map(self.fixed, value))
        return float(value) if self.is_one(value) else value

    def computed(self, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An op that may have a tensor in the place of the number; NotImplemented for others."""
        if kwargs.keys() == {"alpha"} and name in _SCALED:
            return self.scaled(name, args, kwargs["alpha"])
        if len(args) != 2 or kwargs or not (isinstance(args[0], Tensor) or isinstance(args[1], Tensor)):
            return NotImplemented
        writes = _WRITING.get(name)
        op, is_swapped = (writes, False) if writes is not None else _OPS.get(name, (None, False))
        if op is None:
            return NotImplemented
        call = self.recorder.call
        at = 1 if isinstance(args[0], Tensor) else 0
        t = self.recorder.faked(args[1 - at])
        dtype = t.dtype if t.dtype in _COMPUTED_IN else _C.get_default_dtype()
        if t.dtype.is_complex or dtype not in _COMPUTED_IN or (t.dtype.is_floating_point and t.dtype != dtype):
            return NotImplemented
        if writes is not None and _COMPUTED_IN.get(t.dtype) != t.dtype:
            return NotImplemented
        inner = _COMPUTED_IN[dtype]
        held = self.tensor(args[at].expression)
        if held is None:
            return NotImplemented
        if inner != dtype and op not in _FACTORS:      # what is added to a half type is rounded to it first
            held = call(Tensor.to, (held, dtype), {})
        held = held if inner is _C.float64 else call(Tensor.to, (held, inner), {})
        t = t if t.dtype == inner else call(Tensor.to, (t, inner), {})
        operands = (t, held) if (at == 1) != is_swapped else (held, t)
        result = call(op, operands, {})
        return result if inner == dtype else call(Tensor.to, (result, dtype), {})

    def scaled(self, name: str, args: tuple, alpha: Any) -> Any:
        """a + alpha * b, where both are of the type that the op computes in: alpha * b is rounded to it then too."""
        if len(args) != 2 or not all(isinstance(a, Tensor) for a in args):
            return NotImplemented
        a, b = map(self.recorder.faked, args)
        if a.dtype != b.dtype or _COMPUTED_IN.get(a.dtype) != a.dtype:
            return NotImplemented
        product = self.computed("mul", (b, alpha), {})
        return product if product is NotImplemented else self.recorder.call(_SCALED[name], (a, product), {})

    def tensor(self, formula: Any) -> Tensor | None:
        """One float64 element that is what a formula gives; None where it is not made of sums and products."""
        found = self.tensors.get(formula)
        if found is not None:
            return found
        if not formula.arguments:
            found = self.given_tensor(formula.function) if formula.function in self.sources else None
        elif formula.function in _ARITHMETIC:
            parts = [None if not isinstance(a, Real) else self.tensor(a) if a.value is None else a.value
                     for a in formula.arguments]
            if any(part is None for part in parts):
                return None
            if formula.function == "/":      # of which Python makes an error
                self.env.guard(truth("!=", formula.arguments[1], number(0)))
            found = self.arithmetic(formula.function, parts)
        if found is not None:
            self.tensors[formula] = found
        return found

    def arithmetic(self, function: str, parts: list[Any]) -> Tensor:
        call = self.recorder.call
        if not isinstance(parts[0], Tensor):
            parts[0] = call(ops["full_like"], (parts[1], parts[0]), {})
        return call(_ARITHMETIC[function], tuple(parts), {})

    def given_tensor(self, name: str) -> Tensor:
        source = AsDouble(self.sources[name])
        with without_modes():
            given = as_double(self.given[name])
        fake = self.recorder.add_input(f"arg{len(self.outside.inputs)}", given, None, str(source))
        self.outside.inputs.append((source, given))
        return fake

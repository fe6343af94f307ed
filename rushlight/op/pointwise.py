"""Pointwise ops: one scalar expression; broadcasting, promotion, kernels and derivatives follow from it.

Enters: a definition with `expr` (and optionally `vjp`, in the same scalar vocabulary). Leaves: shape-generic plans for
the core, one per combination of operand types, and derived overloads that compute gradients, themselves pointwise
ops with derivatives of any order. Refuses: operand types listed in `refuse`, with PyTorch's error class.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar

from .. import _C
from ..base.bits import BITS, CONJUGATE, NEGATIVE
from ..base.promotion import can_cast, operand_dtype, rank, result_type_of, to_float
from ..base.show import is_shown, show
from ..codegen.schedule.forms.loops import point_nest
from ..devices import device_of
from ..loops import derive, expr
from ..loops.lowered import Lowered, Memory, Number, compute_code, spread
from ..loops.nest import Check, For, Nest, pointwise_nest
from ..loops.show_lowered import show_lowered
from ..loops.vocabulary import Scalars
from .definition import KIND_POINTWISE, OpDefinition, parameters_of
from .numbers import check_fits
from .pack import BY_CODE, compile_for
from .results import result_type
from .schema import OPERAND_TYPES, Param, Schema


class Promote(Enum):
    """How operand types decide the types of computation and result."""

    DEFAULT = 0     # common type
    TO_FLOAT = 1    # integers become the default float
    COMPARE = 2     # common type in, bool out
    LOGICAL = 3     # every operand read as truth, bool out
    KEEP = 4        # the first tensor's type, whatever the others are
    TO_DOUBLE = 5   # float64 or complex128
    TO_INT = 6      # common type, bool becomes int64


FITS_UNCHECKED, FITS_CHECKED, FITS_MANY, FITS_TENSORS = 0, 1, 2, 3   # Fits in csrc/plan.h
REAL_OF = {"c32": "f16", "c64": "f32", "c128": "f64"}
scalars = Scalars()
# settings that show whether a gradient is 0 whatever they are
SAMPLES = {"int": (0, 1, 3), "bool": (False, True, True)}


def refuse_numbers(name: str, args: tuple) -> None:
    """Raise for a call that gives no tensor at all."""
    given = ", ".join(type(a).__name__ for a in args)
    raise TypeError(f"{name}(): invalid combination of arguments: got ({given}), but at least one must be a Tensor")


class Pointwise(OpDefinition):
    """A definition whose body is the expression of one output element."""

    kind = KIND_POINTWISE
    tag = "pointwise"
    promote: Promote = Promote.DEFAULT
    refuse: ClassVar[tuple[str, ...]] = ()    # of "bool", "integer", "float", "half", "complex"
    result: str | None = None       # "bool", or the "real" or "complex" type of the computed precision
    apart: tuple[str, ...] = ()     # operands that take no part in promotion and keep their own type
    upcast: bool = True             # half types compute in float32
    needs_tensor: ClassVar[bool] = False      # refuse a call with numbers only, as PyTorch does for some ops
    divisor: ClassVar[str | None] = None      # the parameter that must hold no 0 when integers are divided
    # operands that PyTorch has no derivative for: a backward pass that asks for one raises
    no_derivative: ClassVar[tuple[str, ...]] = ()
    by_value: ClassVar[str | None] = None     # a parameter of one element, which may lie in the tensor that is written
    # Numbers become elements of the common type, half types included, and those for "Scalar" parameters must fit it.
    wide: ClassVar[tuple[str, ...]] = ()      # parameters whose numbers stay in the type computed in
    checked: ClassVar[tuple[str, ...]] = ()   # "Tensor|Scalar" parameters whose numbers must fit as well
    fills: ClassVar[bool] = False             # numbers are written as they are: one of one element may be infinite
    steady: ClassVar[bool] = False            # numbers stay in registers: for expressions that have many
    inplace = True

    def expr(self, s: Scalars, *operands: Any) -> Any:
        """One element of the result, from one element of each operand."""
        raise NotImplementedError

    check: ClassVar[Callable | None] = None
    """check(self, <parameters by name>): raise for what the op refuses. Called when a new combination of types is
    planned, so only types, whether a tensor is 0-d, and static values may be judged."""

    def returns_itself(self, args: tuple) -> bool:
        """Whether the result is the first argument itself, as of a conversion to the type it has."""
        return False

    def promotion(self, args: tuple) -> Promote:
        """The rule for this call; an op whose static arguments change the rule overrides it."""
        return self.promote

    def result_dtype(self, common: Any, *args: Any) -> Any:
        """The result's dtype, from the dtype computed in (before half types are widened)."""
        if self.result == "bool" or self.promote in (Promote.COMPARE, Promote.LOGICAL):
            return _C.bool
        if self.result == "real":
            return BY_CODE[REAL_OF.get(common.code, common.code)]
        return common.to_complex() if self.result == "complex" else common

    # Planning ---------------------------------------------------------------------------------------------------------

    def plan(self, args: tuple) -> Any:
        if not self.is_planned(args):
            return None
        if self.returns_itself(args):
            return _C.PointwisePlan(None, [], [])
        check_devices(self.name, args)
        operands = self.operand_indices(args)
        if self.needs_tensor and not any(isinstance(args[i], _C.Tensor) for i in operands):
            refuse_numbers(self.name, args)
        common = self.common_dtype(args, operands)
        self.run_check(args)
        if self.is_inplace:     # whether the result can be written is asked before whether there is one
            self.check_written(self.promoted(common, args), args)
        self.refuse_dtype(common)
        common = self.promoted(common, args)
        lowered = self.lower_as(args, operands, common, shaped=False)
        divisor = operands.index(self.spec.index(self.divisor)) if self.divisor and rank(common) < 2 else -1
        by_value = self.spec.index(self.by_value) if self.by_value else -1
        read_first = operands.index(by_value) if by_value in operands else -1
        if is_shown("lowered"):
            show("lowered", lowered.name, show_lowered(lowered))
        kernel = compile_for(device_of(args), point_nest(lowered, self.steady))
        in_dtypes, out_dtypes = [BY_CODE[r.code] for r in lowered.reads], [BY_CODE[code] for code in lowered.outs]
        vias = self.rounded_to(operands, common, in_dtypes)
        check = zero_check(device_of(args), in_dtypes[divisor].code) if divisor >= 0 else None
        return _C.PointwisePlan(
            kernel,
            [(i, d, via, self.fits(i, via)) for i, d, via in zip(operands, in_dtypes, vias, strict=True)],
            out_dtypes,
            self.result_wrapper(len(out_dtypes)),
            divisor,
            read_first,
            check,
            self.layout.value,
        )

    def lower(self, args: tuple) -> Lowered:
        operands = self.operand_indices(args)
        common = self.common_dtype(args, operands)
        self.run_check(args)
        self.refuse_dtype(common)
        lowered = self.lower_as(args, operands, self.promoted(common, args), shaped=True)
        for i, read in zip(operands, lowered.reads, strict=True):
            if isinstance(read, Number) and self.fits(i, BY_CODE[read.code]):
                check_fits(self.name, read.value, BY_CODE[read.code])
        return lowered

    def lower_as(self, args: tuple, operands: list[int], common: Any, shaped: bool) -> Lowered:
        """The expression of one element, computed in `common` (or the type that half types widen to).

        Without shapes it serves all of them: a plan of this kind is made once for a combination of types.
        """
        compute = compute_code(common.code) if self.upcast else common.code
        values, in_dtypes = self.leaves(args, operands, compute, common.code, packed=not shaped)
        outs = self.outputs(values)
        codes = tuple([self.output_dtype(common, args, k, out).code for k, out in enumerate(outs)])
        if self.is_inplace:
            outs = [through_bits(scalars.cast(out, code), args[0]) for out, code in zip(outs, codes, strict=True)]
        ranges = (
            broadcast_sizes(self.name, [args[i].shape for i in operands if isinstance(args[i], _C.Tensor)])
            if shaped
            else ()
        )
        reads: list[Any] = []
        for i, d in zip(operands, in_dtypes, strict=True):
            a, name = args[i], self.spec.params[i].name
            if not isinstance(a, _C.Tensor):
                reads.append(Number(name, d.code, a))
            else:
                reads.append(
                    spread(name, d.code, a.shape, a.stride(), ranges) if shaped else Memory(name, d.code, (), (), ())
                )
        leaves = [expr.arg(k, d.code) for k, d in enumerate(in_dtypes)]

        given = [args[i] for i in operands]

        def body(at: Any, sources: Any) -> list[Any]:
            reads = [through_bits(source.read(at), a) for source, a in zip(sources, given, strict=True)]
            return expr.replace_all(outs, dict(zip(leaves, reads, strict=True)))

        static = tuple([tuple(a) if isinstance(a, list) else a for i, a in enumerate(args) if i not in operands])
        return Lowered(self.name, (self, static, compute), ranges, ranges, codes, tuple(reads), body)


    def operand_indices(self, args: tuple) -> list[int]:
        operands = [i for i, p in enumerate(self.spec.params) if p.type in OPERAND_TYPES and args[i] is not None]
        if not self.compiled_in:
            return operands
        return [
            i for i in operands if not (self.spec.params[i].name in self.compiled_in and _C.is_known_number(args[i]))
        ]

    def common_dtype(self, args: tuple, operands: list[int]) -> Any:
        if self.promote is Promote.KEEP:
            return args[operands[0]].dtype
        params = self.spec.params
        taking_part = [i for i in operands if params[i].name not in self.apart]
        return result_type_of(
            [args[i] for i in taking_part if params[i].type not in ("Scalar", "Scalar?")]
            or [args[i] for i in taking_part]
        )

    def promoted(self, common: Any, args: tuple) -> Any:
        """The dtype computed in, by the op's rule."""
        rule = self.promotion(args)
        if rule is Promote.TO_FLOAT:
            return to_float(common)
        if rule is Promote.TO_DOUBLE:
            return _C.complex128 if common.is_complex else _C.float64
        return _C.int64 if rule is Promote.TO_INT and common is _C.bool else common

    def run_check(self, args: tuple) -> None:
        check = type(self).check
        if check is None:
            return
        given = {p.name: args[i] for i, p in enumerate(self.spec.params)}
        names = parameters_of(check)[1:]
        check(self, **{n: given[n] for n in names if n in given})

    def refuse_dtype(self, common: Any) -> None:
        label = ("bool", "integer", "float", "complex")[rank(common)]
        if label in self.refuse or ("half" in self.refuse and label == "float" and common.itemsize < 4):
            raise NotImplementedError(f'"{self.name}" not implemented for \'{common.name}\'')

    def leaves(
        self, args: tuple, operands: list[int], compute: str, common: str | None = None, packed: bool = False
    ) -> tuple[list[Any], list]:
        """Values for `expr`, one per parameter (static ones as they are), and what the kernel loads.

        What is wider than `common` (a number, a tensor without dims) is rounded to it first, as in PyTorch: a half that
        was made from 0.1 equals 0.1. Where numbers are `packed` by the core, it has done so with them.
        """
        values, in_dtypes = list(args), []
        for k, i in enumerate(operands):
            is_tensor = isinstance(args[i], _C.Tensor)
            rounds = (is_tensor or not packed) and self.rounds(i, is_tensor)
            held = common if common is not None and rounds else compute
            d = args[i].dtype if is_tensor else BY_CODE[self.number_code(args[i], held)]
            in_dtypes.append(d)
            leaf = expr.arg(k, d.code)
            if self.promote is Promote.LOGICAL:
                values[i] = scalars.cast(leaf, "b1")
            else:
                target = self.operand_compute(i, compute, d.code)
                if held not in (compute, d.code) and target == compute:
                    leaf = scalars.cast(leaf, held)
                values[i] = scalars.cast(leaf, target)
        return values, in_dtypes

    def rounded_to(self, operands: list[int], common: Any, in_dtypes: list) -> list:
        """The type that a number for each operand is rounded to on its way to the one the kernel loads."""
        narrows = self.upcast and compute_code(common.code) != common.code and self.promote is not Promote.LOGICAL
        return [
            common if narrows and d.code == compute_code(common.code) and self.rounds(i, False) else d
            for i, d in zip(operands, in_dtypes, strict=True)
        ]

    def rounds(self, i: int, is_tensor: bool) -> bool:
        """Whether operand `i` is rounded to the common type first. A tensor in the first place always is."""
        return self.spec.params[i].name not in self.wide or (is_tensor and i == 0)

    def fits(self, i: int, dtype: Any) -> int:
        """Whether a number for parameter `i` must fit `dtype`, which it is converted to, as the core counts it."""
        p = self.spec.params[i]
        if p.name not in self.checked and p.type not in ("Scalar", "Scalar?"):
            return FITS_UNCHECKED
        return FITS_TENSORS if p.name == self.by_value and not self.fills else FITS_MANY if self.fills else FITS_CHECKED

    def operand_compute(self, i: int, compute: str, own: str) -> str:
        """The type operand `i` is converted to before `expr` sees it."""
        return own if self.spec.params[i].name in self.apart else compute

    def number_code(self, value: Any, compute: str) -> str:
        """The type in which a number is handed to kernels: `compute`, but truth tests keep its own."""
        return compute_code(operand_dtype(value).code) if self.promote is Promote.LOGICAL else compute

    def outputs(self, values: list[Any]) -> list[Any]:
        result = self.expr(scalars, *values)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def output_dtype(self, common: Any, args: tuple, k: int, value: Any) -> Any:
        if self.is_inplace:
            return self.check_written(common, args, k)
        d = self.result_dtype(common, *args)
        return d[k] if isinstance(d, (tuple, list)) else d

    def check_written(self, common: Any, args: tuple, k: int = 0) -> Any:
        """The dtype of the tensor that is written, which the result must be castable to."""
        d, target = self.result_dtype(common, *args), args[0].dtype
        d = d[k] if isinstance(d, (tuple, list)) else d
        if not can_cast(d, target):
            raise RuntimeError(f"{self.name}: the result type {d.name} can't be cast to that of out, {target.name}")
        return target

    def num_results(self) -> int:
        return len(self.spec.returns)

    def result_wrapper(self, count: int) -> Any:
        return result_type(self.spec.name, self.spec.return_names) if count > 1 and self.spec.return_names else None

    # Derivatives
    # --------------------------------------------------------------------------------------------------------

    may_read_nothing = False   # a form that mixes types, and yet what its gradient reads may be found with samples

    def records(self) -> bool:
        return self.differentiable and self.result != "bool" and self.promote not in (Promote.COMPARE, Promote.LOGICAL)

    def saved_names(self) -> dict[str, int]:
        return {}   # the derived overload says what it needs

    def positional_vjp(self, saved: dict[str, int]) -> None:
        return None

    def mask_vjp(self) -> Callable | None:
        has_rule = any(p.is_tensor and p.name not in self.no_derivative for p in self.spec.params)
        return self.derived if self.records() and has_rule else None

    def derived(self, mask: int) -> tuple[Any, tuple[int, ...], tuple[int, ...], Callable | None]:
        """The gradient op for the tensor parameters in `mask`.

        Returns its overload, the parameters to pass after the gradient (-1: the result), for each wanted
        parameter which output is its gradient (-1: the incoming gradient itself, so that `add` costs nothing),
        and what tells which outputs are always 0 with the settings of one call.
        """
        tensors = [i for i, p in enumerate(self.spec.params) if p.is_tensor]
        wanted = tuple(i for k, i in enumerate(tensors) if mask >> k & 1)
        computed = tuple(i for i in wanted if not self.passes_gradient(i))
        outputs = tuple(computed.index(i) if i in computed else -1 for i in wanted)
        if not computed:
            return None, (), outputs, None
        definition = PointwiseVjp(self, computed)
        if definition.records():   # -3 - k: output k, which is always 0 and has no graph
            outputs = tuple(-3 - k if k >= 0 and definition.is_zero[k] else k for k in outputs)
        return (
            definition.overload(),
            definition.passed,
            outputs,
            definition.zeros_with if definition.has_settings else None,
        )

    def passes_gradient(self, index: int) -> bool:
        """Whether the gradient of parameter `index` is the incoming one, whatever the operands are."""
        params = self.spec.params
        if self.num_results() != 1 or any(p.type not in OPERAND_TYPES or p.type.endswith("?") for p in params):
            return False
        return self.sample_passes(index, "f64") is True and self.sample_passes(index, "c128") is not False

    def sample_passes(self, index: int, code: str) -> bool | None:
        """`passes_gradient` for operands of type `code`; None where the op takes no such numbers."""
        g = expr.arg(100, code)
        values = [expr.arg(i, code) for i in range(len(self.spec.params))]
        try:
            return self.gradients(scalars, [g], values, None, (index,))[0] is g
        except (TypeError, NotImplementedError, KeyError):
            return None

    def gradients(
        self, s: Scalars, g: list[Any], values: list[Any], result: list[Any] | None, wanted: tuple[int, ...]
    ) -> list[Any]:
        """Expressions of the gradients. `result` holds leaves standing for saved outputs, or None to recompute."""
        for name in {self.spec.params[i].name for i in wanted} & {*self.no_derivative}:
            raise NotImplementedError(f"the derivative for '{self.name}: {name}' is not implemented. Detach it.")
        if type(self).vjp is not None:
            return self.explicit_gradients(s, g, values, result, wanted)
        forward = self.outputs(values)
        answer = derive.gradient(forward, [values[i] for i in wanted], g)
        if result is not None:
            answer = [expr.replace(m, dict(zip(forward, result, strict=True))) for m in answer]
        return answer

    def explicit_gradients(
        self, s: Scalars, g: list[Any], values: list[Any], result: list[Any] | None, wanted: tuple[int, ...]
    ) -> list[Any]:
        available = {p.name: values[i] for i, p in enumerate(self.spec.params)}
        if "result" in self.vjp_names():
            outs = result if result is not None else self.outputs(values)
            available["result"] = outs[0] if len(outs) == 1 else outs
        rule = type(self).vjp
        assert rule is not None, f"{self.name}: asked for only where there is a rule"
        grads = rule(
            self, s, g[0] if len(g) == 1 else g, **{n: available[n] for n in self.vjp_names() if n in available}
        )
        zero = s.const(0, g[0].dtype)
        return [grads.get(self.spec.params[i].name, zero) for i in wanted]

    def vjp_names(self) -> list[str]:
        return list(parameters_of(type(self).vjp)[3:])


def through_bits(value: Any, operand: Any) -> Any:
    """From an element of `operand` as its memory holds it to the one that is shown, or back."""
    bits = operand._keys & BITS if isinstance(operand, _C.Tensor) else 0
    if not bits:
        return value
    wide = scalars.cast(value, compute_code(value.dtype))
    if bits & CONJUGATE:
        wide = scalars.conj(wide)
    return scalars.cast(-wide if bits & NEGATIVE else wide, value.dtype)


class PointwiseVjp(Pointwise):
    """The gradient of a pointwise op, as a pointwise op over (gradient, what the rule reads)."""

    def __init__(self, forward: Pointwise, wanted: tuple[int, ...]) -> None:
        self.forward, self.wanted = forward, wanted
        self.compiled_in = forward.compiled_in
        self.is_mixed = forward.result in ("real", "complex") or getattr(forward, "is_mixed", False)
        self.num_grads = forward.num_results()
        self.passed = self.needed_parameters()
        params = [Param(f"grad{k}", "Tensor", False) for k in range(self.num_grads)]
        for i in self.passed:
            source = forward.spec.params[i] if i >= 0 else Param("result", "Tensor", False)
            kind = source.type if source.type in OPERAND_TYPES else "any"
            params.append(
                Param(source.name if i >= 0 else "result", "Tensor|Scalar?" if kind == "Tensor|Scalar" else kind, False)
            )
        text = f"{forward.name}_vjp({', '.join(p.type + ' ' + p.name for p in params)}) -> Tensor"
        super().__init__(Schema(text, forward.name + "_vjp", "", tuple(params), ("Tensor",) * len(wanted)))

    inplace = False
    out = False

    def records(self) -> bool:
        """A gradient that is 0 whatever comes in (that of `floor`) has no graph, as in PyTorch."""
        return not all(self.is_zero)

    @cached_property
    def is_zero(self) -> tuple[bool, ...]:
        """For each wanted gradient, whether it is 0 whatever comes in: real or complex, with any setting."""
        settings = {p.type for p in self.forward.spec.params if p.type not in OPERAND_TYPES}
        if self.is_mixed or not settings <= SAMPLES.keys():
            return (False,) * len(self.wanted)
        codes = ("f64",) if "complex" in self.forward.refuse else ("f64", "c128")
        result = [self.sample_zeros(code, k) for code in codes for k in range(3 if settings else 1)]
        return tuple(all(found) for found in zip(*result, strict=True))

    @property
    def has_settings(self) -> bool:
        """Whether a gradient may be 0 for what one call sets: a mode, an exponent that is compiled in."""
        return bool(self.compiled_in) or any(p.type not in OPERAND_TYPES for p in self.forward.spec.params)

    def zeros_with(self, *args: Any) -> int:
        """Which gradients (as bits) are 0 with the settings of this call, whatever the tensors hold."""
        values, _ = self.leaves(args, self.operand_indices(args), compute_code(args[0].dtype.code))
        return sum(is_constant_zero(v) << k for k, v in enumerate(self.outputs(values)))

    def sample_zeros(self, code: str, k: int) -> tuple[bool, ...]:
        """Which gradients are the constant 0 for operands of type `code` and the k-th samples of the settings."""
        values = [
            SAMPLES[p.type][k] if p.type in SAMPLES else expr.arg(i, code)
            for i, p in enumerate(self.forward.spec.params)
        ]
        leaves = [expr.arg(100 + i, code) for i in range(self.num_grads)]
        try:
            result = self.forward.gradients(scalars, leaves, values, None, self.wanted)
        except (TypeError, NotImplementedError, KeyError):   # not an op on such numbers
            return (code == "c128",) * len(self.wanted)
        return tuple(is_constant_zero(v) for v in result)

    def needed_parameters(self) -> tuple[int, ...]:
        """Which parameters (-1: the result) the gradient reads, found by deriving once with sample types."""
        params = self.forward.spec.params
        static = [i for i, p in enumerate(params) if p.type not in OPERAND_TYPES]
        if type(self.forward).vjp is not None:
            names = self.forward.vjp_names()
            own = [i for i, p in enumerate(params) if p.name in names and i not in static]
            return (*static, *own, *([-1] if "result" in names else []))
        optional = [i for i, p in enumerate(params) if p.type.endswith("?") and p.type in OPERAND_TYPES]
        if self.forward.may_read_nothing and self.reads_nothing():
            return ()
        # the expression depends on values or types not known yet: pass everything
        if static or optional or self.is_mixed:
            return tuple(range(len(params)))
        plain, reused = self.sample_reads("f64")
        complex_plain, complex_reused = self.sample_reads("c128")
        also_complex = complex_plain is None or (complex_reused is not None and complex_reused <= (reused or set()))
        if plain is not None and reused is not None and len(reused) < len(plain) and also_complex:
            return (*sorted(reused), -1)
        return tuple(sorted((plain or set()) | (complex_plain or set())))

    def reads_nothing(self) -> bool:
        """Whether the gradient is that of a linear op: of real and of complex numbers it reads no operand."""
        plain, complex_plain = self.sample_reads("f64")[0], self.sample_reads("c128")[0]
        return plain == set() and not complex_plain

    def sample_reads(self, code: str) -> tuple[set[int] | None, set[int] | None]:
        """Parameters the derived gradient reads when operands have type `code`; and with the result at hand,
        if that helps."""
        leaves: list[Any] = [
            expr.arg(i, code) if p.type in OPERAND_TYPES else None for i, p in enumerate(self.forward.spec.params)
        ]
        g = [expr.arg(100 + k, code) for k in range(self.num_grads)]
        try:
            forward = self.forward.outputs(list(leaves))
            plain = derive.gradient(forward, [leaves[i] for i in self.wanted], g)
        except (TypeError, NotImplementedError, KeyError):   # not an op on such numbers
            return None, None
        reads = {i for i in used_args(plain) if i < 100}
        if len(forward) != 1 or not forward[0].args:
            return reads, None
        reused = used_args([expr.replace(m, {forward[0]: expr.arg(200, code)}) for m in plain])
        return reads, {i for i in reused if i < 100} if 200 in reused else None

    def common_dtype(self, args: tuple, operands: list[int]) -> Any:
        return args[0].dtype

    def refuse_dtype(self, common: Any) -> None:
        """The forward op accepted these types."""

    def result_dtype(self, common: Any, *args: Any) -> Any:
        return common

    def output_dtype(self, common: Any, args: tuple, k: int, value: Any) -> Any:
        is_complex = value.dtype in REAL_OF
        if is_complex == common.is_complex:
            return common
        return common.to_complex() if is_complex else BY_CODE[REAL_OF[common.code]]

    def operand_compute(self, i: int, compute: str, own: str) -> str:
        """The gradient's precision; but a real operand stays real, a complex one complex, and a mask its own."""
        if self.spec.params[i].name in self.forward.apart:
            return own
        precision = REAL_OF.get(compute, compute)
        if own in REAL_OF:
            return {"f32": "c64", "f64": "c128"}[precision]
        return precision if BY_CODE[own].is_floating_point else compute

    def rounds(self, i: int, is_tensor: bool) -> bool:
        """As the forward op did; gradients and results have the type already."""
        at = self.passed[i - self.num_grads] if i >= self.num_grads else -1
        return at >= 0 and self.forward.rounds(at, is_tensor)

    def fits(self, i: int, dtype: Any) -> int:
        """The forward op took these numbers."""
        return FITS_UNCHECKED

    def expr(self, s: Scalars, *operands: Any) -> Any:
        g, rest = list(operands[: self.num_grads]), operands[self.num_grads :]
        code = g[0].dtype
        values: list[Any] = [None] * len(self.forward.spec.params)
        result = None
        for i, v in zip(self.passed, rest, strict=True):
            if i >= 0:
                values[i] = v
            else:
                result = [v]
        for i, p in enumerate(self.forward.spec.params):   # unread operands still shape the expression
            if i not in self.passed and p.type in OPERAND_TYPES:
                values[i] = expr.arg(300 + i, code)
        return self.forward.gradients(s, g, values, result, self.wanted)

    def outputs(self, values: list[Any]) -> list[Any]:
        return list(self.expr(scalars, *values))

    def num_results(self) -> int:
        return len(self.wanted)

    def result_wrapper(self, count: int) -> None:
        return None


def is_constant_zero(value: Any) -> bool:
    """Whether an expression is the number 0, real or complex."""
    if not isinstance(value, expr.Value):
        return False
    return (
        value.attr == 0
        if value.op == "const"
        else value.op == "complex" and all(is_constant_zero(part) for part in value.args)
    )


def broadcast_sizes(name: str, shapes: list[Any]) -> tuple[int, ...]:
    """The sizes that tensors of these shapes are expanded to."""
    sizes = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for back in range(1, len(shape) + 1):
            n, have = shape[-back], sizes[-back]
            if n != 1 and have != 1 and n != have:
                raise RuntimeError(
                    f"{name}: The size of tensor a ({have}) must match the size of tensor b ({n}) at non-singleton"
                    f" dimension {len(sizes) - back}"
                )
            sizes[-back] = have if n == 1 else n
    return tuple(sizes)


def used_args(values: list[Any]) -> set[int]:
    """Numbers of the operand leaves an expression reads."""
    return {node.attr for node in expr.walk(values) if node.op == "arg"}


def check_devices(name: str, args: tuple) -> None:
    """All tensors on one device; 0-d cpu tensors may join any, but are not written to from there."""
    found = None
    for a in args:
        if not isinstance(a, _C.Tensor) or (a.ndim == 0 and a.device.type == "cpu"):
            continue
        if found is None:
            found = a.device
        elif a.device != found:
            raise RuntimeError(f"{name}: Expected all tensors to be on the same device, got {found} and {a.device}")
    if name.endswith("_") and found is not None and isinstance(args[0], _C.Tensor) and args[0].device != found:
        raise RuntimeError(f"{name}: Expected all tensors to be on the same device, got {args[0].device} and {found}")


_zero_checks: dict[tuple[str, str], Any] = {}   # (device type, type of the divisor) -> kernel


def zero_check(device: Any, code: str) -> Any:
    """For a plugged-in device, whose memory the host cannot look at:
    a kernel that writes 1 to its last operand at a divisor of 0."""
    if device.type in ("cpu", "meta"):
        return None
    found = _zero_checks.get((device.type, code))
    if found is None:
        nest = pointwise_nest("zero_check", [code], ["i64"], [scalars.const(1, "i64")])
        inner = nest.loop.body[0]
        assert isinstance(inner, For), "a pointwise nest has two loops"
        check = For(
            inner.var,
            inner.start,
            inner.stop,
            (Check(scalars.ne(expr.arg(0, code), scalars.const(0, code)), 1, scalars.const(1, "i64")),),
        )
        nest = Nest(
            nest.name,
            nest.operands,
            nest.params,
            For(nest.loop.var, nest.loop.start, nest.loop.stop, (check,)),
            nest.point,
        )
        found = _zero_checks[device.type, code] = compile_for(device, nest)
    return found

"""Forward derivatives of pointwise ops: the tangent of one element, from the tangents of its operands.

Enters: a pointwise definition and which operands carry tangents. Leaves: a pointwise op over (tangents, operands), with
derivatives of any order like every other. The reverse rule of an element is linear in its gradient, so it is its own
transpose for real numbers; complex ones take it for the real and the imaginary direction.
"""

from __future__ import annotations

from typing import Any

from ..loops import expr
from ..loops.vocabulary import Scalars
from ..op.pointwise import REAL_OF, Pointwise
from ..op.schema import OPERAND_TYPES, Param, Schema


class PointwiseJvp(Pointwise):
    """Tangents of a pointwise op's results."""

    inplace = False
    out = False

    def __init__(self, forward: Pointwise, wanted: tuple[int, ...]) -> None:
        self.forward, self.wanted = forward, wanted
        self.promote, self.apart, self.upcast, self.result = (
            forward.promote,
            forward.apart,
            forward.upcast,
            forward.result,
        )
        self.compiled_in = forward.compiled_in
        self.is_mixed = True
        # operands of `add` and `clone` are written to by in-place ops, and must not be kept for nothing
        self.may_read_nothing = (
            forward.result not in ("real", "complex")
            and not getattr(forward, "is_mixed", False)
            and all((p.type in OPERAND_TYPES) != p.type.endswith("?") for p in forward.spec.params)
        )
        params = [Param(f"tangent{i}", "Tensor", False) for i in wanted]
        params += [Param(p.name, p.type if p.type in OPERAND_TYPES else "any", False) for p in forward.spec.params]
        text = f"{forward.name}_jvp({', '.join(p.type + ' ' + p.name for p in params)}) -> Tensor"
        super().__init__(Schema(text, forward.name + "_jvp", "", tuple(params), ("Tensor",) * forward.num_results()))

    def own(self, args: tuple) -> tuple:
        """The forward op's arguments."""
        return args[len(self.wanted) :]

    def common_dtype(self, args: tuple, operands: list[int]) -> Any:
        own = self.own(args)
        return self.forward.common_dtype(own, self.forward.operand_indices(own))

    def promoted(self, common: Any, args: tuple) -> Any:
        return self.forward.promoted(common, self.own(args))

    def refuse_dtype(self, common: Any) -> None:
        """The forward op accepted these types."""

    def operand_compute(self, i: int, compute: str, own: str) -> str:
        k = len(self.wanted)
        return self.forward.operand_compute(self.wanted[i] if i < k else i - k, compute, own)

    def rounds(self, i: int, is_tensor: bool) -> bool:
        return i >= len(self.wanted) and self.forward.rounds(i - len(self.wanted), is_tensor)

    def fits(self, i: int, dtype: Any) -> int:
        """The forward op took these numbers."""
        return 0

    def result_dtype(self, common: Any, *args: Any) -> Any:
        return self.forward.result_dtype(common, *self.own(args))

    def output_dtype(self, common: Any, args: tuple, k: int, value: Any) -> Any:
        return self.forward.output_dtype(common, self.own(args), k, value)

    def num_results(self) -> int:
        return self.forward.num_results()

    def records(self) -> bool:
        return True

    def result_wrapper(self, count: int) -> None:
        return None

    def outputs(self, values: list[Any]) -> list[Any]:
        return list(self.expr(Scalars(), *values))

    def expr(self, s: Scalars, *operands: Any) -> list[Any]:
        tangents, values = operands[: len(self.wanted)], list(operands[len(self.wanted) :])
        forward = self.forward.outputs(values)
        return [self.pushed(s, k, forward, values, tangents) for k in range(len(forward))]

    def pushed(self, s: Scalars, k: int, forward: list[Any], values: list[Any], tangents: tuple) -> Any:
        """The tangent of output `k`."""
        code = forward[k].dtype
        total = None
        for i, t in zip(self.wanted, tangents, strict=True):
            part = self.part(s, k, forward, values, i, t)
            total = part if total is None else total + part
        assert total is not None, "some operand has a tangent"
        return s.cast(total, code)

    def part(self, s: Scalars, k: int, forward: list[Any], values: list[Any], i: int, t: Any) -> Any:
        """What the tangent of operand `i` contributes to output `k`."""
        code = forward[k].dtype

        def reverse(seed: Any) -> Any:
            seeds = [seed if j == k else s.const(0, v.dtype) for j, v in enumerate(forward)]
            return self.forward.gradients(s, seeds, values, None, (i,))[0]

        is_complex = t.dtype in REAL_OF
        if code not in REAL_OF and not is_complex:
            return reverse(s.cast(t, code))
        u = reverse(s.const(1, code))
        along = real_product(u, t)
        if code not in REAL_OF:
            return along
        v = reverse(s.const(1j, code))
        return expr.complex_(along, real_product(v, t))


def real_product(u: Any, t: Any) -> Any:
    """Re(conj(u) t), for real and complex u and t."""
    u_complex, t_complex = u.dtype in REAL_OF, t.dtype in REAL_OF
    if not u_complex and not t_complex:
        return u * t
    result = (expr.real(u) if u_complex else u) * (expr.real(t) if t_complex else t)
    return result + expr.imag(u) * expr.imag(t) if u_complex and t_complex else result


def jvp_form(overload: Any, wanted: tuple[int, ...]) -> Any:
    """The overload that computes tangents for these parameters, kept with the definition."""
    kept = overload.definition.__dict__.setdefault("jvp_forms", {})
    found = kept.get(wanted)
    if found is None:
        found = kept[wanted] = PointwiseJvp(overload.definition, wanted).overload()
    return found

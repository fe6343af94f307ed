"""`torch.onnx.verification`: how far a model's results are from those of the program it was made of.

Enters: an `ONNXProgram` and arguments. Leaves: a `VerificationInfo` for each result, and for values between nodes where
that is asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import no_grad
from ..export.graph_signature import InputKind
from ..export.values import flat_arguments
from ..fx.interpreter import Interpreter
from ..op import ops
from ..tensors.interop import tensor
from ..utils import _pytree as pytree

__all__ = ["VerificationInfo", "verify_onnx_program"]

EDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6)      # of the histograms


@dataclasses.dataclass
class VerificationInfo:
    """How far one value is from what it should be: the largest differences, and how many elements lie how far."""

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[Any, Any]
    rel_diff_hist: tuple[Any, Any]
    expected_dtype: Any
    actual_dtype: Any

    @classmethod
    def from_tensors(cls, name: str, expected: Any, actual: Any) -> VerificationInfo:
        """Two values, element by element. Where both are the same infinity, or no number, they do not differ."""
        wanted, found = (t if isinstance(t, Tensor) else tensor(t) for t in (expected, actual))
        a, b = (_real(t).to(_double()) for t in (wanted, found))
        same = (a == b) | (a.isnan() & b.isnan())
        apart = (a - b).abs().masked_fill(same, 0.0)
        relative = (apart / a.abs()).masked_fill(same, 0.0)
        return cls(name, _largest(apart), _largest(relative), _histogram(apart), _histogram(relative), wanted.dtype,
                   found.dtype)

    def asdict(self) -> dict[str, Any]:
        """As lists and numbers, which JSON can write."""
        return {
            "name": self.name, "max_abs_diff": self.max_abs_diff, "max_rel_diff": self.max_rel_diff,
            "abs_diff_hist": [t.tolist() for t in self.abs_diff_hist],
            "rel_diff_hist": [t.tolist() for t in self.rel_diff_hist], "expected_dtype": str(self.expected_dtype),
            "actual_dtype": str(self.actual_dtype),
        }


def _double() -> Any:
    from .. import _C  # noqa: PLC0415 - the core's types

    return _C.float64


def _real(t: Any) -> Any:
    t = t.detach()
    return ops["view_as_real"](t.resolve_conj()) if t.dtype.is_complex else t


def _largest(t: Any) -> float:
    return float(t.max()) if t.numel() else 0.0


def _histogram(t: Any) -> tuple[Any, Any]:
    edges = tensor(list(EDGES), dtype=t.dtype)
    place = ops["searchsorted"](edges, t.reshape(-1).contiguous(), right=True) - 1
    inside = (t.reshape(-1) <= EDGES[-1]) & (place >= 0)
    counts = ops["bincount"](place[inside].clamp(max=len(EDGES) - 2), minlength=len(EDGES) - 1)
    return counts.to(t.dtype), edges


def verify_onnx_program(onnx_program: Any, args: tuple | None = None, kwargs: Mapping[str, Any] | None = None,
                        compare_intermediates: bool = False) -> list[VerificationInfo]:
    """What ONNX Runtime computes against the exported program, for the arguments it was exported with or others."""
    program = onnx_program.exported_program
    if args is None and kwargs is None:
        if program.example_inputs is None:
            raise ValueError("verify_onnx_program: the program has no example arguments; give args")
        args, kwargs = program.example_inputs
    args, kwargs = tuple(args or ()), dict(kwargs or {})
    with no_grad():
        expected = [x for x in pytree.tree_leaves(program.module()(*args, **kwargs)) if isinstance(x, Tensor)]
        between = _values(program, args, kwargs) if compare_intermediates else {}
    actual = onnx_program(*args, **kwargs)
    names = [v.name for v in onnx_program.model.graph.outputs]
    found = [VerificationInfo.from_tensors(n, e, a) for n, e, a in zip(names, expected, actual, strict=True)]
    made = {name for node in onnx_program.model.graph.nodes for name in node.outputs}
    known = {node: value for node, value in onnx_program.values.items() if value in made and node in between}
    if not known:
        return found
    computed = onnx_program.compute_values(list(known.values()), args, kwargs)
    return [*[VerificationInfo.from_tensors(n, between[n], c) for n, c in zip(known, computed, strict=True)], *found]


def _values(program: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Tensor]:
    """What each node of a program gives, by its name."""
    seen: dict[str, Tensor] = {}

    class Watching(Interpreter):
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if isinstance(result, Tensor) and n.op == "call_function":
                seen[n.name] = result
            return result

    leaves = iter(flat_arguments(program.call_spec.in_spec, args, kwargs))
    specs = program.graph_signature.input_specs
    given = [next(leaves) if s.kind is InputKind.USER_INPUT else program.tensor_of(s) for s in specs]
    Watching(program.graph_module).run(*given)
    return seen

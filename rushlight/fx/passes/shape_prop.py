"""Shapes through a graph: run it once, on real or fake tensors, and note what every node makes.

Enters: a GraphModule and example arguments. Leaves: `meta["tensor_meta"]` (shape, dtype, strides, ...) and
`meta["type"]` on every node, and the result. Refuses: examples the graph cannot run, naming the node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._C import Tensor
from ...base.shape import channels_last, channels_last_3d, contiguous_format
from ...symbols.geometry import is_surely_contiguous
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate
from .fake_tensor_prop import fake_copy

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor besides its elements."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """The metadata of a tensor."""
    is_strided = str(result.layout).endswith("strided")
    if getattr(result, "symbolic", None) is not None:     # to ask would leave guards
        known = (
            contiguous_format if include_contiguity and is_surely_contiguous(result.shape, result.stride()) else None
        )
        return TensorMetadata(
            result.shape, result.dtype, result.requires_grad, tuple(result.stride()), known, False, {}
        )
    formats = (contiguous_format, channels_last, channels_last_3d) if include_contiguity and is_strided else ()
    ranks = {channels_last: 4, channels_last_3d: 5}
    fitting = (f for f in formats if result.ndim == ranks.get(f, result.ndim) and result.is_contiguous(memory_format=f))
    return TensorMetadata(
        result.shape,
        result.dtype,
        result.requires_grad,
        tuple(result.stride()) if is_strided else (),
        next(fitting, None),
        False,
        {},
    )


class ShapeProp(Interpreter):
    """Runs the graph and notes shapes. With a `fake_mode`, nothing is computed."""

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.real_module = gm
        self.fake_module = None if fake_mode is None else fake_copy(gm, fake_mode)

    def run_node(self, n: Node) -> Any:
        if self.fake_module is not None:
            self.module = self.fake_module
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as failure:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from failure
        finally:
            self.module = self.real_module
        tensors: list[Tensor] = []

        def note(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            tensors.append(x)
            return _extract_tensor_metadata(x)

        meta = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run on these arguments."""
        if self.fake_mode is not None:
            args = tuple(self.fake_mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args)
        return super().run(*args)

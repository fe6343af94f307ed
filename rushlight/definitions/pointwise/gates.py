"""Gates: one half of a tensor decides how much of the other passes."""

from __future__ import annotations

from ...op import Composite, Pointwise, find_op, wrap_dim


class GateElement(Pointwise):
    """value * sigmoid(gate), in one pass."""

    schema = "_gate(Tensor input, Tensor gate) -> Tensor"
    function = method = inplace = out = False
    refuse = ("bool", "integer", "complex")

    def expr(self, s, value, gate):
        return value * s.sigmoid(gate)


class Glu(Composite):
    """The first half along `dim` times the sigmoid of the second."""

    schema = "glu(Tensor input, int dim=-1) -> Tensor"
    namespace = "nn.functional"
    method = False

    def compute(self, input, dim):
        if input.ndim == 0:
            raise RuntimeError("glu does not support 0-dimensional tensors")
        dim = wrap_dim("glu", dim, input.ndim)
        size = input.shape[dim]
        if size % 2:
            raise RuntimeError(f"glu: expected an even size in dimension {dim}, which is halved, got {size}")
        return find_op("_gate")(input.narrow(dim, 0, size // 2), input.narrow(dim, size // 2, size // 2))

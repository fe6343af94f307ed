"""Quantized recurrent networks: packed parameters of cells, and single steps of `ops.quantized`.

Enters: packed linear weights (linear.py), floats and states. Leaves: objects that `quantized_lstm` and `quantized_gru`
take, and states. Refuses: weights that were packed otherwise. Steps quantize to a reduced range, as PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..definitions.quantized.recurrent import gru_step, lstm_step, relu_step, tanh_step
from .linear import PACKED, LinearPackedParamsBase, dynamic_linear, half_linear
from .namespace import define
from .packed import ScriptObject

CELL = "__torch__.torch.classes.rnn.CellParamsBase"


class CellParamsBase(ScriptObject):
    """The weights of a cell: of the input and of the state, each with its bias."""

    qualified = CELL

    def __init__(self, kind: str, biases: list[Any], reduced: list[int], weights: list[LinearPackedParamsBase]) -> None:
        self.kind, self.biases, self.reduced, self.weights = kind, biases, reduced, weights

    def linear_ih(self, x: Any) -> Any:
        """What the input's weights give."""
        return self._linear(x, self.weights[0])

    def linear_hh(self, x: Any) -> Any:
        """What the state's weights give."""
        return self._linear(x, self.weights[1])

    def _linear(self, x: Any, weights: LinearPackedParamsBase) -> Any:
        if self.kind == "quantized_fp16":
            return half_linear("linear_dynamic_fp16", x, weights, False)
        return dynamic_linear("linear_dynamic", x, weights, False, bool(self.reduced[0]))

    def state(self) -> tuple:
        return self.kind, self.biases, [], self.reduced, self.weights

    @classmethod
    def from_state(cls, state: Any) -> CellParamsBase:
        kind, biases, _, reduced, weights = state
        if kind not in ("quantized_dynamic", "quantized_fp16"):
            raise RuntimeError(f"{cls.qualified}: expected weights of quantized_dynamic or quantized_fp16, got {kind}")
        return cls(kind, list(biases), list(reduced), list(weights))


@define(
    f"quantized::make_quantized_cell_params_dynamic({PACKED} w_ih, {PACKED} w_hh, Tensor bias_ih, Tensor bias_hh, bool"
    f" reduce_range=False) -> {CELL}"
)
def make_quantized_cell_params_dynamic(
    w_ih: Any, w_hh: Any, bias_ih: Any, bias_hh: Any, reduce_range: bool = False
) -> CellParamsBase:
    return CellParamsBase("quantized_dynamic", [bias_ih, bias_hh], [int(reduce_range)], [w_ih, w_hh])


@define(f"quantized::make_quantized_cell_params_fp16({PACKED} w_ih, {PACKED} w_hh) -> {CELL}")
def make_quantized_cell_params_fp16(w_ih: Any, w_hh: Any) -> CellParamsBase:
    return CellParamsBase("quantized_fp16", [], [], [w_ih, w_hh])


def _define_cell(name: str, step: Callable, states: str, results: str) -> None:
    """A step of a cell, by the name of its op."""

    def cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        given = tuple(hx) if isinstance(hx, (list, tuple)) else (hx,)
        inside = dynamic_linear(name, input, w_ih, False, True)
        result = step(inside, dynamic_linear(name, given[0], w_hh, False, True), given)
        return result if len(result) > 1 else result[0]

    biases = "bias_ih", "bias_hh"
    if states == "Tensor":
        biases = "b_ih", "b_hh"
    define(
        f"quantized::{name}(Tensor input, {states} hx, {PACKED} w_ih, {PACKED} w_hh, Tensor {biases[0]}, Tensor"
        f" {biases[1]}) -> {results}"
    )(cell)


_define_cell("quantized_lstm_cell_dynamic", lstm_step, "Tensor[]", "(Tensor, Tensor)")
_define_cell("quantized_gru_cell_dynamic", gru_step, "Tensor", "Tensor")
_define_cell("quantized_rnn_tanh_cell_dynamic", tanh_step, "Tensor", "Tensor")
_define_cell("quantized_rnn_relu_cell_dynamic", relu_step, "Tensor", "Tensor")

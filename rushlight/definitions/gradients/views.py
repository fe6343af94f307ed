"""Gradients of views: zeros of the input's sizes, with the gradient where the view looked.

Enters: the gradient of the view, the sizes of what was looked at, and the view's numbers. Leaves: a new tensor.
"""

from __future__ import annotations

from rushlight.op import Composite, find_op


class SliceBackward(Composite):
    """Gradient of slice."""

    schema = (
        "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) ->"
        " Tensor"
    )
    function = method = False

    def compute(self, grad_output, input_sizes, dim, start, end, step):
        return find_op("slice_scatter")(grad_output.new_zeros(input_sizes), grad_output, dim, start, end, step)


class SelectBackward(Composite):
    """Gradient of select."""

    schema = "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor"
    function = method = False

    def compute(self, grad_output, input_sizes, dim, index):
        return find_op("select_scatter")(grad_output.new_zeros(input_sizes), grad_output, dim, index)


class DiagonalBackward(Composite):
    """Gradient of diagonal."""

    schema = (
        "diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor"
    )
    function = method = False

    def compute(self, grad_output, input_sizes, offset, dim1, dim2):
        return find_op("diagonal_scatter")(grad_output.new_zeros(input_sizes), grad_output, offset, dim1, dim2)

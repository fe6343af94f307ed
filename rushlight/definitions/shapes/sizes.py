"""Sizes and elements as ops: how a graph says `x.size(0)` and `x.item()`.

Enters: a tensor. Leaves: a number, symbolic where the tensor's sizes are. Programs use `x.size(0)`;
tracers record these.
"""

from __future__ import annotations

from typing import Any

from ...op import OpDefinition


class _Number(OpDefinition):
    function = method = False
    out = False
    differentiable = False
    gives_number = True      # fake tensors answer themselves: their sizes may be symbols


class SymSize(_Number):
    """The size of one dim."""

    schema = "sym_size.int(Tensor input, int dim) -> SymInt"

    def run(self, input: Any, dim: Any) -> Any:
        return input.shape[dim]


class SymStride(_Number):
    """The stride of one dim."""

    schema = "sym_stride.int(Tensor input, int dim) -> SymInt"

    def run(self, input: Any, dim: Any) -> Any:
        return input.stride()[dim]


class SymNumel(_Number):
    """How many elements there are."""

    schema = "sym_numel(Tensor input) -> SymInt"

    def run(self, input: Any) -> Any:
        return input.numel()


class SymStorageOffset(_Number):
    """Where the first element is in the storage."""

    schema = "sym_storage_offset(Tensor input) -> SymInt"

    def run(self, input: Any) -> Any:
        return input.storage_offset()


class LocalScalarDense(_Number):
    """The only element, as a number."""

    schema = "_local_scalar_dense(Tensor input) -> Scalar"

    def run(self, input: Any) -> Any:
        return input.item()

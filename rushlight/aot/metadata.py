"""What a traced function does to its inputs and what its outputs are: frozen records,
written by capture and read by the wrappers.

Enters: nothing. Leaves: `GraphMeta` and its parts. Analysis writes them once; wrappers look nothing up anywhere else.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..loops.record import Record


class OutputKind(Enum):
    """Where an output of the function comes from."""

    NEW = "new"                    # a tensor of its own: the graph returns it
    INPUT = "input"                # one of the inputs, as an object
    VIEW_OF_INPUT = "view"         # looks at the memory of an input
    # looks at memory that other outputs look at too: the graph returns all of that memory, once
    VIEW_OF_BASE = "view of base"
    SAME = "same"                  # the same object as an earlier output
    CONSTANT = "constant"          # no tensor


class InputInfo(Record):
    """One tensor given to the graph."""

    requires_grad: bool
    is_leaf: bool
    mutates_data: bool = False
    # (sizes, strides, what to add to the offset) where the function changed them in place (`t_`, `unsqueeze_`)
    layout_after: tuple | None = None


class OutputInfo(Record):
    """One leaf of the function's result."""

    kind: OutputKind
    requires_grad: bool = False
    # INPUT, VIEW_OF_INPUT: the input; VIEW_OF_BASE: the base; SAME: the output; NEW: the place in the graph's results
    source: int = 0
    # sizes, strides, offset of a view, counted from where its source begins; None where the graph returns them
    layout: tuple | None = None
    shown_at: int = -1             # for a view without a layout: where the graph returns it
    value: Any = None              # CONSTANT
    flips: int = 0                 # of a view: bits (base/bits.py) that it has where its source has not, and back


class GraphMeta(Record):
    """What the wrappers need to know of a graph.

    The graph takes `inputs` (and, if joint, one tangent per entry of `tangents`), and returns new values of mutated
    inputs, results, bases of outputs that share memory, views shown for their layout,
    and (joint) gradients of `inputs` that require them.
    """

    inputs: tuple[InputInfo, ...]
    outputs: tuple[OutputInfo, ...]
    mutated: tuple[int, ...]             # which inputs the first results are new values of
    num_results: int                     # how many values the forward returns, mutated inputs included
    differentiable: tuple[bool, ...]     # which of these get a tangent
    is_joint: bool = False
    num_lifted: int = 0                  # how many inputs, the last ones, are tensors found while tracing
    draws: bool = False                  # whether the graph draws random numbers

    @property
    def tangents(self) -> tuple[int, ...]:
        """Which results have a tangent among the joint graph's inputs."""
        return tuple(i for i, wants in enumerate(self.differentiable) if wants)

    @property
    def gradients(self) -> tuple[int, ...]:
        """Which inputs the joint graph returns gradients of."""
        return tuple(i for i, info in enumerate(self.inputs) if info.requires_grad) if self.is_joint else ()

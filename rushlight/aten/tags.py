"""Tags: what can be said of an overload, as PyTorch says it.

Enters: an overload's definition and its signature. Leaves: `Tag`s, which follow from the op's kind and from what the
signature writes; of the few that follow from neither, the names. Refuses nothing.
"""

from __future__ import annotations

import enum
import functools
from typing import Any


class Tag(enum.IntEnum):
    """What can be said of an op; PyTorch's numbers."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19

    def __repr__(self) -> str:
        return f"<Tag.{self.name}: {self.value}>"

    def __str__(self) -> str:      # an int would print as a number
        return f"Tag.{self.name}"


# What elements decide: a number, or how many elements there are.
NUMBERS = frozenset("item _local_scalar_dense".split())
SIZES = frozenset("nonzero masked_select bincount one_hot _unique _unique2 unique_dim unique_consecutive".split())
SIZES_OF = frozenset(("index.Tensor", "repeat_interleave.Tensor"))
# Ops that change what their first argument is, not what it holds.
RESHAPED = frozenset("as_strided_ resize_as_ set_ t_ transpose_ unsqueeze_".split())
DRAWN = frozenset((
    "_fused_dropout _standard_gamma alpha_dropout bernoulli bernoulli_ cauchy cauchy_ dropout exponential exponential_"
    " geometric geometric_ gru log_normal log_normal_ lstm multinomial native_dropout normal normal_ poisson rand"
    " rand_like randint randint_like randn randn_like randperm rnn_relu rnn_tanh rrelu_with_noise rrelu_with_noise_"
    " uniform uniform_").split())


@functools.cache
def tags_of(definition: Any, op: str, label: str, mutates: bool, has_out: bool) -> tuple[Tag, ...]:
    """The tags of an overload `op.label`, in PyTorch's order."""
    found = {Tag.pt2_compliant_tag}
    if definition.tag:
        found.add(Tag[definition.tag])
    if has_out:
        found.add(Tag.out)
    elif mutates and op.endswith("_"):
        found.add(Tag.inplace)
    if op.endswith("_copy"):
        found.add(Tag.view_copy)
    for tag, names in ((Tag.data_dependent_output, NUMBERS), (Tag.dynamic_output_shape, SIZES),
                       (Tag.inplace_view, RESHAPED), (Tag.nondeterministic_seeded, DRAWN)):
        if op in names:
            found.add(tag)
    if f"{op}.{label}" in SIZES_OF:
        found.add(Tag.dynamic_output_shape)
    return tuple(sorted(found))

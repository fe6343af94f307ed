"""Ops outside kinds and planners have no plan of their own: they state what they compute,
and the scheduler makes the loops.

The sets below are what is left. They may only shrink: an op that is converted leaves its set, and none enters.
"""

from __future__ import annotations

import ast
from pathlib import Path

import rushlight
from rushlight.op import Loops, definitions

DEFINITIONS = Path(rushlight.__file__).parent / "definitions"

# Planners and library kernels: products, convolutions, attention, sorting, Fourier transforms,
# recurrences and factorisations.
PLANNERS = frozenset({
    "attention_flash.py", "conv.py", "fft.py", "fft_rows.py", "linalg/eigen.py", "linalg/factor.py",
    "matmul.py", "matmul_add.py", "random.py", "recurrence_rows.py", "sorting.py",
})  # fmt: skip
# memory as it is: nothing to compute
NO_LOOPS = frozenset({"creation.py:Empty", "creation.py:EmptyPermuted", "creation.py:EmptyStrided"})
BY_HAND = frozenset({
    "ctc.py:CtcScores", "ctc.py:scores_nest",
    "distance.py:PairDistances", "distance.py:_Distances",
    "indexed/masks.py:count_nest", "indexed/masks.py:ends_nest", "indexed/masks.py:fill_nest",
    "resample/grid.py:GridOp", "resample/grid.py:GridSampler", "resample/grid.py:GridSamplerGrid",
    "resample/grid.py:GridSamplerImage", "segment_norm.py:SegmentNorm", "segment_norm.py:SegmentNormBackward",
    "segment_norm.py:backward_nest", "segment_norm.py:forward_nest",
    "sparse/products.py:CsrProduct", "sparse/products.py:product_nest",
    "window/maxima.py:WindowMaxBackward", "window/maxima.py:scatter_nest",
})  # fmt: skip


def written_by_hand() -> set[str]:
    """`file:name` of every plan that packs steps itself, and of every function that makes a nest, outside planners."""
    found = set()
    for path in sorted(DEFINITIONS.rglob("*.py")):
        name = path.relative_to(DEFINITIONS).as_posix()
        if name in PLANNERS:
            continue
        for item in ast.parse(path.read_text()).body:
            calls = {
                part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
                for part in ast.walk(item)
                if isinstance(part, ast.Call)
            }
            if "Nest" in calls or ("Plan" in calls and isinstance(item, ast.ClassDef)):
                found.add(f"{name}:{item.name}")
    return found


def test_plans_are_made_by_the_scheduler():
    found = written_by_hand() - NO_LOOPS
    assert (
        not found - BY_HAND
    ), f"state these ops with `lower` instead (see docs/adding_an_op.md): {sorted(found - BY_HAND)}"
    assert not BY_HAND - found, f"converted already, so take them out of the set: {sorted(BY_HAND - found)}"


def test_every_op_that_states_its_loops_has_no_other_plan():
    stated = [d for classes in definitions.values() for d in classes if issubclass(d, Loops)]
    assert {"Cat", "ConstantPad", "Unfold", "WindowMax", "WindowSum"} <= {d.__name__ for d in stated}
    for d in stated:
        assert d.lower is not Loops.lower and d.plan is Loops.plan, d

"""Plans are made by kinds (rushlight/op) and planners (rushlight/planners): a definition states what it computes, and
the scheduler makes the loops; or it is a library op, and says so.

Hand-written plans: none. The set below names the library ops whose kernels are written beside them; it may only
shrink: an op that is stated with `lower` leaves it, and none enters.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import rushlight
from rushlight.op import Library, Loops, OpDefinition, definitions, load_all

DEFINITIONS = Path(rushlight.__file__).parent / "definitions"
MADE_IN = ("rushlight.op.", "rushlight.planners.")
# what plans and kernels are made with: the business of kinds, planners and schedulers
MAKERS = frozenset({"Plan", "PointwisePlan", "compile_for", "as_step", "kernel_handle"})
# `file:name` of functions and classes that write loops, for the launches of library ops in the same file
LOOPS_OF_LIBRARY_OPS = frozenset({
    "linalg/eigen.py:pairs_nest", "linalg/factor.py:det_nest", "linalg/factor.py:exchange_nest",
    "linalg/factor.py:slogdet_nest",                         # what goes between calls of LAPACK
    "pointwise/incomplete_gamma.py:incomplete_gamma_nest",    # loops as long as elements of a vector need
    "resample/grid.py:GridSampler", "resample/grid.py:GridSamplerGrid", "resample/grid.py:GridSamplerImage",
    "resample/grid.py:sampling_nest", "resample/grid.py:scattering_nest",   # the same, a sample at a time
})


def called_names(item: ast.AST) -> set[str]:
    """Names of everything that is called below `item`."""
    calls = [part.func for part in ast.walk(item) if isinstance(part, ast.Call)]
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}


def hand_written(folder: Path) -> list[str]:
    """`file:name` of every method called `plan` below `folder`, and of whatever makes plans or kernels there."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for item in ast.parse(path.read_text()).body:
            methods = {part.name for part in ast.walk(item) if isinstance(part, ast.FunctionDef)}
            if "plan" in methods or MAKERS & called_names(item):
                found.append(f"{path.relative_to(folder).as_posix()}:{getattr(item, 'name', item.lineno)}")
    return found


def test_no_definition_makes_a_plan():
    found = hand_written(DEFINITIONS)
    assert not found, (
        f"{len(found)} hand-written plans: {found}. State these ops with `lower` (docs/adding_an_op.md), or derive "
        "them from Library; where only some calls are planned, define `is_planned`."
    )


def test_the_count_sees_a_plan_that_comes_back(tmp_path):
    (tmp_path / "own.py").write_text("class Own:\n    def plan(self, args):\n        return _C.Plan(1)\n")
    (tmp_path / "kernel.py").write_text("def made(device, nest):\n    return as_step(compile_for(device, nest))\n")
    (tmp_path / "plain.py").write_text("class Plain:\n    def lower(self, args):\n        return Lowered()\n")
    assert hand_written(tmp_path) == ["kernel.py:made", "own.py:Own"]


def test_loops_are_written_for_library_ops_only():
    found = set()
    for path in DEFINITIONS.rglob("*.py"):
        body = ast.parse(path.read_text()).body
        found |= {f"{path.relative_to(DEFINITIONS).as_posix()}:{i.name}" for i in body if "Nest" in called_names(i)}
    assert not found - LOOPS_OF_LIBRARY_OPS, f"state with `lower` instead: {sorted(found - LOOPS_OF_LIBRARY_OPS)}"
    gone = LOOPS_OF_LIBRARY_OPS - found
    assert not gone, f"stated with `lower` already, so take them out of the set: {sorted(gone)}"


def test_plans_of_all_definitions_are_their_kinds():
    load_all()
    classes = [d for found in definitions.values() for d in found]
    stated = {d.__name__ for d in classes if issubclass(d, Loops)}
    assert {"Cat", "ConstantPad", "WindowMax", "WindowMaxBackward"} <= stated
    assert {"Sort", "Matmul", "Convolution", "CtcScores"} <= {d.__name__ for d in classes if issubclass(d, Library)}
    for d in classes:
        assert d.plan is OpDefinition.plan or d.plan.__module__.startswith(MADE_IN), d
        if issubclass(d, Loops):
            assert d.lower is not Loops.lower, d


def test_definitions_leave_kernels_and_devices_to_planners():
    """What a processor or a device has, and which kernel suits sizes, is known to `planners` and `op`."""
    asked = re.compile(r"^\s*from \.+(codegen|devices)\b", re.M)
    found = [p.relative_to(DEFINITIONS).as_posix() for p in DEFINITIONS.rglob("*.py") if asked.search(p.read_text())]
    assert not found, f"ask a planner (rushlight/planners) or op instead: {sorted(found)}"

"""PyTorch's names and spellings of the program's calls, for recordings (csrc/profile.h).

Enters: an overload or a function, the op object it was called through, and what a recording kept of the arguments.
Leaves: the name that PyTorch's profiler shows (`aten::add`), asked once per spelling, and the fields `Input Dims`,
`Input type`, `Input Strides` and `Concrete Inputs`, made once per set of arguments when a recording ends. A call that
PyTorch has no op for keeps an honest name of ours (`rushlight::softmin`).
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from .. import _C
from ..aten.calls import _NUMBERS_AS_TENSORS
from ..aten.namespaces import pytorch_overloads
from ..aten.overloads import AtenSchema, aten_name, has_schema, schemas_of
from ..base import late
from ..base.tables import rows
from ..codegen.stored.cache import digest_of, name_of
from .arguments import arguments_of
from .spelling import Inputs, spelled

VARIES, HIDDEN = None, ""
_BRACES = re.compile(r"\{(.*?)\}")
# Functions of Python here that are functions of Python in PyTorch too, of the same name as an op.
_FUNCTIONS = frozenset(("allclose", "equal", "broadcast_tensors", "resize_", "resize_as_", "result_type", "can_cast"))
_PYTHON_THERE = frozenset(("norm", "stft", "lu", "split", "unique", "tensor", "as_tensor", "type", "new_tensor"))


@functools.cache
def _renamed() -> dict[str, list[tuple[Any, str]]]:
    """Rows of calls.txt by our spelling: (condition or None, PyTorch's name)."""
    found: dict[str, list[tuple[Any, str]]] = {}
    for row in rows(__file__, "calls"):
        head, _, name = row.rpartition(": ")
        ours, _, condition = head.partition(" if ")
        test = compile(condition, f"<call of {ours}>", "eval") if condition else None
        for one in ours.split():
            found.setdefault(one, []).append((test, name.strip()))
    return found


@functools.cache
def _is_known(name: str) -> bool:
    """Whether PyTorch has an op of the name."""
    return has_schema(name) or name in pytorch_overloads() or name.startswith("_foreach_") or name in _OPERATORS


_OPERATORS = frozenset(
    f"__{form}{name}__" for form in ("", "i") for name in ("and", "or", "xor", "lshift", "rshift")
) | frozenset(("sparse_mask", "to_sparse", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc",
               "sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor",
               "sparse_compressed_tensor", "_sparse_addmm", "_sparse_mm_reduce_impl", "numpy_T", "matrix_H", "mT", "mH",
               "resize_as_", "set_", "is_pinned", "_amp_foreach_non_finite_check_and_unscale_"))


def prepare() -> None:
    """Read the tables that names come from, before a recording in which that would be seen."""
    _renamed()
    _is_known("add")
    for names_nodes in ("..aten.graph.nodes", "..aten.graph.rules"):
        late.import_module(names_nodes, __package__)


def call_name(callee: Any, op: Any, has_out: bool, args: tuple[Any, ...] | None) -> str | None:
    """What PyTorch's profiler shows for a call of `callee`, an overload (through `op`, None: directly) or a function.

    None: the arguments decide, and were not given. An empty name: it shows no such call."""
    if not isinstance(callee, _C.Overload):
        name = callee.__name__
        known = _is_known(name) or (name.endswith("_") and _is_known(name.removesuffix("_"))) or name in _FUNCTIONS
        return f"aten::{name}" if known and name not in _PYTHON_THERE else HIDDEN
    if "::" in callee.name:
        return callee.name                     # the program's own: custom ops
    spelling = callee.name if op is None else op.__name__
    if spelling.startswith("_functional_"):
        spelling = spelling.removeprefix("_functional_")
    found = _renamed().get(spelling) or (_renamed().get(callee.name, []) if not _is_known(spelling) else [])
    in_place = "inplace" in callee.param_names
    if args is None and (in_place or any(test is not None or "{" in name for test, name in found)):
        return VARIES
    names = dict(zip(callee.param_names, args, strict=True)) if args is not None else {}
    theirs = _fitting(found, names)
    if theirs is not None:
        return HIDDEN if theirs == "-" else _ours(callee) if theirs.startswith("-") else f"aten::{theirs}"
    for name in (spelling, callee.name, callee.name.removesuffix("_")):
        if _is_known(name):
            return f"aten::{name}_" if names.get("inplace") and not name.endswith("_") else f"aten::{name}"
    return _ours(callee)


def _ours(overload: Any) -> str:
    return f"rushlight::{overload.name.removeprefix('_functional_')}"


def _fitting(found: list[tuple[Any, str]], names: dict[str, Any]) -> str | None:
    for test, name in found:
        scope = dict(names)
        if test is not None:
            scope = dict.fromkeys(test.co_names) | scope
            scope.update(isinstance=isinstance, int=int, str=str)
        if test is None or eval(test, {"__builtins__": {}}, scope):  # noqa: S307 - rows of our own table
            return _BRACES.sub(lambda match: str(eval(match[1], {"__builtins__": {}}, scope)), name)  # noqa: B023, S307
    return None


def kernel_name(address: int) -> str:
    """The name of a generated kernel; "kernel" for functions of other makes."""
    return name_of(address) if digest_of(address) is not None else "kernel"


# --- arguments -------------------------------------------------------------------------------------------------------


def call_inputs(callee: Any, op: Any, values: tuple[Any, ...], out: Any) -> Inputs:
    """(dims, types, strides, concrete) of the arguments that a recording kept: a list stands for a tensor.

    They come in the order of PyTorch's signature, with the defaults that were not given."""
    if isinstance(callee, str):
        told = arguments_of(callee, {}, values)
        if told is not None:
            return spelled([("", value) for value in told], out)
        return spelled(_padded(_first_schema(callee.removeprefix("aten::"), len(values)), values), out)
    is_op = isinstance(callee, _C.Overload)
    names = callee.param_names if is_op else tuple(inspect.signature(callee).parameters)
    spelling = callee.name if is_op and op is None else (op if is_op else callee).__name__
    given = dict(zip(names, values, strict=False))
    told = arguments_of(spelling, given, values)
    if told is not None:
        return spelled([("", value) for value in told], out)
    if spelling == "__rsub__":     # operands as they were written
        given = {**given, "input": given["other"], "other": given["input"]}
    arranged = _arranged(_shown_name(callee, spelling) if is_op else spelling, given)
    return spelled([("", value) for value in values] if arranged is None else arranged, out)


def _shown_name(overload: Any, spelling: str) -> str:
    rule = _renamed().get(spelling, [])
    if rule and all(test is None and "{" not in name for test, name in rule):
        return rule[0][1]
    return spelling if has_schema(spelling) else overload.name


def _first_schema(name: str, count: int) -> AtenSchema | None:
    fitting = [s for s in schemas_of(name) if len(s.arguments) >= count]
    return fitting[0] if fitting else None


def _padded(schema: AtenSchema | None, values: tuple[Any, ...]) -> list[tuple[str, Any]]:
    if schema is None:
        return [("", value) for value in values]
    rest = schema.arguments[len(values):]
    return [(p.type, v) for p, v in zip(schema.arguments, values, strict=False)] + [
        (p.type, False if p.name == "pin_memory" else p.default_value) for p in rest]


def _arranged(name: str, given: dict[str, Any]) -> list[tuple[str, Any]] | None:
    """(type, value) by PyTorch's signature; None where it has none that takes them."""
    if name in _COMMUTES and "other" in given and not isinstance(given.get("input"), list):
        given = {**given, "input": given["other"], "other": given["input"]}
    for schema in schemas_of(name):
        found = _fitted(schema, given)
        if found is not None:
            return found
    return None


_LONG_NAMES = frozenset(("subtract", "multiply", "divide"))
_COMMUTES = frozenset(("add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"))


def _fitted(schema: AtenSchema, given: dict[str, Any]) -> list[tuple[str, Any]] | None:
    by_name = {aten_name(ours, schema): value for ours, value in given.items()}
    known = {p.name for p in schema.arguments}
    numbers_fit = schema.op in _NUMBERS_AS_TENSORS or schema.op.removesuffix("_") in _LONG_NAMES
    if any(value is not None and name not in known and name not in ("requires_grad", "inplace")
           for name, value in by_name.items()):
        return None
    arranged = []
    for p in schema.arguments:
        value = by_name.get(p.name, p.default_value)
        if p.name == "pin_memory":
            value = bool(value)
        if not _takes(p.type, value, numbers_fit, p.has_default):
            return None
        arranged.append((p.type, value))
    return arranged


def _takes(kind: str, value: Any, numbers_fit: bool, has_default: bool) -> bool:
    """Whether a parameter of PyTorch's type can hold a value."""
    if value is None:
        return has_default or kind.endswith("?")
    if isinstance(value, list):
        return kind.startswith("Tensor") and "[" not in kind
    if kind.startswith(("Tensor[]", "Tensor?[]")):
        return isinstance(value, tuple)
    if kind.startswith("Tensor"):
        return numbers_fit and isinstance(value, (bool, int, float, complex))
    if "[" in kind:
        return isinstance(value, (tuple, int))
    return not isinstance(value, tuple)

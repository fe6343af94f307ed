"""What a node or a call has that its operator cannot take, said with the node's name.

Enters: nodes with what they are given, or an error of a rule that ran. Leaves: nothing, or the error to raise. Refuses:
missing and surplus inputs, attributes of another type than the rule's keyword has, numbers no size can have.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from typing import Any

from ..model import Graph, Node
from .table import Rule

# What goes wrong in a rule that is given what no operator takes. IndexErrors of ops name an index, and stay such.
MISFITS = (AttributeError, LookupError, ArithmeticError, AssertionError, StopIteration, MemoryError)
WINDOWS = frozenset("pads strides dilations kernel_shape output_padding output_shape blocksize block_size group"
                    " num_outputs num_heads kv_num_heads hidden_size max_skip_count max_gram_length".split())
LARGEST = 1 << 31              # of these
COUNTS, MOST = frozenset({"n_targets"}), 1 << 20      # columns of results that no input backs
_KINDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "int": ("an integer", int), "float": ("a float", (float, int)), "str": ("a string", str),
    "Sequence[int]": ("integers", int), "Sequence[float]": ("floats", (float, int)), "Sequence[str]": ("strings", str),
}


def check_call(node: Node, rule: Rule, inputs: Sequence[Any], settings: Mapping[str, Any]) -> None:
    """Refuse inputs and attributes that the operator of a node does not take."""
    least, most = rule.arity
    label = node.name or (node.outputs[0] if node.outputs else "")
    if len(inputs) < least or (most is not None and len(inputs) > most):
        expected = str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"onnx: node {label!r} ({node.op}) has {len(inputs)} inputs, and its operator takes"
                         f" {expected}")
    for place, given in enumerate(inputs[:least]):
        if given is None:
            raise ValueError(f"onnx: node {label!r} ({node.op}) leaves input {place} out, which its operator needs")
    for name in rule.needs:
        if name not in settings:
            raise ValueError(f"onnx: node {label!r} ({node.op}) lacks the attribute {name!r}")
    for name, value in settings.items():
        if name in rule.annotations:
            problem = _problem(name, value, rule.annotations[name])
            if problem:
                raise ValueError(f"onnx: node {label!r} ({node.op}): attribute {name!r} should be {problem}")


def _problem(name: str, value: Any, annotation: str) -> str:
    """What an attribute should be and is not, or nothing."""
    if annotation in _KINDS:
        expected, kinds = _KINDS[annotation]
        many = value if isinstance(value, (list, tuple)) else [value]
        is_list = isinstance(value, (list, tuple))
        if is_list != annotation.startswith("Sequence") or not all(isinstance(v, kinds) for v in many):
            return f"{expected}, got {_shown(value)}"
    if name in WINDOWS or name in COUNTS:
        limit = LARGEST if name in WINDOWS else MOST
        large = [v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, int)
                 and abs(v) >= limit]
        if large:
            return f"under {limit}, got {large[0]}"
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, (int, float, str)):
        return repr(value)[:60]
    return "a graph" if isinstance(value, Graph) else f"a {type(value).__name__}"


def misfit(error: BaseException) -> BaseException:
    """An error of a rule that runs in a module's graph, by the name of the value that it was to make."""
    what, where = str(error) or type(error).__name__, _place_of(error)
    kind = type(error) if isinstance(error, (IndexError, MemoryError)) else ValueError
    if isinstance(error, MemoryError):
        what = f"its result is larger than memory{f': {what}' if what != 'MemoryError' else ''}"
        return kind(f"onnx: {where}{what}")
    return kind(f"onnx: {where}an input or an attribute is not what its operator takes: {what}")


def _place_of(error: BaseException) -> str:
    """The line of a graph's code that an error went through, the innermost: what it makes, and by which function."""
    found, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith("<eval_with_key>"):
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            name, is_call, call = line.partition(" = ")
            found = f"value {name!r} ({call.partition('(')[0].rpartition('.')[2]}): " if is_call else found
        trace = trace.tb_next
    return found

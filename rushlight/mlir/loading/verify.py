"""Checking a module before anything is made of it.

Enters: a module as it was read. Leaves: nothing; what it says is then well formed: every operation is known, its
operands, attributes and regions fit, and its results have the types that follow from them. Refuses the rest, with the
place of the operation.
"""

from __future__ import annotations

from ..syntax import Block, FunctionType, Module, Operation
from .table import OPS, REFUSED, compatible, require


def verify(module: Module) -> None:
    """Check all functions."""
    for function in module.functions.values():
        kind = function.attributes.get("function_type")
        assert isinstance(kind, FunctionType), "the parser has seen to it"
        require(function, len(function.blocks) <= 1, "a function has one region")
        if function.blocks:
            verify_body(module, function, kind)


def verify_body(module: Module, function: Operation, kind: FunctionType) -> None:
    block = function.blocks[0]
    verify_block(module, block)
    last = block.operations[-1] if block.operations else None
    if last is None or last.name != "func.return":
        raise function.error("a function must end with return")
    require(last, len(last.types) == len(kind.results) and all(map(compatible, last.types, kind.results)),
            f"the function returns ({', '.join(map(str, kind.results))}), got ({', '.join(map(str, last.types))})")


def verify_block(module: Module, block: Block) -> None:
    for i, op in enumerate(block.operations):
        ends = op.name in ("stablehlo.return", "func.return")
        require(op, not ends or i == len(block.operations) - 1, "must be the last operation of its region")
        for inner in op.blocks:
            verify_block(module, inner)
        if not ends:
            verify_operation(module, op)


def verify_operation(module: Module, op: Operation) -> None:
    """The types of the results are those that follow from the operands."""
    dialect, _, name = op.name.partition(".")
    if dialect == "chlo":
        raise op.refusal("operations of CHLO are not supported")
    if dialect == "stablehlo" and name in REFUSED:
        target = op.attributes.get("call_target_name")
        called = f" of @{target}" if isinstance(target, str) else ""
        raise op.refusal(f"not supported{called}: {REFUSED[name]}")
    rule = OPS.get(op.name)
    if rule is None:
        raise op.error("the operation is not known")
    if op.name in ("func.call", "stablehlo.composite"):
        verify_call(module, op)
    expected = rule.check(op)
    if expected is None:
        return
    require(op, len(op.results) == len(expected), f"expected {len(expected)} results, got {len(op.results)}")
    for value, kind in zip(op.results, expected, strict=True):
        require(op, compatible(value.type, kind), f"the result has the type {kind}, not {value.type}")


def verify_call(module: Module, op: Operation) -> None:
    callee = op.symbol("callee" if op.name == "func.call" else "decomposition")
    function = module.functions.get(callee)
    if function is None or not function.blocks:
        raise op.error(f"the function @{callee} is not defined")
    kind = function.attributes["function_type"]
    for what, found, wanted in (("takes", op.types, kind.arguments), ("returns", [v.type for v in op.results],
                                                                       kind.results)):
        require(op, len(found) == len(wanted) and all(map(compatible, found, wanted)),
                f"@{callee} {what} ({', '.join(map(str, wanted))}), not ({', '.join(map(str, found))})")

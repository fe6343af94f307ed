"""Building a function: operations one after the other, equal ones once.

Enters: calls of `Builder.op` by the rules of a dialect. Leaves: a block. All operations that are built here compute
values and do nothing else, so what no result depends on can be dropped. Refuses nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import types
from .printing import Block, Operation, Value


class Builder:
    """One block in the making, and the regions inside it."""

    def __init__(self) -> None:
        self.blocks: list[Block] = [Block([])]
        self.known: list[dict[Any, list[Value]]] = [{}]      # what was built, by block: inner ones see outer ones
        self.location: tuple[str, int] | None = None
        self.resources: dict[str, bytes] = {}

    @property
    def block(self) -> Block:
        return self.blocks[-1]

    def resource_key(self, name: str, t: Any) -> str:
        """Where the elements of a tensor lie behind the module."""
        key = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
        key = key if key[:1].isalpha() else f"t_{key}"
        while self.resources.get(key, data := types.content(t)) != data:
            key += "_"
        self.resources[key] = data
        return key

    def argument(self, value: Value) -> Value:
        """One more argument of the block."""
        self.block.arguments.append(value)
        return value

    def ops(self, name: str, operands: Sequence[Value], results: Sequence[Value],
            attributes: Mapping[str, str] | None = None, regions: Sequence[Block] = ()) -> list[Value]:
        """The results of an operation; of one that was built before, if it is the same."""
        attributes = {k: v for k, v in (attributes or {}).items() if v is not None}
        key = (name, tuple(map(id, operands)), tuple(str(r.type) for r in results), tuple(attributes.items()))
        if not regions:
            for known in self.known:
                if key in known:
                    return known[key]
        operation = Operation(name, list(operands), list(results), attributes, regions, self.location)
        self.block.operations.append(operation)
        if not regions:
            self.known[-1][key] = operation.results
        return operation.results

    def op(self, name: str, operands: Sequence[Value], result: Value, attributes: Mapping[str, str] | None = None,
           regions: Sequence[Block] = ()) -> Value:
        """The one result of an operation."""
        return self.ops(name, operands, [result], attributes, regions)[0]

    @contextlib.contextmanager
    def inside(self, arguments: Sequence[Value]) -> Iterator[Block]:
        """A region: what is built meanwhile goes there."""
        self.blocks.append(Block(list(arguments)))
        self.known.append({})
        try:
            yield self.blocks[-1]
        finally:
            self.blocks.pop()
            self.known.pop()

    def region(self, arguments: Sequence[Value], body: Callable[..., Sequence[Value]], end: str) -> Block:
        """A region of one block, whose results the operation `end` hands out."""
        with self.inside(arguments) as block:
            results = body(*arguments)
            self.finish(end, results)
        return block

    def finish(self, end: str, results: Sequence[Value]) -> None:
        """The operation that a block ends with."""
        self.block.operations.append(Operation(end, list(results), [], {}, (), self.location))


def drop_unused(block: Block) -> None:
    """Leave out operations that no result depends on."""
    _drop(block, set())


def _drop(block: Block, needed: set[Value]) -> None:
    kept = []
    for operation in reversed(block.operations):
        if operation.results and needed.isdisjoint(operation.results):
            continue
        kept.append(operation)
        needed.update(operation.operands)
        for region in operation.regions:
            _drop(region, needed)
    block.operations = kept[::-1]

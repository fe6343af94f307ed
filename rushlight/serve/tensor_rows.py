"""Tensors for any model: programs take them as they are, handlers of archives as rows.

Enters: the tensors of a request in KServe's protocol. Leaves: those of the answer. For a handler each tensor is one
row, with its elements as `data` (lists of numbers in their shape, words as bytes, a single word as itself) beside its
name, type and shape; each answer is a tensor `predict` (`predict_1` for the second row): numbers and truths as they
are, all else as words, objects as JSON. Refuses: other names of outputs, and answers with another status than 200.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from .datatypes import BYTES, TENSOR, encoded, flat, joined
from .handled import Piece, answer_to, answers_to
from .inference import Named, asked_for, check_bytes, infer
from .refusals import Refusal
from .served import Served

PREDICTED = "predict"


async def outputs_of(model: Served, given: Sequence[Named], names: Sequence[str], headers: Any = None) -> list[Named]:
    """The outputs of these names (none: all), whatever kind of model it is."""
    if not model.is_handled:
        return await infer(model, given, names)
    checked = [check_bytes(one) for one in given]
    if not checked:
        raise Refusal(400, "inputs: expected at least one tensor, got none")
    doubled = next((one.name for at, one in enumerate(checked) if one.name in [o.name for o in checked[:at]]), None)
    if doubled is not None:
        raise Refusal(400, f"input {doubled!r} was given twice")
    known = [PREDICTED if not at else f"{PREDICTED}_{at}" for at in range(len(checked))]
    asked_for({"outputs": [{"name": name} for name in known]}, names)
    asking = (answer_to(model, _pieces(one), dict(headers or {})) for one in checked)
    answers = await asyncio.gather(*asking, return_exceptions=True)
    found = {}
    for name, answer in zip(known, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        found[name] = _tensor(name, *answer)
    return [found[name] for name in names or known]


async def parts_of(model: Served, given: Sequence[Named], names: Sequence[str]) -> AsyncIterator[
        tuple[bool, list[Named]]]:
    """The outputs as they come, and whether each is the last: more than once where a handler that is given one row
    sends its answer in parts."""
    if not model.is_handled or len(given) != 1:
        yield True, await outputs_of(model, given, names)
        return
    asked_for({"outputs": [{"name": PREDICTED}]}, names)
    async for is_last, answer in answers_to(model, _pieces(check_bytes(given[0])), {}):
        yield is_last, [_tensor(PREDICTED, *answer)]


def _pieces(one: Named) -> list[Piece]:
    """A tensor as the pieces of a row."""
    about = json.dumps({"datatype": one.datatype, "shape": one.shape})
    facts = {"name": one.name, "datatype": one.datatype, "shape": one.shape}
    said = [(key, "application/json", json.dumps(value).encode()) for key, value in facts.items()]
    return [("data", f"{TENSOR} {about}", one.data), *said]


def _tensor(name: str, status: int, headers: dict[str, str], content: bytes) -> Named:
    """What a handler gave, as a tensor."""
    if status != 200:
        text = content.decode(errors="replace")[:200]
        raise Refusal(status if 400 <= status < 600 else 500, f"the handler answered with status {status}: {text}")
    if headers.get("Content-Type", "").partition(";")[0] == "application/json":
        value = json.loads(content)
        numbers = _numbers(name, value)
        if numbers is not None:
            return numbers
    return Named(name, BYTES, [1], joined([content]))


def _numbers(name: str, value: Any) -> Named | None:
    """A number, a truth, or even lists of them; words in even lists. None for all else."""
    try:
        values, shape = flat(value, name) if isinstance(value, list) else ([value], [1])
    except Refusal:
        return None
    kinds = set(map(type, values))
    for datatype, fitting in (("BOOL", {bool}), ("INT64", {int}), ("FP64", {int, float}), (BYTES, {str})):
        if kinds and kinds <= fitting and (datatype != BYTES or isinstance(value, list)):
            try:
                return Named(name, datatype, shape, encoded(values, datatype, name))
            except Refusal:      # an integer beyond 64 bits
                return None
    return None

"""A request for inference, whatever protocol it came by: tensors by name in, tensors by name out.

Enters: what a client gave, and which outputs it asks for. Leaves: the outputs; and, for the queue of a model, how jobs
become one batch and its results theirs again. Refuses: inputs that are missing, doubled, unknown, or of another type or
shape than the model's description says, naming both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from .datatypes import BYTES, MAX_RANK, NUMBERS, count, parted
from .refusals import Refusal
from .served import Job, Served

MOST_FORMS = 256      # names, types and shapes that are remembered as fitting a model


class Named(NamedTuple):
    """A tensor: elements as bytes lie in C's order."""

    name: str
    datatype: str
    shape: list[int]
    data: Any

    def rows(self, first: int, last: int, of: int) -> Named:
        """Some rows of a tensor that has so many."""
        size = len(self.data) // of
        return self._replace(shape=[last - first, *self.shape[1:]], data=self.data[first * size : last * size])


def shape_of(said: Any, what: str) -> list[int]:
    """Sizes as a client wrote them."""
    if not isinstance(said, list) or not all(type(n) is int and 0 <= n < 2**63 for n in said) or len(said) > MAX_RANK:
        raise Refusal(400, f"{what}: expected a shape of up to {MAX_RANK} sizes from 0, got {str(said)[:60]}")
    return said


def check_bytes(given: Named) -> Named:
    """The tensor, if it has as many bytes as its shape needs."""
    row = NUMBERS.get(given.datatype)
    if given.datatype == BYTES:
        words = len(parted(given.data, f"input {given.name!r}"))
        if words != count(given.shape):
            raise Refusal(400, f"input {given.name!r}: shape {given.shape} has {count(given.shape)} elements, "
                               f"got {words}")
    elif row is None:
        raise Refusal(400, f"input {given.name!r}: expected a datatype among {', '.join(NUMBERS)} and {BYTES}, "
                           f"got {given.datatype!r}")
    elif len(given.data) != count(given.shape) * row[0]:
        raise Refusal(400, f"input {given.name!r}: shape {given.shape} of {given.datatype} needs "
                           f"{count(given.shape) * row[0]} bytes, got {len(given.data)}")
    return given


def in_order(description: dict[str, Any], given: Sequence[Named]) -> list[Named]:
    """The inputs in the order of the description, which they fit."""
    wanted = description["inputs"]
    names = [entry["name"] for entry in wanted]
    found: dict[str, Named] = {}
    for one in given:
        if one.name in found:
            raise Refusal(400, f"input {one.name!r} was given twice")
        if one.name not in names:
            raise Refusal(400, f"input {one.name!r} is not one of this model's, which takes "
                               f"{', '.join(map(repr, names))}")
        found[one.name] = one
    missing = [n for n in names if n not in found]
    if missing:
        raise Refusal(400, f"expected {len(names)} inputs, got {len(found)}: "
                           f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing")
    sizes: dict[str, int] = {}
    for entry in wanted:
        _check_fit(entry, found[entry["name"]], description["ranges"], sizes)
    return [found[n] for n in names]


def _check_fit(entry: dict[str, Any], given: Named, ranges: dict[str, list[Any]], sizes: dict[str, int]) -> None:
    what = f"input {given.name!r}"
    if given.datatype != entry["datatype"]:
        raise Refusal(400, f"{what}: expected datatype {entry['datatype']}, got {given.datatype}")
    shape = given.shape
    fits = len(shape) == len(entry["shape"]) and all(w in (-1, s) for w, s in zip(entry["shape"], shape))
    if not fits:
        raise Refusal(400, f"{what}: expected shape {entry['shape']}, got {shape}")
    for size, symbol in zip(shape, entry["symbols"], strict=True):
        if symbol is None:
            continue
        low, high = ranges.get(symbol, (0, None))
        if size < low or (high is not None and size > high):
            limits = f"at least {low}" if high is None else f"{low} to {high}"
            raise Refusal(400, f"{what}: expected a free size of {limits}, got {size} in {shape}")
        if sizes.setdefault(symbol, size) != size:
            raise Refusal(400, f"{what}: expected the free size that another input has, {sizes[symbol]}, got {size} "
                               f"in {shape}")


def job_for(description: dict[str, Any], given: list[Named], answer: Any) -> Job:
    """What a worker is asked, for inputs in order."""
    shapes = [one.shape for one in given]
    job = Job({"shapes": shapes}, [one.data for one in given], answer)
    if description["batch"] is not None and shapes[0][0] > 0:
        job.key, job.rows = tuple([tuple(s[1:]) for s in shapes]), shapes[0][0]
    return job


def together(model: Served, jobs: list[Job]) -> tuple[dict[str, Any], Sequence[Any]]:
    """Jobs as one: rows lie one behind the other, so their bytes do."""
    if len(jobs) == 1:
        return jobs[0].said, jobs[0].buffers
    rows = sum(job.rows for job in jobs)
    shapes = [[rows, *shape[1:]] for shape in jobs[0].said["shapes"]]
    return {"shapes": shapes}, [b"".join(parts) for parts in zip(*(job.buffers for job in jobs), strict=True)]


def apart(model: Served, jobs: list[Job], said: dict[str, Any], buffers: list[memoryview]) -> list[list[Named]]:
    """Each job's outputs."""
    assert model.description is not None
    entries, shapes = model.description["outputs"], said["shapes"]
    whole = [Named(e["name"], e["datatype"], s, b) for e, s, b in zip(entries, shapes, buffers, strict=True)]
    if len(jobs) == 1:
        return [whole]
    rows, found, at = sum(job.rows for job in jobs), [], 0
    for job in jobs:
        found.append([one.rows(at, at + job.rows, rows) for one in whole])
        at += job.rows
    return found


def asked_for(description: dict[str, Any], names: Sequence[str]) -> None:
    """Refuses outputs that the model has not."""
    known = [entry["name"] for entry in description["outputs"]]
    for name in names:
        if known and name not in known:
            raise Refusal(400, f"output {name!r} is not one of this model's, which gives {', '.join(map(repr, known))}")
    if len(set(names)) != len(names):
        raise Refusal(400, f"outputs: expected each once, got {', '.join(map(repr, names))}")


def begun(model: Served, given: Sequence[Named], names: Sequence[str], answer: Any) -> Job:
    """The job that these inputs are; what answers it gets all outputs."""
    if model.description is None:
        raise Refusal(503, f"model {model.name!r} is not loaded yet. Ask again later.")
    if names:
        asked_for(model.description, names)
    form = tuple([(one.name, one.datatype, tuple(one.shape), len(one.data)) for one in given])
    known = model.fitting.get(form)
    if known is None:
        ordered = in_order(model.description, [check_bytes(one) for one in given])
        known = job_for(model.description, ordered, answer)
        names_given = [one.name for one in given]
        if len(model.fitting) < MOST_FORMS and all(one.datatype != BYTES for one in given):
            model.fitting[form] = (known.said, known.key, known.rows, [names_given.index(one.name) for one in ordered])
        return known
    said, key, rows, order = known
    return Job(said, [given[at].data for at in order], answer, key, rows)


def chosen(outputs: list[Named], names: Collection[str]) -> list[Named]:
    """The outputs of these names (none: all), in that order."""
    if not names:
        return outputs
    by_name = {one.name: one for one in outputs}
    return [by_name[name] for name in names]


async def infer(model: Served, given: Sequence[Named], names: Sequence[str]) -> list[Named]:
    """The outputs of these names (none: all), in that order."""
    return chosen(await model.run(begun(model, given, names, asyncio.get_running_loop().create_future())), names)

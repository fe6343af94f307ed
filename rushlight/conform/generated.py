"""Cases made of samples: the script a vendor is given is the text that ran."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from . import against, expect, samples
from .case import DTYPES, Case, Chip, Skip
from .expect import name as type_name
from .samples import Sample
from .script import opening

NAMES: dict[str, Any] = {
    **samples.vocabulary(), "ARRAYS": against.ARRAYS, "LAYOUTS": against.LAYOUTS, "against_host": against.against_host,
    "gradients_against_host": against.gradients_against_host, "same": expect.same,
}


def of_sample(area: str, name: str, sample: Sample, lines: Sequence[str]) -> Case:
    """A case of statements that call `call`, the sample's, and name the device `device`."""
    call = ["", "", f"def call({sample.letters}):", f"    return {sample.call}", "", ""]
    made = of_text(area, name, [*call, *lines], quick=sample.quick)
    run = made.body

    def body(chip: Chip) -> None:
        claimed(sample, chip)
        run(chip)

    made.body = body
    return made


def of_text(area: str, name: str, lines: Sequence[str], quick: bool = True, needs: Sequence[str] = ()) -> Case:
    """A case of statements that name the device `device`."""

    def text(chip: Chip) -> str:
        return "\n".join([f"device = {chip.name!r}", *lines, ""])

    def body(chip: Chip) -> None:
        exec(compile(text(chip), f"<{area}: {name}>", "exec"), dict(NAMES))

    def script(chip: Chip) -> str:
        used = text(chip)
        ours = sorted(word for word in NAMES if word not in ("rl", "F") and re.search(rf"\b{word}\b", used))
        functional = ["", "F = rl.nn.functional"] if re.search(r"\bF\.", used) else []
        return "\n".join([*opening(chip), f"from rushlight.conform import {', '.join(ours)}", *functional, "", used])

    return Case(area, name, body, script, quick, tuple(needs))


def claimed(sample: Sample, chip: Chip) -> None:
    """Raise `Skip` where a sample has, or results in, types that the device does not claim."""
    if len(chip.dtypes) == len(DTYPES):
        return
    names = dict(NAMES)
    inputs = [eval(text, names) for text in sample.inputs]
    result = eval(f"lambda {sample.letters}: {sample.call}", names)(*inputs)
    for x in (*inputs, *against.parts(result)):
        if x.dtype not in chip.dtypes:
            raise Skip(f"the device does not claim {type_name(x.dtype)}")


def options(sample: Sample) -> str:
    """The options of a sample as they stand in a call."""
    return "".join(f", {key}={value!r}" for key, value in sample.options.items())

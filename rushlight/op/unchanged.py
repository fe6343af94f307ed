"""When an op gives its first argument back as it is: what definitions say of it, and the core tests by itself.

Enters: the attribute `unchanged` of a definition: what each argument must ask for, so that the first one already is the
result. Leaves: conditions as the core reads them (csrc/unchanged.h). It tests them before it looks for a plan, where
nobody else has a say in the call; where they do not hold, the definition's body or plan decides as it does without.
"""

from __future__ import annotations

from typing import Any, Final

from ..base.shape import channels_last, channels_last_3d, contiguous_format, preserve_format
from .schema import Schema

OWN: Final = "own"       # nothing but what the first argument has: None, its dtype, its device, a tensor of both
ALWAYS: Final = ""       # the key of a value that every call asks for

# How the first argument must lie (csrc/unchanged.h): any way, in dense rows, dense with channels last, and the same by
# what its strides say where sizes of one leave it open.
ANYHOW, ROWS, CHANNELS_LAST, ROWS_BY_STRIDES, LAST_BY_STRIDES = range(5)

# value -> how the first argument must lie, and how many dims it must have (0: any)
FALSE: Final = {False: (ANYHOW, 0)}
AS_STORED: Final = {
    None: (ROWS, 0), contiguous_format: (ROWS, 0), preserve_format: (ROWS, 0), channels_last: (CHANNELS_LAST, 4),
    channels_last_3d: (CHANNELS_LAST, 5),
}
BY_STRIDES: Final = {
    None: (ANYHOW, 0), preserve_format: (ANYHOW, 0), contiguous_format: (ROWS_BY_STRIDES, 0),
    channels_last: (LAST_BY_STRIDES, 4), channels_last_3d: (LAST_BY_STRIDES, 5),
}


def conditions(schema: Schema, unchanged: dict[str, Any] | None) -> list[tuple] | None:
    """`unchanged` as the core reads it. Parameters that this schema lacks, and those not named, are not asked about."""
    if unchanged is None:
        return None
    names = [p.name for p in schema.params]
    found: list[tuple] = []
    for name, asked in unchanged.items():
        if name == ALWAYS:
            found.append((-1, asked, None))
        elif name in names:
            choices = None if asked == OWN else [(value, *lies) for value, lies in asked.items()]
            found.append((names.index(name), None, choices))
    return found

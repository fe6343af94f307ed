"""Types of schemas, as the native part of the stable ABI spells them (csrc/stable/stable.h).

Enters: a type as a schema has it, such as `Tensor?[]` or `SymInt[2]`. Leaves: one letter with marks before it, here
`[?T` and `[i`. Refuses: types that PyTorch's stable ABI has no form for.
"""

from __future__ import annotations

import functools

LETTERS = {
    "Tensor": "T", "int": "i", "SymInt": "i", "float": "f", "SymFloat": "f", "bool": "b", "SymBool": "b", "str": "s",
    "ScalarType": "d", "dtype": "d", "Device": "D", "device": "D", "Layout": "L", "layout": "L", "MemoryFormat": "M",
    "memory_format": "M", "Generator": "G",
}


@functools.cache
def spelling(type: str, where: str) -> str:
    """The letters of a type, in a signature of `where`."""
    marks = ""
    while type[-1] in "?]":
        if type[-1] == "?":
            marks, type = marks + "?", type[:-1]
        else:
            marks, type = marks + "[", type[: type.rindex("[")]
    if type not in LETTERS:
        raise RuntimeError(f"{where}: values of type {type} have no form in the stable ABI that extensions use")
    return marks + LETTERS[type]

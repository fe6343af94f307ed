"""Why a call fits no signature of an op: which argument, at which position, what it must be and what was found.

Enters: an op's overloads and the arguments that none of them took. Leaves: the TypeError to raise. The core decides
what fits (csrc/bind.cpp); here only the reason is looked for, so what counts as fitting may be a little wider here:
then no single argument is to blame, and the message lists the types that were given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _C
from .schema import Param, Schema

# What a parameter must be, in words, by its type without "?".
WORDS = {
    "Tensor": "Tensor", "Tensor[]": "a sequence of Tensors", "Tensor?[]": "a sequence of Tensors or None",
    "Tensor|Scalar": "Tensor or Number", "Scalar": "Number", "int": "int", "SymInt": "int",
    "int[]": "int or a sequence of ints", "SymInt[]": "int or a sequence of ints", "float": "float",
    "bool": "bool", "str": "str", "dtype": "dtype", "device": "device, str or int",
}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, _C.Tensor)


def _is_integer(value: Any) -> bool:
    return hasattr(type(value), "__index__") and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | complex)
        or hasattr(type(value), "__index__")
        or hasattr(type(value), "__float__")
    )


FITS: dict[str, Callable[[Any], bool]] = {
    "Tensor": _is_tensor, "Tensor|Scalar": lambda value: _is_tensor(value) or _is_number(value), "Scalar": _is_number,
    "int": _is_integer, "SymInt": _is_integer, "float": _is_number,
    "bool": lambda value: isinstance(value, int) or hasattr(type(value), "__bool__"),
    "str": lambda value: isinstance(value, str), "dtype": lambda value: isinstance(value, _C.dtype),
    "device": lambda value: isinstance(value, _C.device | str | int),
}
ITEMS = {"Tensor[]": "Tensor", "Tensor?[]": "Tensor", "int[]": "int", "SymInt[]": "int"}


# How much a reason says: a signature without a name that was given is not meant; one too short may well not be.
NOT_MEANT, TOO_MANY, MISSING, MISFIT = range(4)


class Blame(NamedTuple):
    """What is wrong with a call of one overload: how many arguments were fine before that, which kind of reason,
    and in words."""

    fine: int
    rank: int
    text: str                      # for a misfit, what the argument must be
    name: str = ""
    position: int | None = None    # of a misfit given by position
    got: str = ""


def called_with(schema: Schema) -> str:
    """What follows the name in a signature: users call an op by its public name, whatever its records are called."""
    text = str(schema)
    return text[text.index("(") :]


def explain(name: str, schemas: Sequence[Schema], args: tuple, kwargs: dict[str, Any]) -> TypeError:
    """The error for a call that fits none of the schemas."""
    known = {param.name for schema in schemas for param in schema.params}
    unknown = [given for given in kwargs if given not in known and given != "out"]
    wanted = list(dict.fromkeys(f"    {name}{called_with(schema)}" for schema in schemas))
    signatures = ("\nSignature:\n" if len(wanted) == 1 else "\nSignatures:\n") + "\n".join(wanted)
    if unknown:
        return TypeError(f"{name}() got an unexpected keyword argument '{unknown[0]}'.{signatures}")
    reason = joined([find_blame(schema, args, kwargs) for schema in schemas])
    if reason is None:
        given = [describe(value) for value in args] + [f"{key}={describe(value)}" for key, value in kwargs.items()]
        reason = f"arguments ({', '.join(given)}) fit no signature"
    return TypeError(f"{name}: {reason}.{signatures}")


def joined(blames: list[Blame | None]) -> str | None:
    """One reason from those of all overloads: of the overloads that came furthest. None if one has none,
    or they differ."""
    known = [blame for blame in blames if blame is not None]
    if len(known) != len(blames):
        return None

    def reached(blame: Blame) -> tuple[bool, int, int]:
        return blame.rank != NOT_MEANT, blame.fine, blame.rank

    furthest = max(map(reached, known))
    best = list(dict.fromkeys(blame for blame in known if reached(blame) == furthest))
    if best[0].rank != MISFIT:
        return best[0].text if len({blame.text for blame in best}) == 1 else None
    if len({(blame.position, blame.got) for blame in best}) > 1:
        return None
    names = list(dict.fromkeys(blame.name for blame in best))
    if len(names) == 1:
        place = f" (position {best[0].position})" if best[0].position else ""
        must = " or ".join(dict.fromkeys(blame.text for blame in best))
        return f"argument '{names[0]}'{place} must be {must}, got {best[0].got}"
    must = " or ".join(f"{blame.text} ('{blame.name}')" for blame in best)
    return (
        f"the argument at position {best[0].position} must be {must}, got {best[0].got}" if best[0].position else None
    )


def find_blame(schema: Schema, args: tuple, kwargs: dict[str, Any]) -> Blame | None:
    """The first thing wrong with a call of this signature; None if nothing is found."""
    names = {param.name for param in schema.params}
    foreign = [name for name in kwargs if name not in names and name != "out"]
    if foreign:
        return Blame(0, NOT_MEANT, f"there is no argument '{foreign[0]}'")
    positional = [param for param in schema.params if not param.keyword_only]
    args = gathered(positional, args)
    fine = 0
    for position, param in enumerate(schema.params):
        is_positional = position < len(positional)
        if is_positional and position < len(args):
            if param.name in kwargs:
                return Blame(
                    fine, TOO_MANY, f"argument '{param.name}' is given twice, at position {position + 1} and by name"
                )
            value, place = args[position], position + 1
        elif param.name in kwargs:
            value, place = kwargs[param.name], None
        elif param.required:
            return Blame(
                fine,
                MISSING,
                f"argument '{param.name}'{f' (position {position + 1})' if is_positional else ''} is missing",
            )
        else:
            continue
        wrong = misfit(param, value)
        if wrong:
            return Blame(fine, MISFIT, wrong[0], param.name, place, wrong[1])
        fine += 1
    if len(args) > len(positional):
        return Blame(
            fine,
            TOO_MANY,
            f"expected at most {len(positional)} positional argument{'s' if len(positional) != 1 else ''}, got"
            f" {len(args)}",
        )
    return None


def gathered(positional: list[Param], args: tuple) -> tuple:
    """`x.view(2, 3)` is `x.view((2, 3))`: separate numbers in place of a last sequence of them."""
    last = len(positional) - 1
    takes = last >= 0 and positional[last].type in ("int[]", "int[]?", "SymInt[]") and len(args) > last + 1
    return (*args[:last], args[last:]) if takes else args


def misfit(param: Param, value: Any) -> tuple[str, str] | None:
    """(what a value must be for the parameter, what it is instead); None if it fits, or if its type is not checked."""
    kind = param.type.removesuffix("?")
    optional = kind != param.type or (not param.required and param.default is None)
    if value is None and optional:
        return None
    words = WORDS.get(kind, "") + (" or None" if optional else "")
    if kind in ITEMS:
        if isinstance(value, list | tuple):
            return next(
                (
                    (words, f"{describe(item)} at index {i}")
                    for i, item in enumerate(value)
                    if not item_fits(kind, item)
                ),
                None,
            )
        is_one = kind in ("int[]", "SymInt[]") and _is_integer(value)
        return None if is_one or (_is_sequence(value) and not _is_tensor(value)) else (words, describe(value))
    return None if kind not in FITS or FITS[kind](value) else (words, describe(value))


def item_fits(kind: str, item: Any) -> bool:
    return FITS[ITEMS[kind]](item) or (kind == "Tensor?[]" and item is None)


def _is_sequence(value: Any) -> bool:
    return (
        hasattr(type(value), "__len__") and hasattr(type(value), "__getitem__") and not isinstance(value, str | bytes)
    )


def describe(value: Any) -> str:
    """The type of a value, and the value where it is short enough to help."""
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, str | int | float | complex) and len(repr(value)) <= 24:
        return f"{kind} {value!r}"
    return kind

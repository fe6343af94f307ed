"""Cases that are alike but for a few arguments: one function, many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from .case import Case, Chip
from .script import alone


def family(
    function: Callable[..., None], variants: Mapping[str, tuple[Any, ...]], *, quick: bool = True,
    needs: tuple[str, ...] = (),
) -> Iterator[Case]:
    """A case for each of `variants`: `function(chip, *arguments)`, by the function's name and the variant's.

    Arguments are written into the script that shows a failure alone, so `repr` must give them back: numbers, texts.
    """
    area = function.__module__.rpartition(".")[2]
    for label, arguments in variants.items():
        yield Case(
            area, f"{function.__name__}[{label}]", partial(called, function, arguments),
            partial(script, function, arguments), quick, needs,
        )


def called(function: Callable[..., None], arguments: tuple[Any, ...], chip: Chip) -> None:
    """The function with its arguments behind the chip."""
    function(chip, *arguments)


def script(function: Callable[..., None], arguments: tuple[Any, ...], chip: Chip) -> str:
    """The script of one of them."""
    name = function.__name__
    rest = "".join(f", {argument!r}" for argument in arguments)
    return f"{alone(function, chip).removesuffix(f'{name}(chip)' + chr(10))}{name}(chip{rest})\n"

"""What a case is, and what it is given.

A case is a function `def name(chip)` of an area's file under `@case()`: it computes something on `chip.device` and
compares it with the host (`expect.same`), raises AssertionError where they differ, and `Skip` where the device has not
what it takes. Areas that make many alike have a function `cases(chip)` that yields `Case`s.

    @case(needs=("two units",))
    def moves_between_units(chip):
        x = rl.arange(12.0)
        same(x.to(f"{chip.name}:0").to(f"{chip.name}:1"), x, exact=True)

Cases use public names only, so that the script made of one (`Case.repro`) runs by itself.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import rushlight as rl
from rushlight import devices

from .script import alone

DTYPES = (
    rl.bool, rl.uint8, rl.int8, rl.int16, rl.int32, rl.int64, rl.float16, rl.bfloat16, rl.float32, rl.float64,
    rl.complex64, rl.complex128,
)


class Skip(Exception):
    """Raised by a case that does not concern the device, with the reason."""


class NoSuchDevice(Exception):
    """There is no device of that name, or no such package: one line that says which."""


@dataclass
class Chip:
    """A device under test: what a case is given."""

    name: str
    device: rl.device
    units: int
    streams: bool
    dtypes: tuple[rl.dtype, ...]
    handler: Any
    """The `Device` that was registered; None for the host itself."""
    quick: bool = False
    package: str | None = None
    """The module whose import registers the device, where one was named."""
    measured: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the table of figures, see `measure`."""

    @classmethod
    def find(cls, name: str, package: str | None = None, quick: bool = False) -> Chip:
        """The device of that name, `package` imported before it is looked for; `NoSuchDevice` where there is none."""
        if package is not None:
            load(package)
        if not name.isidentifier():
            raise NoSuchDevice(f"{name!r} is not the name of a device; write it as in 'cuda', without a number")
        if name == "cpu":
            return cls(name, rl.device(name), 1, False, DTYPES, None, quick, package)
        if name not in devices.registered() and not devices.find(name):
            raise NoSuchDevice(f"there is no device {name!r} here{known(name)}")
        handler = devices.handlers[name]
        units = handler.device_count()
        if units < 1:
            raise NoSuchDevice(f"device {name!r} says that it has {units} units")
        return cls(name, rl.device(name), units, bool(handler.streams), claimed(handler), handler, quick, package)

    def measure(self, what: str, value: float, unit: str, host: float | None = None) -> None:
        """One figure for the report's table, the host's beside it where there is one."""
        self.measured.append({"name": what, "value": value, "unit": unit, "host": host})


def load(package: str) -> None:
    """Import the package that registers a device; `NoSuchDevice` where it is not found or does not import."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)      # the command `rushlight` looks where `python -m rushlight` does
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as missing:
        if missing.name is not None and package.split(".")[: missing.name.count(".") + 1] == missing.name.split("."):
            raise NoSuchDevice(f"there is no module {package!r} (looked in sys.path; PYTHONPATH adds to it)") from None
        raise NoSuchDevice(f"importing {package!r} failed: {missing}") from None
    except Exception as error:
        raise NoSuchDevice(f"importing {package!r} failed: {type(error).__name__}: {error}") from None


def known(name: str) -> str:
    """Which devices there are instead, for the message."""
    if name == "cuda":
        return f" ({devices.base.no_cuda()})"
    there = ["cpu", *devices.registered()]
    return f": there are {', '.join(there)}; --import MODULE names the package that brings one"


def claimed(handler: Any) -> tuple[rl.dtype, ...]:
    """The types a device says it computes with: all of them unless it names some."""
    named: Sequence[Any] | None = getattr(handler, "dtypes", None)
    if named is None:
        return DTYPES
    wanted = [getattr(rl, dtype) if isinstance(dtype, str) else dtype for dtype in named]
    return tuple(dtype for dtype in DTYPES if dtype in wanted)


@dataclass
class Case:
    """One thing to check. `body(chip)` checks it; `text(chip)` is a script that does the same alone."""

    area: str
    name: str
    body: Callable[[Chip], None]
    text: Callable[[Chip], str]
    quick: bool = True
    needs: tuple[str, ...] = ()

    def run(self, chip: Chip) -> None:
        """Returns where the device is right, raises `Skip` where it is not concerned, and else whatever goes wrong."""
        for need in self.needs:
            lacking(chip, need)
        body = self.body
        body(chip)

    def repro(self, chip: Chip) -> str:
        """A script that shows a failure alone."""
        return self.text(chip)


def lacking(chip: Chip, need: str) -> None:
    """Raise `Skip` where the device has not what a case needs: "streams", "two units", "handler" or a dtype's name."""
    if need == "streams":
        missing = not chip.streams
    elif need == "two units":
        missing = chip.units < 2
    elif need == "handler":
        missing = chip.handler is None
    else:
        missing = getattr(rl, need) not in chip.dtypes
    if missing:
        raise Skip(f"the device has no {need}" if need != "two units" else "the device has one unit")


def case(*, quick: bool = True, needs: Sequence[str] = ()) -> Callable[[Callable[[Any], None]], Case]:
    """Make a function of an area's file a case; with `quick=False` it is left out of `--quick`."""

    def made(function: Callable[[Any], None]) -> Case:
        area = function.__module__.rpartition(".")[2]
        return Case(area, function.__name__, function, lambda chip: alone(function, chip), quick, tuple(needs))

    return made

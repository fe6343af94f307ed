"""Which version this is: Rushlight's own, and the PyTorch version whose behaviour it follows.

Programs compare `torch.__version__` to decide what they may use, so that is the version reported; Rushlight's own is
its local part (`2.13.0+rushlight.0.1.0`) and the attribute `rushlight` below. `cuda`,
`hip` and `xpu` are None as in a PyTorch built for the CPU alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

rushlight = "0.1.0"
follows = "2.13.0"
__version__ = f"{follows}+rushlight.{rushlight}"

cuda: str | None = None
hip: str | None = None
xpu: str | None = None
rocm: str | None = None
debug = False
git_version = "unknown"

_Release = tuple[list[int], int, str]


def _release(version: str) -> _Release:
    """The leading numbers of a version, then whether anything but a local part follows them ("2.1.0a0" < "2.1.0")."""
    public = version.split("+", 1)[0]
    numbers: list[int] = []
    rest = ""
    for part in public.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if digits:
            numbers.append(int(digits))
        if digits != part:
            rest = part[len(digits):]
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return (numbers, 0 if rest else 1, rest)


class TorchVersion(str):
    """A version string that compares by number, with strings, tuples of numbers and `packaging` versions."""

    __slots__ = ()

    def _compare(self, other: object, decide: Callable[[_Release, _Release], bool]) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str):
            other = ".".join(str(part) for part in other)
        text = str(other)
        if not text[:1].isdigit():
            return NotImplemented
        return decide(_release(str(self)), _release(text))

    def __lt__(self, other: object) -> bool:
        return self._compare(other, lambda a, b: a < b)

    def __le__(self, other: object) -> bool:
        return self._compare(other, lambda a, b: a <= b)

    def __gt__(self, other: object) -> bool:
        return self._compare(other, lambda a, b: a > b)

    def __ge__(self, other: object) -> bool:
        return self._compare(other, lambda a, b: a >= b)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or self._compare(other, lambda a, b: a == b)

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return str.__hash__(self)

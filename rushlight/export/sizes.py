"""Sizes of an exported program: symbols for those that vary, what was found out about them, and checks of arguments.

Enters: what the user said each dim is (`leaf_shapes`), and a trace. Leaves: fake arguments; ranges by symbol; `Guards`,
which check later arguments. Refuses: dims declared dynamic that the program fixes or bounds, in the user's words, with
what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .._C import Tensor
from ..dynamo.errors import UserError
from ..fake import FakeTensorMode, ShapeEnv
from ..fake.tensor import _symbolic_strides
from ..symbols import DimDynamic, SymInt
from ..symbols.expression import Expression, symbol
from .dynamic_shapes import Dim, _DimHint, _DimHintType


class ValueRange(NamedTuple):
    """Between which numbers a size lies; None is no limit."""

    lower: int | None
    upper: int | None

    def __repr__(self) -> str:
        low, high = "-int_oo" if self.lower is None else self.lower, "int_oo" if self.upper is None else self.upper
        return f"VR[{low}, {high}]"


class Sizes:
    """The symbols of one export."""

    def __init__(self, kind: type[ShapeEnv] = ShapeEnv) -> None:
        self.env = kind(duck_shape=False)
        self.env.merges_sizes = True
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=self.env)
        self.roots: dict[str, tuple[Dim, SymInt]] = {}            # by the name of the Dim
        self.hinted: dict[str, tuple[_DimHint, str]] = {}         # by symbol: the hint, and where
        self.sources: dict[str, str] = {}                         # by symbol: where it is first found

    # --- arguments ----------------------------------------------------------------------------------------------------

    def argument(self, value: Any, shape: Any, name: str) -> Any:
        """A leaf of the arguments as the trace sees it."""
        if isinstance(value, Tensor):
            entries = shape if shape is not None else (None,) * value.ndim
            pairs = enumerate(zip(value.shape, entries, strict=True))
            sizes = tuple(self.size(n, e, f"{name}.size({d})") for d, (n, e) in pairs)
            if not any(isinstance(s, SymInt) for s in sizes):
                return self.mode.from_tensor(value, static_shapes=True)
            fixed = self.mode.from_tensor(value.detach(), static_shapes=True)
            strides = _symbolic_strides(sizes, tuple(value.shape), value.stride())
            result = self.mode.empty(sizes, strides, value.dtype, fixed.fake_device)
            return result.requires_grad_() if value.requires_grad else result
        return self.size(value, shape, name) if isinstance(shape, (Dim, _DimHint)) else value

    def size(self, seen: int, entry: Any, source: str) -> Any:
        if isinstance(entry, Dim):
            return self.of_dim(seen, entry, source)
        if isinstance(entry, _DimHint) and entry.type is not _DimHintType.STATIC:
            result = self.env.create_symbol(seen, source, DimDynamic.DYNAMIC, (entry.min, entry.max))
            if not isinstance(result, SymInt):
                if entry.type is _DimHintType.DYNAMIC:
                    raise UserError(
                        f"export: {source} is declared Dim.DYNAMIC, but the example has size {seen}, and sizes 0 and 1 "
                        "are fixed. Use an example of size 2 or more."
                    )
                return result
            self.hinted[_name(result)] = (entry, source)
            self.sources[_name(result)] = source
            return result
        return seen

    def of_dim(self, seen: int, entry: Dim, source: str) -> Any:
        root = entry.root
        value, rest = divmod(seen - entry.offset, entry.factor)
        if rest or value < 0:
            raise UserError(f"export: {source} is declared to be {entry!r}, which cannot be the example's {seen}")
        if root.__name__ not in self.roots:
            where = source if entry is root else root.__name__
            result = self.env.create_symbol(value, where, DimDynamic.DYNAMIC, (root.min, root.max))
            if not isinstance(result, SymInt):
                raise UserError(
                    f"export: {source} is declared dynamic (Dim {root.__name__!r}), but the example has size {seen}, "
                    "and sizes 0 and 1 are fixed. Use an example of size 2 or more."
                )
            self.roots[root.__name__] = (root, result)
            self.sources[_name(result)] = source
        known, number = self.roots[root.__name__]
        if (known.min, known.max) != (root.min, root.max):
            raise UserError(f"export: two Dims are called {root.__name__!r} and have other limits: {known!r}, {root!r}")
        if self.env.hints[_name(number)] != value:
            other = self.sources[_name(number)]
            raise UserError(
                f"export: {other} and {source} are both declared to be Dim {root.__name__!r}, but the examples have "
                f"{self.env.hints[_name(number)]} and {value}"
            )
        return number * entry.factor + entry.offset

    # --- what the trace found out -------------------------------------------------------------------------------------

    def settle(self) -> dict[Expression, ValueRange]:
        """Ranges by symbol; refuses where dims declared dynamic are not."""
        wrong, fixes = [], []
        for name, (dim, number) in self.roots.items():
            what, fix = self._problem(name, dim, _name(number))
            if what:
                wrong.append(what)
                fixes.append(fix)
        for name, (hint, source) in self.hinted.items():
            fixed = self.env.simplify(symbol(name)).constant
            if hint.type is _DimHintType.DYNAMIC and fixed is not None:
                where = self._where(name)
                wrong.append(f"{source} is declared Dim.DYNAMIC, but the program fixes it to {fixed}{where}")
                fixes.append(f"{source}: use Dim.AUTO or Dim.STATIC")
        if wrong:
            raise UserError(
                "export: sizes declared dynamic do not all work.\n" + "\n".join(f"  - {w}." for w in wrong)
                + "\nSuggested fixes:\n" + "\n".join(f"  {f}" for f in dict.fromkeys(fixes))
            )
        return self.ranges()

    def _problem(self, name: str, dim: Dim, number: str) -> tuple[str, str]:
        """What is wrong with a Dim, and what to write instead."""
        env, source = self.env, self.sources[number]
        simplified = env.simplify(symbol(number))
        if simplified.constant is not None:
            return (
                f"{source} is declared dynamic (Dim {name!r}), but the program works for {simplified.constant} only"
                f"{self._where(number)}",
                f"{name} = {simplified.constant}",
            )
        if simplified.sole_symbol not in (None, number):
            other = next((n for n, (_, s) in self.roots.items() if _name(s) == simplified.sole_symbol), None)
            if other is not None:
                return f"Dims {name!r} and {other!r} must be equal{self._where(number)}", f"{name} = {other}"
        if simplified.sole_symbol is None and len(simplified.names) == 1:
            return (
                f"{source} (Dim {name!r}) must be {simplified!r}{self._where(number)}",
                f"{name} = {_multiple(simplified, name)}",
            )
        low, high = env.range_of_symbol(number)
        declared_low = max(dim.min, 2)
        is_tight = (low or 0) > declared_low or (high is not None and (dim.max is None or high < dim.max))
        if not is_tight:
            return self._uneven(name, number)
        limits = [f"min={low}"] if (low or 0) > declared_low else [f"min={dim.min}"] if dim.min else []
        limits += [f"max={high}"] if high is not None else []
        return (
            f"{source} (Dim {name!r}) is declared to lie in {ValueRange(dim.min, dim.max)}, but the program works for "
            f"{ValueRange(low or 0, high)} only{self._where(number)}",
            f"{name} = Dim({', '.join([repr(name), *limits])})",
        )

    def _uneven(self, name: str, number: str) -> tuple[str, str]:
        """Whether the program works for multiples only."""
        factor, guard = multiple_of(self.env.guards, number)
        if guard is None:
            return "", ""
        return (f"{self.sources[number]} (Dim {name!r}) must be a multiple of {factor} ({guard!r} at {guard.location})",
                f"{name} = {factor}*_{name}")

    def _where(self, name: str) -> str:
        guard = next((g for g in self.env.guards if name in g.truth.names), None)
        return f" ({guard!r} at {guard.location})" if guard is not None else ""

    def names(self) -> dict[str, str]:
        """Symbols by the names of their Dims."""
        return {_name(number): name for name, (_, number) in self.roots.items()}

    def ranges(self) -> dict[Expression, ValueRange]:
        """Between which numbers each symbol that is left lies."""
        found: dict[Expression, ValueRange] = {}
        declared = {_name(number): dim for dim, number in self.roots.values()}
        for name in self.env.hints:
            if self.env.simplify(symbol(name)).sole_symbol != name:
                continue
            low, high = self.env.range_of_symbol(name)
            # the trace treats 0 and 1 apart; what it found out about larger sizes says nothing of the least one
            own = declared[name].min if name in declared else (self.hinted[name][0].min or 0)
            found[symbol(name)] = ValueRange(own if (low or 0) <= 2 else low, high)
        for name in self.env.stand_ins:             # numbers that elements tell, as far as checks bound them
            low, high = self.env.range_of_symbol(name)
            if self.env.simplify(symbol(name)).sole_symbol == name and (low is not None or high is not None):
                found[symbol(name)] = ValueRange(low, high)
        return found


def multiple_of(guards: Iterable[Any], name: str) -> tuple[int, Any]:
    """Of which number a size has to be a multiple, and the guard that says so; 1 and None where any will do."""
    for guard in guards:
        if guard.truth.names != {name} or not any(sign in repr(guard.truth) for sign in ("%", "//")):
            continue
        factor = next((k for k in range(2, 4097) if all(guard.holds({name: k * i}) for i in (1, 2, 3))), None)
        if factor is not None and not guard.holds({name: factor + 1}):
            return factor, guard
    return 1, None


def _name(number: SymInt) -> str:
    """The symbol that a number was made as, whatever is known of it since."""
    name = number.formula.sole_symbol
    assert name is not None, f"{number} was made as a symbol"
    return name


def _multiple(e: Expression, name: str) -> str:
    """`4*_batch` for an expression that is a multiple of a new symbol."""
    factor = next((c for c in e.terms.values() if c != 1), 1)
    return f"{factor}*_{name}"


# --- later arguments --------------------------------------------------------------------------------------------------


class Guards:
    """What arguments of an exported program must meet."""

    def __init__(self, names: Sequence[str], values: Sequence[Any], ranges: Mapping[Any, ValueRange],
                 env: ShapeEnv | None) -> None:
        self.names, self.values, self.ranges, self.env = list(names), list(values), dict(ranges), env

    def check(self, given: Sequence[Any]) -> None:
        """Raise where an argument does not fit, naming it."""
        symbols: dict[str, tuple[int, str]] = {}
        later: list[tuple[str, Expression, int]] = []
        for name, known, value in zip(self.names, self.values, given, strict=True):
            if isinstance(known, Tensor):
                self._check_tensor(name, known, value)
                for d, (size, expected) in enumerate(zip(value.shape, known.shape, strict=True)):
                    _note(f"{name}.size({d})", expected, size, symbols, later)
            elif isinstance(known, SymInt):
                _note(name, known, value, symbols, later)
            elif type(known) is not type(value) or known != value:
                raise AssertionError(
                    f"{name} was {known!r} when the program was exported, and is part of it; got {value!r}. Export"
                    " once for each value."
                )
        numbers = {n: v for n, (v, _) in symbols.items()}
        for where, expected, size in later:
            if not expected.names <= set(numbers):
                continue
            wanted = expected.evaluate(numbers)
            if wanted != size:
                raise AssertionError(f"{where} must be {_words(expected, symbols)} = {wanted}, got {size}")
        self._check_ranges(symbols)
        for guard in () if self.env is None else self.env.guards:
            if guard.truth.names <= set(numbers) and _is_about_large(guard, numbers) and not guard.holds(numbers):
                raise AssertionError(
                    f"the arguments do not meet {_words(guard.truth, symbols)}, which the program assumed at "
                    f"{guard.location}"
                )

    def _check_tensor(self, name: str, known: Tensor, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise AssertionError(f"{name} must be a tensor, got {type(value).__name__}")
        if value.ndim != known.ndim:
            raise AssertionError(
                f"{name} must have {known.ndim} dims, as it had when it was exported, got {value.ndim}: "
                f"{tuple(value.shape)}"
            )
        if value.dtype is not known.dtype:
            raise AssertionError(f"{name} must be {known.dtype}, as it was when it was exported, got {value.dtype}")

    def _check_ranges(self, symbols: Mapping[str, tuple[int, str]]) -> None:
        for e, limits in self.ranges.items():
            name = e if isinstance(e, str) else e.sole_symbol
            if name not in symbols:
                continue
            value, where = symbols[name]
            if value < limits.lower or (limits.upper is not None and value > limits.upper):
                at_most = "" if limits.upper is None else f" and at most {limits.upper}"
                raise AssertionError(f"{where} must be at least {limits.lower}{at_most}, got {value}")


def _is_about_large(guard: Any, numbers: Mapping[str, int]) -> bool:
    """Guards are facts about sizes of 2 and more: graphs compute sizes 0 and 1 by the same nodes."""
    return all(numbers[n] >= 2 for n in guard.truth.names)


def _note(where: str, expected: Any, size: int, symbols: dict, later: list) -> None:
    if not isinstance(expected, SymInt):
        if size != expected:
            raise AssertionError(f"{where} must be {expected}, as it was when the program was exported, got {size}. "
                               "Name the dim in dynamic_shapes to let it vary.")
        return
    e = expected.expression
    name = e.sole_symbol
    if name is not None and name not in symbols:
        symbols[name] = (size, where)
        return
    atoms = list(e.names)
    if name is None and len(atoms) == 1 and atoms[0] not in symbols:      # of a symbol with no size of its own
        one, two = e.evaluate({atoms[0]: 1}), e.evaluate({atoms[0]: 2})
        value, rest = divmod(size - (2 * one - two), two - one)
        if rest:
            raise AssertionError(f"{where} must be {e!r} for some {atoms[0]}, got {size}")
        symbols[atoms[0]] = (value, where)
    later.append((where, e, size))


def _words(formula: Any, symbols: Mapping[str, tuple[int, str]]) -> str:
    """A formula with the user's places instead of symbols."""
    text = repr(formula)
    for name, (_, where) in sorted(symbols.items(), key=lambda item: -len(item[0])):
        text = text.replace(name, where)
    return text

"""Do two values agree? `assert_close` and the pair classes it is made of.

Enters: two tensors, arrays, numbers, truth values, Nones, or sequences and mappings of those in any depth. Leaves:
nothing, or an AssertionError with the count of differing elements, the greatest absolute and relative difference and
where they are. Refuses: inputs of unrelated types, one tolerance without the other, and layouts it cannot read.

Each kind of value has a `Pair` class, and the first in a list that accepts two inputs compares them; new kinds join by
subclassing `Pair` and passing their own list to `not_close_error_metas`.
"""

from __future__ import annotations

import abc
import cmath
import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from .. import _C
from .._C import Tensor
from ..base import shape as layouts
from ..base.promotion import promote_types
from ..op import find_op
from ..tensors.interop import as_tensor, tensor

# dtype -> (relative, absolute); a dtype not listed is compared for equality.
_TOLERANCES = {
    _C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5), _C.float64: (1e-7, 1e-7),
    _C.complex32: (1e-3, 1e-5), _C.complex64: (1.3e-6, 1e-5), _C.complex128: (1e-7, 1e-7),
}
_COMPRESSED = {
    layouts.sparse_csr: ("CSR", "crow_indices", "col_indices"),
    layouts.sparse_csc: ("CSC", "ccol_indices", "row_indices"),
    layouts.sparse_bsr: ("BSR", "crow_indices", "col_indices"),
    layouts.sparse_bsc: ("BSC", "ccol_indices", "row_indices"),
}
_READABLE = {layouts.strided, layouts.jagged, layouts.sparse_coo, *_COMPRESSED}
_WIDE_UNSIGNED = (_C.uint16, _C.uint32, _C.uint64)


class ErrorMeta(Exception):
    """A difference on its way to the user: the exception to raise, its message, and the path to the item."""

    def __init__(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> None:
        super().__init__(msg)
        self.type = type
        self.msg = msg
        self.id = id

    def to_error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """The exception, with the message replaced by `msg` or passed through it."""
        if isinstance(msg, str):
            return self.type(msg)
        text = self.msg
        if self.id:
            text += f"\n\nThe failure occurred for item {_path(self.id)}"
        return self.type(msg(text) if callable(msg) else text)


class UnsupportedInputs(Exception):
    """Raised by the constructor of a `Pair` for inputs that another kind of pair has to compare."""


def _path(id: tuple[Any, ...]) -> str:
    return "".join(f"[{key!r}]" for key in id)


def default_tolerances(
    *inputs: Any, dtype_precisions: dict[Any, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """The loosest (rtol, atol) among the inputs' dtypes."""
    table = dtype_precisions or _TOLERANCES
    found = []
    for given in inputs:
        if not isinstance(given, (Tensor, _C.dtype)):
            raise TypeError(f"default_tolerances: expected Tensors or dtypes, got {type(given)}.")
        found.append(table.get(given.dtype if isinstance(given, Tensor) else given, (0.0, 0.0)))
    return max(rtol for rtol, _ in found), max(atol for _, atol in found)


def get_tolerances(
    *inputs: Any, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """The tolerances given, or the defaults of the inputs' dtypes; one without the other is refused."""
    if rtol is None and atol is None:
        return default_tolerances(*inputs)
    if rtol is None or atol is None:
        missing = "rtol" if rtol is None else "atol"
        raise ErrorMeta(ValueError, f"rtol and atol go together, got no {missing}.", id=id)
    return rtol, atol


# --- messages ---------------------------------------------------------------------------------------------------------


def _named(default: str, identifier: str | Callable[[str], str] | None) -> str:
    return identifier(default) if callable(identifier) else identifier or default


def _report(title: str, extra: str, rows: Sequence[tuple[str, Any, tuple | None, float]], exact: bool) -> str:
    """The message: what differs, the `extra` line, then one line per (kind, difference, index, allowance)."""
    lines = [f"{title} are not {'equal' if exact else 'close'}!", "", extra]
    for kind, difference, index, allowed in rows:
        line = (
            f"{kind.title()} difference: {difference}"
            if index is None
            else f"Greatest {kind} difference: {difference} at index {index}"
        )
        lines.append(line if exact else f"{line} (up to {allowed} allowed)")
    return "\n".join(lines)


def make_scalar_mismatch_msg(
    actual: complex,
    expected: complex,
    *,
    rtol: float,
    atol: float,
    identifier: str | Callable[[str], str] | None = None,
) -> str:
    """What to say of two numbers that differ."""
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    rows = (("absolute", absolute, None, atol), ("relative", relative, None, rtol))
    return _report(
        _named("Scalars", identifier), f"Expected {expected} but got {actual}.", rows, rtol == 0 and atol == 0
    )


def make_tensor_mismatch_msg(
    actual: Tensor,
    expected: Tensor,
    matches: Tensor,
    *,
    rtol: float,
    atol: float,
    identifier: str | Callable[[str], str] | None = None,
) -> str:
    """What to say of two tensors whose elements differ where `matches` is False."""
    title, total = _named("Tensor-likes", identifier), matches.numel()
    count = total - int(matches.sum())
    extra = f"Mismatched elements: {count} / {total} ({count / total:.1%})"
    if _is_byte_float(actual):  # too coarse for a difference to mean anything
        first = tuple((~matches).nonzero()[0].tolist())
        return f"{title} are not 'equal'!\n\n{extra}\nThe first mismatched element is at index {first}."

    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        actual, expected = actual.to(_C.int64), expected.to(_C.int64)  # so that no difference overflows
    distance = (actual.detach() - expected.detach()).abs().masked_fill_(matches, 0)
    ratio = (distance / expected.detach().abs()).masked_fill_(matches, 0)
    rows = [
        (kind, *_greatest(found), allowed)
        for kind, found, allowed in (("absolute", distance, atol), ("relative", ratio, rtol))
    ]
    return _report(title, extra, rows, rtol == 0 and atol == 0)


def _greatest(values: Tensor) -> tuple[Any, tuple[int, ...]]:
    """The largest element (NaN counts as largest) and its index."""
    value, flat = values.flatten().max(0)
    place, index = int(flat), []
    for size in reversed(values.shape):
        place, rest = divmod(place, size)
        index.append(rest)
    return value.item(), tuple(reversed(index))


def _is_byte_float(t: Tensor) -> bool:
    return t.dtype.is_floating_point and t.dtype.itemsize == 1


# --- pairs ------------------------------------------------------------------------------------------------------------


class Pair(abc.ABC):
    """Two inputs and how to compare them; every pair is constructed with all options and keeps those it knows."""

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), **unknown_parameters: Any) -> None:
        self.actual = actual
        self.expected = expected
        self.id = id
        self._unknown_parameters = unknown_parameters

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs: Any, cls: type | tuple[type, ...]) -> None:
        if not all(isinstance(given, cls) for given in inputs):
            raise UnsupportedInputs

    def _fail(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> NoReturn:
        raise ErrorMeta(type, msg, id=id or getattr(self, "id", ()))

    @abc.abstractmethod
    def compare(self) -> None:
        """Raise an `ErrorMeta` when the inputs differ."""

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """Names of attributes, or (name, value) pairs, that `repr` shows besides the inputs."""
        return []

    def __repr__(self) -> str:
        shown = ["id", "actual", "expected", *self.extra_repr()]
        rows = [(entry, getattr(self, entry)) if isinstance(entry, str) else entry for entry in shown]
        return "\n".join([f"{type(self).__name__}(", *(f"    {name}={value!s}," for name, value in rows), ")"])


class ObjectPair(Pair):
    """Any two objects, compared by `==`."""

    def compare(self) -> None:
        try:
            equal = self.actual == self.expected
        except Exception as error:
            raise ErrorMeta(
                ValueError, f"{self.actual} == {self.expected} failed with:\n{error}.", id=self.id
            ) from error
        if not equal:
            self._fail(AssertionError, f"{self.actual} != {self.expected}")


class NonePair(Pair):
    """Inputs of which at least one is None."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        if self.actual is not self.expected:
            self._fail(AssertionError, f"None mismatch: {self.actual} is not {self.expected}")


class BooleanPair(Pair):
    """Two truth values, Python's or NumPy's."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        super().__init__(bool(actual), bool(expected), **other_parameters)

    @property
    def _supported_types(self) -> tuple[type, ...]:
        numpy = sys.modules.get("numpy")  # nothing can be of NumPy's types before NumPy is there
        return (bool, numpy.bool_) if numpy else (bool,)

    def compare(self) -> None:
        if self.actual is not self.expected:
            self._fail(AssertionError, f"Booleans mismatch: {self.actual} is not {self.expected}")


class NumberPair(Pair):
    """Two numbers, Python's or NumPy's, compared with the tolerances of int64, float64 and complex128."""

    _TYPE_TO_DTYPE = {int: _C.int64, float: _C.float64, complex: _C.complex128}
    _NUMBER_TYPES = tuple(_TYPE_TO_DTYPE)

    def __init__(
        self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), rtol: float | None = None,
        atol: float | None = None, equal_nan: bool = False, check_dtype: bool = False, **other_parameters: Any,
    ) -> None:
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        if isinstance(actual, bool) or isinstance(expected, bool):
            self._inputs_not_supported()  # a truth value is an int to Python, a dtype of its own here
        actual, expected = (
            number if type(number) in self._TYPE_TO_DTYPE else self._plain(number) for number in (actual, expected)
        )
        super().__init__(actual, expected, id=id, **other_parameters)
        dtypes = [self._TYPE_TO_DTYPE[type(number)] for number in (actual, expected)]
        self.rtol, self.atol = get_tolerances(*dtypes, rtol=rtol, atol=atol, id=id)
        self.equal_nan = equal_nan
        self.check_dtype = check_dtype

    @property
    def _supported_types(self) -> tuple[type, ...]:
        numpy = sys.modules.get("numpy")
        return (*self._NUMBER_TYPES, numpy.number) if numpy else self._NUMBER_TYPES

    def _plain(self, number: Any) -> complex:
        """A NumPy number, or one of a subclass (IntEnum), as the Python number it stands for."""
        if hasattr(number, "item"):
            return number.item()
        return next(kind(number) for kind in self._NUMBER_TYPES if isinstance(number, kind))

    def compare(self) -> None:
        if self.check_dtype and type(self.actual) is not type(self.expected):
            self._fail(AssertionError, f"The (d)types do not match: {type(self.actual)} != {type(self.expected)}.")
        if self.actual == self.expected:
            return
        if self.equal_nan and cmath.isnan(self.actual) and cmath.isnan(self.expected):
            return
        difference = abs(self.actual - self.expected)
        if cmath.isfinite(difference) and difference <= self.atol + self.rtol * abs(self.expected):
            return
        self._fail(AssertionError, make_scalar_mismatch_msg(self.actual, self.expected, rtol=self.rtol, atol=self.atol))

    def extra_repr(self) -> Sequence[str]:
        return ("rtol", "atol", "equal_nan", "check_dtype")


class TensorLikePair(Pair):
    """Two tensors, or two values of one family that tensors can be made of."""

    def __init__(
        self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), allow_subclasses: bool = True,
        rtol: float | None = None, atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
        check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False, **other_parameters: Any,
    ) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id, allow_subclasses=allow_subclasses)
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = get_tolerances(actual, expected, rtol=rtol, atol=atol, id=id)
        self.equal_nan = equal_nan
        self.check_device = check_device
        self.check_dtype = check_dtype
        self.check_layout = check_layout
        self.check_stride = check_stride

    def _process_inputs(
        self, actual: Any, expected: Any, *, id: tuple[Any, ...], allow_subclasses: bool
    ) -> tuple[Tensor, Tensor]:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or (not allow_subclasses and type(actual) is not type(expected)):
            self._inputs_not_supported()
        result = self._to_tensor(actual), self._to_tensor(expected)
        for t in result:
            if t.layout not in _READABLE:
                raise ErrorMeta(ValueError, f"Unsupported tensor layout {t.layout}", id=id)
        return result

    def _to_tensor(self, tensor_like: Any) -> Tensor:
        if isinstance(tensor_like, Tensor):
            return tensor_like
        try:
            return as_tensor(tensor_like)
        except Exception:
            self._inputs_not_supported()

    def compare(self) -> None:
        self._compare_attributes(self.actual, self.expected)
        if "meta" not in (self.actual.device.type, self.expected.device.type):
            self._compare_values(*self._equalize_attributes(self.actual, self.expected))

    def _compare_attributes(self, actual: Tensor, expected: Tensor) -> None:
        """Shape always; layout, stride, device and dtype as asked."""
        same_layout = actual.layout == expected.layout
        checks = (
            ("shape", True, lambda t: t.shape),
            ("is_quantized", True, lambda t: t.is_quantized),
            ("layout", self.check_layout, lambda t: t.layout),
            ("stride()", self.check_stride and same_layout and actual.layout == layouts.strided, lambda t: t.stride()),
            ("device", self.check_device, lambda t: t.device),
            ("dtype", self.check_dtype, lambda t: t.dtype),
            ("qscheme()", actual.is_quantized and expected.is_quantized, lambda t: t.qscheme()),
        )
        for name, wanted, read in checks:
            if wanted and read(actual) != read(expected):
                self._fail(
                    AssertionError,
                    f"The values for attribute '{name}' do not match: {read(actual)} != {read(expected)}.",
                )

    def _equalize_attributes(self, actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
        """Both on one device (the CPU), of one dtype (the promoted one) and one layout (strided), where they differ;
        of quantized tensors, the numbers."""
        if actual.is_quantized:
            actual, expected = actual.dequantize(), expected.dequantize()
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        if actual.dtype != expected.dtype:
            # Promotion does not mix the wide unsigned dtypes with others; a test's values fit in int64.
            dtypes = [_C.int64 if t.dtype in _WIDE_UNSIGNED else t.dtype for t in (actual, expected)]
            common = promote_types(*dtypes)
            actual, expected = actual.to(common), expected.to(common)
        if actual.layout != expected.layout:
            actual, expected = (t if t.layout == layouts.strided else t.to_dense() for t in (actual, expected))
        return actual, expected

    def _compare_values(self, actual: Tensor, expected: Tensor) -> None:
        tolerances = {"rtol": self.rtol, "atol": self.atol, "equal_nan": self.equal_nan}
        if actual.layout == layouts.sparse_coo:
            self._compare_sparse_coo_values(actual, expected, **tolerances)
        elif actual.layout in _COMPRESSED:
            self._compare_sparse_compressed_values(actual, expected, **tolerances)
        elif actual.layout == layouts.jagged:
            self._compare_regular_values_close(actual.values(), expected.values(), **tolerances)
        elif _is_byte_float(actual) and (self.rtol != 0.0 or self.atol != 0.0):
            self._fail(AssertionError, f"rtol={self.rtol} and atol={self.atol}: 8-bit floats are compared bit by "
                       "bit. Use rtol=0.0 and atol=0.0.")
        else:
            self._compare_regular_values_close(actual, expected, **tolerances)

    def _compare_counts(self, what: str, actual: int, expected: int) -> None:
        if actual != expected:
            self._fail(AssertionError, f"The number of {what} tensors does not match: {actual} != {expected}")

    def _compare_sparse_coo_values(self, actual: Tensor, expected: Tensor, **tolerances: Any) -> None:
        self._compare_counts("sparse dimensions in sparse COO", actual.sparse_dim(), expected.sparse_dim())
        self._compare_counts("specified values in sparse COO", actual._nnz(), expected._nnz())
        self._compare_regular_values_equal(actual._indices(), expected._indices(), identifier="Sparse COO indices")
        self._compare_regular_values_close(
            actual._values(), expected._values(), identifier="Sparse COO values", **tolerances
        )

    def _compare_sparse_compressed_values(self, actual: Tensor, expected: Tensor, **tolerances: Any) -> None:
        name, *index_names = _COMPRESSED[actual.layout]
        self._compare_counts(f"specified values in sparse {name}", actual._nnz(), expected._nnz())
        for method in index_names:
            ours, theirs = getattr(actual, method)(), getattr(expected, method)()
            common = promote_types(ours.dtype, theirs.dtype)  # 32- and 64-bit indices may meet
            self._compare_regular_values_equal(ours.to(common), theirs.to(common), identifier=f"Sparse {name} {method}")
        self._compare_regular_values_close(
            actual.values(), expected.values(), identifier=f"Sparse {name} values", **tolerances
        )

    def _compare_regular_values_equal(
        self, actual: Tensor, expected: Tensor, *, equal_nan: bool = False, identifier: Any = None
    ) -> None:
        self._compare_regular_values_close(actual, expected, rtol=0, atol=0, equal_nan=equal_nan, identifier=identifier)

    def _compare_regular_values_close(
        self, actual: Tensor, expected: Tensor, *, rtol: float, atol: float, equal_nan: bool, identifier: Any = None
    ) -> None:
        matches = find_op("isclose")(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
        if matches.all():
            return
        options = {"rtol": rtol, "atol": atol, "identifier": identifier}
        if actual.ndim == 0:
            self._fail(AssertionError, make_scalar_mismatch_msg(actual.item(), expected.item(), **options))
        self._fail(AssertionError, make_tensor_mismatch_msg(actual, expected, matches, **options))

    def extra_repr(self) -> Sequence[str]:
        return ("rtol", "atol", "equal_nan", "check_device", "check_dtype", "check_layout", "check_stride")


# --- walking containers -----------------------------------------------------------------------------------------------


def originate_pairs(
    actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]], sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,), id: tuple[Any, ...] = (), **options: Any,
) -> list[Pair]:
    """The pairs to compare: the inputs themselves, or those of their elements if both are sequences or both
    mappings."""
    shared = {"pair_types": pair_types, "sequence_types": sequence_types, "mapping_types": mapping_types, **options}
    keys = _shared_keys(actual, expected, sequence_types, mapping_types, id)
    if keys is None:
        return [_pair(actual, expected, pair_types, id, options)]
    return [pair for key in keys for pair in originate_pairs(actual[key], expected[key], id=(*id, key), **shared)]


def _shared_keys(actual: Any, expected: Any, sequences: tuple, mappings: tuple, id: tuple) -> Sequence[Any] | None:
    """Indices or keys of two containers alike, None when the inputs are no containers."""
    both = (actual, expected)
    # A string is a sequence of strings without end.
    if all(isinstance(given, sequences) and not isinstance(given, str) for given in both):
        if len(actual) != len(expected):
            raise ErrorMeta(
                AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", id=id
            )
        return range(len(actual))
    if all(isinstance(given, mappings) for given in both):
        ours, theirs = set(actual.keys()), set(expected.keys())
        if ours != theirs:
            lines = ("The keys of the mappings do not match:",
                     f"Missing keys in the actual mapping: {sorted(theirs - ours)}",
                     f"Additional keys in the actual mapping: {sorted(ours - theirs)}")
            raise ErrorMeta(AssertionError, "\n".join(lines), id=id)
        keys = list(ours)
        with contextlib.suppress(Exception):  # keys of mixed types have no order
            keys.sort()
        return keys
    return None


def _pair(actual: Any, expected: Any, pair_types: Sequence[type[Pair]], id: tuple, options: dict[str, Any]) -> Pair:
    for kind in pair_types:
        with contextlib.suppress(UnsupportedInputs):
            return kind(actual, expected, id=id, **options)
    raise ErrorMeta(TypeError, f"no comparison takes {type(actual)} and {type(expected)}.", id=id)


def _differences(pairs: Sequence[Pair]) -> Iterator[ErrorMeta]:
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as difference:
            yield difference.with_traceback(None)  # whose frames would keep the tensors alive
        except Exception as error:
            raise RuntimeError(f"Comparing\n\n{pair}\n\nfailed with {type(error).__name__}: {error}") from error


def not_close_error_metas(
    actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]] = (ObjectPair,),
    sequence_types: tuple[type, ...] = (Sequence,), mapping_types: tuple[type, ...] = (Mapping,), **options: Any,
) -> list[ErrorMeta]:
    """Every difference between the inputs; inputs that cannot be compared at all raise."""
    __tracebackhide__ = True
    try:
        pairs = originate_pairs(
            actual,
            expected,
            pair_types=pair_types,
            sequence_types=sequence_types,
            mapping_types=mapping_types,
            **options,
        )
    except ErrorMeta as difference:
        raise difference.to_error() from None
    return list(_differences(pairs))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere, and infinities match.

    Tolerances left out follow the dtypes: (rtol, atol) is (1.3e-6, 1e-5) for float32, (1e-7, 1e-7) for float64,
    (1e-3, 1e-5) for float16, (1.6e-2, 1e-5) for bfloat16, the same for complex numbers of such parts, and zero for all
    others. Device, dtype, layout (and stride, if asked) must agree unless the check is switched off. `msg` replaces the
    message, or is called with it.
    """
    __tracebackhide__ = True
    differences = not_close_error_metas(
        actual, expected, pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair),
        allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device,
        check_dtype=check_dtype, check_layout=check_layout, check_stride=check_stride, msg=msg,
    )
    if differences:
        raise differences[0].to_error(msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older, looser comparison: dtypes may differ and NaNs agree. Deprecated in favour of `assert_close`."""
    message = "`torch.testing.assert_allclose()` is deprecated since 1.12; use `torch.testing.assert_close()` instead."
    warnings.warn(message, FutureWarning, stacklevel=2)
    if not isinstance(actual, Tensor):
        actual = tensor(actual)
    if not isinstance(expected, Tensor):
        expected = tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        loose = {_C.float16: (1e-3, 1e-3), _C.float32: (1e-4, 1e-5), _C.float64: (1e-5, 1e-8)}
        rtol, atol = default_tolerances(actual, expected, dtype_precisions=loose)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)

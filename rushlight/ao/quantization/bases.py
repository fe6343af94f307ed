"""What observers and fake quantizers derive from: constructors with settings, abstract classes, granularities.

Enters: settings. Leaves: classes that `observer.py` and `fake_quantize.py` complete and publish as theirs. Refuses:
a granularity it does not know.
"""

from __future__ import annotations

import functools
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ... import _C
from ..._C import Tensor
from ...nn import Module
from ...tensors.interop import tensor

ABC: Any = ABCMeta("ABC", (object,), {})


class _PartialWrapper:
    """A constructor with some arguments given, and others (`callable_args`) made anew at each call."""

    def __init__(self, p: Callable) -> None:
        self.p = p
        self.callable_args: dict[str, Callable] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        made = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **keywords, **made)

    def __repr__(self) -> str:
        return f"{self.p!r}{self.callable_args!r}"

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        """A constructor with these arguments given too."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Callable) -> _PartialWrapper:
        """A constructor with these arguments made, by the functions given, at each call."""
        wrapper = _PartialWrapper(self.p)
        wrapper.callable_args = {**self.callable_args, **kwargs}
        return wrapper


def _with_args(cls_or_self: Any, **kwargs: Any) -> _PartialWrapper:
    """A constructor of the same things with these arguments given: `MinMaxObserver.with_args(dtype=torch.qint8)`."""
    return _PartialWrapper(functools.partial(cls_or_self, **kwargs))


def _with_callable_args(cls_or_self: Any, **kwargs: Callable) -> _PartialWrapper:
    """The same, with functions that make the arguments at each call."""
    return _with_args(cls_or_self).with_callable_args(**kwargs)


class ObserverBase(ABC, Module):
    """What every observer is: a module with the dtype it maps to, `forward` and `calculate_qparams`."""

    def __init__(self, dtype: _C.dtype, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Look at `x` and give it back."""

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """(scale, zero point) for what was seen."""

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


class FakeQuantizeBase(ABC, Module):
    """What every fake quantizer is: a module that rounds as quantization would, with two switches in its state."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        # buffers and no flags, so that replicas of a model on several devices share their switches
        for switch in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(switch, tensor([1], dtype=_C.uint8))

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """`x`, rounded where the switch is on."""

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """(scale, zero point) in force."""

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round from now on, or pass tensors as they are."""
        self.fake_quant_enabled[0] = int(enabled)

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Observe from now on, or keep the qparams as they are."""
        self.observer_enabled[0] = int(enabled)

    def disable_observer(self) -> None:
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """A constructor with these arguments given."""
        constructor = _with_args(cls, **kwargs)
        constructor.__module__ = FakeQuantizeBase.__module__    # a qconfig's text names it by where it stands
        return constructor


# How torchao says what shares a scale ---------------------------------------------------------------------------------


# How floats become integers: around 0, the same with both ends kept, or from the smallest to the largest.
MappingType = Enum("MappingType", "SYMMETRIC SYMMETRIC_NO_CLIPPING_ERR ASYMMETRIC")
ZeroPointDomain = Enum("ZeroPointDomain", "INT FLOAT NONE")     # whether zero points are integers, floats, or absent
TorchAODType = Enum("TorchAODType", "INT1 INT2 INT3 INT4 INT5 INT6 INT7")   # integers that tensors have no dtype for


@dataclass(frozen=True)
class Granularity:
    """Which elements of a tensor share a scale."""


@dataclass(frozen=True)
class PerBlock(Granularity):
    """Those of a block of these sizes."""

    block_size: tuple[int, ...]


@dataclass(frozen=True)
class PerTensor(Granularity):
    """All of them."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """Those at one index of `axis`."""

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """Those of a group of so many neighbours in a row."""

    group_size: int


class PerRow(Granularity):
    """Those of a row."""


class PerToken(Granularity):
    """Those of the last dim, for all others."""


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """The sizes of the blocks whose elements share a scale, of a tensor of this shape."""
    match granularity:
        case PerTensor():
            return input_shape
        case PerAxis(axis):
            kept = axis % len(input_shape)
            return tuple(1 if dim == kept else size for dim, size in enumerate(input_shape))
        case PerRow() | PerToken():
            return (*(1 for _ in input_shape[:-1]), input_shape[-1])
        case PerGroup(group_size):
            if len(input_shape) != 2:
                raise AssertionError(f"PerGroup: expected an input of 2 dims, got the shape {tuple(input_shape)}")
            return (1, group_size)
        case Granularity():
            raise ValueError(f"Unsupported Granularity: {granularity}")
    raise AssertionError(f"granularity: expected an object of a Granularity class, got {granularity!r}")


class AffineQuantizedObserverBase(ABC, Module):
    """What torchao's observers are: settings of an affine mapping, and where in a graph its two ops go."""

    with_args = classmethod(_with_args)

    def __init__(
        self, mapping_type: MappingType, target_dtype: _C.dtype, granularity: Granularity,
        quant_min: int | None = None, quant_max: int | None = None, eps: float | None = None,
        scale_dtype: _C.dtype | None = None, zero_point_dtype: _C.dtype | None = None, preserve_zero: bool = True,
        zero_point_domain: ZeroPointDomain | None = ZeroPointDomain.INT, **kwargs: Any,
    ) -> None:
        super().__init__()
        if granularity is None:
            raise AssertionError("granularity: expected an object of a Granularity class, got None")
        self.mapping_type, self.target_dtype, self.granularity = mapping_type, target_dtype, granularity
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.scale_dtype, self.zero_point_dtype = scale_dtype, zero_point_dtype
        self.preserve_zero, self.zero_point_domain = preserve_zero, zero_point_domain
        # subclasses find these out in `forward`
        self.block_size: tuple[int, ...] | None = None
        self.original_dtype: _C.dtype | None = None

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Look at `input` and give it back."""

    @abstractmethod
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero point) for what was seen."""


for _name, _kinds in {
    "observer": (
        _PartialWrapper, ObserverBase, MappingType, ZeroPointDomain, TorchAODType, Granularity, PerBlock, PerTensor,
        PerAxis, PerGroup, PerRow, PerToken, AffineQuantizedObserverBase, get_block_size, _with_args,
        _with_callable_args,
    ),
    "fake_quantize": (FakeQuantizeBase,),
}.items():
    for _kind in _kinds:    # where programs find them, and files name them
        _kind.__module__ = f"{__name__.rpartition('.')[0]}.{_name}"

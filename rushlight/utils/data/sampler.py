"""Samplers: orders in which a dataset is read.

Enters: the size of a dataset, weights or indices, a generator. Leaves: indices, or (`BatchSampler`) lists of them, in
PyTorch's order for the same seed. Refuses: sizes that are not positive integers, weights that are not 1-D.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from ..._C import Generator, Tensor, float64, int64
from ...op import find_op
from ...tensors.interop import as_tensor

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)


def draw_seed(generator: Generator | None = None) -> int:
    """One non-negative 63-bit number from `generator`, as PyTorch draws seeds for samplers and workers."""
    return find_op("empty")((), dtype=int64).random_(generator=generator).item()


def _is_positive_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Sampler(Generic[_T_co]):
    """An iterable of indices. Subclasses give `__iter__`, and `__len__` where the length is known."""

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random permutation, as many as it takes for `num_samples`; independent draws with `replacement`."""

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement: expected a bool, got {replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples: expected a positive int, got {self.num_samples}")

    @property
    def num_samples(self) -> int:
        # Asked every time: a dataset may grow.
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(draw_seed())
        draw = self._draws if self.replacement else self._permutations
        yield from draw(size, generator)

    def _draws(self, size: int, generator: Generator) -> Iterator[int]:
        # 32 at a time, the last draw even when nothing is left: the generator then moves on as PyTorch's does.
        randint = find_op("randint")
        whole, rest = divmod(self.num_samples, 32)
        for count in itertools.chain(itertools.repeat(32, whole), (rest,)):
            yield from randint(high=size, size=(count,), dtype=int64, generator=generator).tolist()

    def _permutations(self, size: int, generator: Generator) -> Iterator[int]:
        randperm = find_op("randperm")
        whole, rest = divmod(self.num_samples, size)
        for _ in range(whole):
            yield from randperm(size, generator=generator).tolist()
        # Drawn even when `rest` is 0: the generator then moves on as PyTorch's does.
        yield from randperm(size, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices, in random order."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in find_op("randperm")(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices drawn with probabilities in proportion to `weights`."""

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        if not _is_positive_int(num_samples):
            raise ValueError(f"num_samples: expected a positive int, got {num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement: expected a bool, got {replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueError(f"weights: expected one dimension, got shape {tuple(self.weights.shape)}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = find_op("multinomial")(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` consecutive indices of `sampler`; the last may be shorter, or dropped."""

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not _is_positive_int(batch_size):
            raise ValueError(f"batch_size: expected a positive int, got {batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last: expected a bool, got {drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        total = len(self.sampler)  # type: ignore[arg-type]
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)

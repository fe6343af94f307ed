"""Fuzzer: parameters and tensors drawn at random, the same for the same seed as PyTorch draws them.

Enters: distributions of parameters, and tensors whose sizes and steps name them. Leaves: (tensors, properties,
parameters) per draw. Refuses: cycles of aliases, and constraints no draw meets. NumPy is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from numbers import Number
from typing import Any

from ... import _C
from ...op import find_op

DISTRIBUTIONS = ("loguniform", "uniform")


class ParameterAlias:
    """A value of a distribution that stands for another parameter's value."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number between `minval` and `maxval`, or one of the keys of a dict of probabilities.
    A strict one is drawn once per try."""

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name, self._minval, self._maxval, self.strict = name, minval, maxval, strict
        if isinstance(distribution, dict):
            if any(p < 0 for p in distribution.values()):
                raise AssertionError(f"Probabilities cannot be negative, got {list(distribution.values())}")
            if abs(sum(distribution.values()) - 1) > 1e-5:
                raise AssertionError(f"Distribution is not normalized: it sums to {sum(distribution.values())}")
            if minval is not None or maxval is not None:
                raise AssertionError("FuzzedParameter: a custom distribution has neither 'minval' nor 'maxval'")
        elif distribution not in DISTRIBUTIONS:
            raise AssertionError(f"Unknown distribution: {distribution}")
        self._distribution = distribution

    @property
    def name(self) -> str:
        return self._name

    def sample(self, state: Any) -> Any:
        """A value, drawn from a NumPy RandomState."""
        low, high = self._minval, self._maxval
        if isinstance(self._distribution, dict):
            keys = list(self._distribution)
            return keys[state.choice(range(len(keys)), p=tuple(self._distribution.values()))]
        if self._distribution == "uniform":
            return (
                int(state.randint(low=low, high=high + 1))
                if isinstance(low, int) and isinstance(high, int)
                else state.uniform(low=low, high=high)
            )
        return min(max(int(2 ** state.uniform(low=math.log2(low), high=math.log2(high))), low), high)


class FuzzedTensor:
    """A tensor of sizes that name parameters: maybe a slice with steps of a larger one,
    maybe with its dims in another order in memory."""

    def __init__(
        self, name: str, size: tuple[str | int, ...], steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5, min_elements: int | None = None, max_elements: int | None = None,
        max_allocation_bytes: int | None = None, dim_parameter: str | None = None,
        roll_parameter: str | None = None, dtype: Any = _C.float32, cuda: bool = False,
        tensor_constructor: Callable | None = None,
    ) -> None:
        # Nothing is rolled: PyTorch takes the argument and reads it nowhere.
        self._cuda = cuda
        self._name, self._size, self._steps, self._dtype = name, size, steps, dtype
        self._probability_contiguous, self._dim_parameter = probability_contiguous, dim_parameter
        self._min_elements, self._max_elements, self._max_allocation_bytes = (
            min_elements,
            max_elements,
            max_allocation_bytes,
        )
        self._tensor_constructor = tensor_constructor

    @property
    def name(self) -> str:
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Any, dtype: Any, **kwargs: Any) -> Any:
        """Uniform numbers."""
        if dtype.is_floating_point or dtype.is_complex:
            return find_op("rand")(size, dtype=dtype)
        return find_op("randint")(1, 127, size, dtype=dtype)

    def _get_size_and_steps(self, params: dict[str, Any]) -> tuple[tuple, tuple, tuple]:
        dim = params[self._dim_parameter] if self._dim_parameter is not None else len(self._size)

        def resolve(values: tuple) -> tuple:
            known = tuple(params.get(v, v) for v in values)[:dim]
            return known + (1,) * (dim - len(known))

        size, steps = resolve(self._size), resolve(self._steps or ())
        return size, steps, tuple(s * t for s, t in zip(size, steps, strict=True))

    def _make_tensor(self, params: dict[str, Any], state: Any) -> tuple[Any, dict[str, Any]]:
        size, steps, allocated = self._get_size_and_steps(params)
        raw = (self._tensor_constructor or self.default_tensor_constructor)(size=allocated, dtype=self._dtype, **params)
        raw = raw.cuda() if self._cuda else raw
        import numpy as np  # noqa: PLC0415 - loaded when first needed

        order = plain = np.arange(len(size))
        if state.rand() > self._probability_contiguous:
            while len(size) > 1 and (order == plain).all():
                order = state.permutation(len(size))
            raw = raw.permute(order.tolist()).contiguous().permute(order.argsort().tolist())
        result = raw[tuple(slice(0, s * t, t) for s, t in zip(size, steps, strict=True))]
        return result, {
            "numel": result.numel(),
            "order": order,
            "steps": steps,
            "is_contiguous": result.is_contiguous(),
            "dtype": str(self._dtype),
        }

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the sizes are within the limits."""
        size, _, allocated = self._get_size_and_steps(params)
        count, room = math.prod(size), math.prod(allocated) * self._dtype.itemsize
        low, high, most = self._min_elements, self._max_elements, self._max_allocation_bytes
        return (low is None or count >= low) and (high is None or count <= high) and (most is None or room <= most)


class FuzzedSparseTensor(FuzzedTensor):
    """A sparse tensor with a share of elements, coalesced or with every index twice. `density`, `coalesced` and
    `sparse_dim` name parameters; `nnz` follows from the density, as in PyTorch."""

    def __init__(self, name: str, size: tuple[str | int, ...], min_elements: int | None = None,
                 max_elements: int | None = None, dim_parameter: str | None = None, sparse_dim: str | None = None,
                 nnz: str | None = None, density: str | None = None, coalesced: str | None = None,
                 dtype: Any = _C.float32, cuda: bool = False) -> None:
        super().__init__(name, size, min_elements=min_elements, max_elements=max_elements,
                         dim_parameter=dim_parameter, dtype=dtype, cuda=cuda)
        self._density, self._coalesced, self._sparse_dim = density, coalesced, sparse_dim

    @staticmethod
    def sparse_tensor_constructor(size: Any, dtype: Any, sparse_dim: int, nnz: int, is_coalesced: bool) -> Any:
        """A tensor of `nnz` random elements: coalesced, or with a second value for each of their indices."""
        size = [size] * sparse_dim if isinstance(size, Number) else list(size)
        if nnz and all(s <= 0 for s in size[:sparse_dim]):
            raise AssertionError(f"FuzzedSparseTensor: no room for {nnz} elements in sizes {size[:sparse_dim]}")
        values = FuzzedTensor.default_tensor_constructor((nnz, *size[sparse_dim:]), dtype)
        places = find_op("rand")((sparse_dim, nnz))
        for row, s in zip(places, size, strict=False):
            row.mul_(s)
        places = places.to(_C.int64)
        if not is_coalesced:
            values = find_op("cat")([values, find_op("randn_like")(values)], 0)
            places = find_op("cat")([places, places], 1)
        found = find_op("sparse_coo_tensor")(places, values, size)
        return found.coalesce() if is_coalesced else found

    def _make_tensor(self, params: dict[str, Any], state: Any) -> tuple[Any, dict[str, Any]]:
        size, _, _ = self._get_size_and_steps(params)
        density = params[self._density or "density"]
        nnz = math.ceil(sum(size) * density)
        if nnz > sum(size):
            raise AssertionError(f"FuzzedSparseTensor: expected a density of at most 1, got {density}")
        wanted = params[self._sparse_dim] if self._sparse_dim else len(size)
        result = self.sparse_tensor_constructor(
            size, self._dtype, min(wanted, len(size)), nnz, params[self._coalesced or "coalesced"]
        )
        result = result.cuda() if self._cuda else result
        facts = {"numel": result.numel(), "shape": result.size(), "is_coalesced": result.is_coalesced(),
                 "density": density, "sparsity": 1.0 - density, "sparse_dim": result.sparse_dim(),
                 "dense_dim": result.dense_dim(), "is_hybrid": len(size) > result.sparse_dim(),
                 "dtype": str(self._dtype)}
        return result, facts


class Fuzzer:
    """Draws parameters until they meet the constraints, then makes the tensors."""

    def __init__(
        self,
        parameters: list[Any],
        tensors: list[Any],
        constraints: list[Callable] | None = None,
        seed: int | None = None,
    ) -> None:
        import numpy as np  # noqa: PLC0415 - loaded when first needed

        self._seed = int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64)) if seed is None else seed
        self._parameters, self._tensors = self._unpack(parameters, FuzzedParameter), self._unpack(tensors, FuzzedTensor)
        self._constraints = constraints or ()
        both = {p.name for p in self._parameters} & {t.name for t in self._tensors}
        if both:
            raise ValueError(f"Duplicate names in parameters and tensors: {both}")
        self._rejections = self._total_generated = 0

    @staticmethod
    def _unpack(values: list[Any], cls: type) -> tuple:
        return tuple(v for value in values for v in ([value] if isinstance(value, cls) else value))

    def take(self, n: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """`n` draws: tensors by name, their properties, and the parameters."""
        import numpy as np  # noqa: PLC0415

        state = np.random.RandomState(self._seed)
        _C.default_generator.manual_seed(int(state.randint(low=0, high=2**63, dtype=np.int64)))
        for _ in range(n):
            params = self._generate(state)
            result = {t.name: t._make_tensor(params, state) for t in self._tensors}
            yield {name: t for name, (t, _) in result.items()}, {
                name: facts for name, (_, facts) in result.items()
            }, params

    @property
    def rejection_rate(self) -> float:
        """The share of draws the constraints refused."""
        return self._rejections / self._total_generated if self._total_generated else 0.0

    def _generate(self, state: Any) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for _ in range(1000):
            params = {}
            for p in self._parameters:
                params[p.name] = kept[p.name] if p.strict and p.name in kept else p.sample(state)
                if p.strict:
                    kept[p.name] = params[p.name]
            params = self._resolve_aliases(params)
            self._total_generated += 1
            if all(f(params) for f in self._constraints) and all(
                t.satisfies_constraints(params) for t in self._tensors
            ):
                return params
            self._rejections += 1
        raise ValueError("Fuzzer: Failed to generate parameters that the constraints allow.")

    @staticmethod
    def _resolve_aliases(params: dict[str, Any]) -> dict[str, Any]:
        for name in params:
            seen = {name}
            while isinstance(params[name], ParameterAlias):
                target = params[name].alias_to
                if target in seen:
                    raise ValueError(f"ParameterAlias cycle detected\n{params}")
                seen.add(target)
                params[name] = params[target]
        return params

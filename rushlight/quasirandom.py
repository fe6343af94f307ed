"""`torch.quasirandom`: points that fill a cube evenly (Sobol's sequence), plain or scrambled.

Enters: a dimension, and a seed where the sequence is scrambled. Leaves: points in the order and with the digits of
PyTorch. The direction numbers are Joe and Kuo's (criterion D(6), 21201 dimensions), which SciPy carries: without SciPy
an engine is refused. A point is written down rather than stepped to: the k-th is the shift, xor-ed with the direction
numbers that the Gray code of k picks.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from ._C import Generator, Tensor, float64, int64
from .base.promotion import default_dtype
from .op import find_op
from .tensors.interop import from_numpy

__all__ = ["SobolEngine"]

_arange, _cat, _randint, _zeros = find_op("arange"), find_op("cat"), find_op("randint"), find_op("zeros")


def _table() -> Any:
    """Joe and Kuo's polynomials and first direction numbers, out of SciPy's files."""
    found = importlib.util.find_spec("scipy")
    origin = None if found is None else found.origin
    path = None if origin is None else Path(origin).parent / "stats" / "_sobol_direction_numbers.npz"
    if path is None or not path.exists():
        raise ImportError(
            "SobolEngine takes its direction numbers from SciPy, which is not installed: pip install scipy"
        )
    import numpy

    return numpy.load(path)


def _directions(dimension: int, bits: int) -> Tensor:
    """The direction numbers of each dimension, scaled to `bits` bits."""
    table = _table()
    polynomials, numbers = table["poly"][:dimension].tolist(), table["vinit"][:dimension]
    import numpy

    state = numpy.ones((dimension, bits), dtype=numpy.int64)
    for d in range(1, dimension):
        polynomial = polynomials[d]
        degree = polynomial.bit_length() - 1
        row = numbers[d, :degree].tolist()
        taps = [k for k in range(1, degree + 1) if polynomial >> (degree - k) & 1]
        for j in range(degree, bits):
            value = row[j - degree]
            for k in taps:
                value ^= row[j - k] << k
            row.append(value)
        state[d] = row[:bits]
    return from_numpy(state << numpy.arange(bits - 1, -1, -1))


class SobolEngine:
    """Draws Sobol's sequence in `dimension` dimensions; `scramble` mixes its digits at random, `seed` fixing how."""

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = _directions(dimension, self.MAXBIT)
        self.shift = _zeros(dimension, dtype=int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `n` points, one in each row."""
        dtype = default_dtype() if dtype is None else dtype
        first = self.num_generated == 0
        points = self._at(_arange(self.num_generated + first, self.num_generated + n, dtype=int64))
        result = (points.to(float64) / 2**self.MAXBIT).to(dtype)
        if first:
            result = _cat((self._first_point.to(dtype), result), dim=-2) if n > 1 else self._first_point.to(dtype)
        self._move(n)
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `2**m` points; refused where that would leave the sequence unbalanced."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                f"draw_base2: Sobol' points are balanced when their number is a power of 2. {self.num_generated} were"
                f" drawn before, so there would be {self.num_generated} + 2**{m} = {total}. draw({2**m}) takes them all"
                " the same."
            )
        return self.draw(n=2**m, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Pass over `n` points."""
        self._move(n)
        return self

    def _move(self, n: int) -> None:
        self.num_generated += n
        self.quasi = (
            self._at(_arange(self.num_generated - 1, self.num_generated, dtype=int64))[0]
            if self.num_generated
            else self.shift.clone()
        )

    def _at(self, numbers: Tensor) -> Tensor:
        """The points of these numbers, as integers."""
        gray = numbers ^ (numbers >> 1)
        points = self.shift.expand(len(numbers), -1).clone()
        for bit in range(int(gray.max()).bit_length() if len(numbers) else 0):
            points ^= (gray >> bit & 1).unsqueeze(1) * self.sobolstate[:, bit]
        return points

    def _scramble(self) -> None:
        """Draw a shift and a lower triangular matrix of bits for each dimension,
        and multiply the direction numbers by it."""
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        shift = _randint(2, (self.dimension, self.MAXBIT), generator=generator)
        self.shift = (shift * (1 << _arange(self.MAXBIT))).sum(-1)
        triangles = _randint(2, (self.dimension, self.MAXBIT, self.MAXBIT), generator=generator).tril()
        triangles.diagonal(0, -2, -1).fill_(1)
        places = _arange(self.MAXBIT - 1, -1, -1)   # the highest bit first, as the matrices have it
        digits = (self.sobolstate.unsqueeze(1) >> places.view(1, -1, 1)) & 1
        mixed = (triangles.to(float64) @ digits.to(float64)).to(int64) & 1
        self.sobolstate = (mixed << places.view(1, -1, 1)).sum(1)

    def __repr__(self) -> str:
        seed = f", seed={self.seed}" if self.seed is not None else ""
        return f"{type(self).__name__}(dimension={self.dimension}{', scramble=True' if self.scramble else ''}{seed})"

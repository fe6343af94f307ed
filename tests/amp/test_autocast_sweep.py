"""Result types of every op record of PyTorch in mixed precision, against PyTorch. """

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

import rushlight as rl  # noqa: E402
from tests.parity.checks import seeded, spread  # noqa: E402
from tests.parity.convert import Missing, function, thing  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402

# Where PyTorch answers otherwise: a pseudo-inverse in float32 here; decompositions that PyTorch takes in bfloat16 only
# when they are empty; full contractions it multiplies and sums; histograms and distances there are no bfloat16 kernels
# for; losses in chunks, in float32 here as those without chunks are everywhere.
DIFFERENT = {
    "linalg.pinv", "linalg.pinv.hermitian", "linalg.det", "linalg.ldl_factor", "linalg.ldl_factor_ex",
    "linalg.ldl_solve", "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.lu", "linalg.lu_solve", "linalg.solve_ex",
    "linalg.matrix_power", "tensordot", "histogram", "histogramdd", "nn.functional.pdist",
    "_softmax_backward_data", "nn.functional.linear_cross_entropy.chunked",
    "nn.functional.linear_cross_entropy.chunked_none",
}
NAMES = [name for name, record in RECORDS.items()
         if not name.startswith(("ops.aten",
                                 "_refs")) and name not in DIFFERENT and torch.float32 in record.dtypes]


def kinds(value, tensor):
    if isinstance(value, tensor):
        return str(value.dtype).split(".")[1]
    return tuple(kinds(v, tensor) for v in value) if isinstance(value, (tuple, list)) else type(value).__name__


def in_lower(value):
    if isinstance(value, torch.Tensor):
        return value.detach().bfloat16().requires_grad_(value.requires_grad) if value.dtype is torch.float32 else value
    return type(value)(map(in_lower, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.share(3)
@pytest.mark.parametrize("name", NAMES)
def test_types(name):
    record = RECORDS[name]
    compared = 0
    for sample in spread(record.sample_inputs("cpu", torch.float32), 3):
        for cast in (lambda value: value, in_lower):
            args, kwargs = cast((sample.input, *sample.args)), {k: cast(v) for k, v in sample.kwargs.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    with torch.autocast("cpu"):
                        expected = kinds(seeded(record.op, *args, **kwargs), torch.Tensor)
                    mine = function(record.op)
                except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, AssertionError, Missing):
                    continue   # PyTorch refuses it, or there is no such function
                with rl.autocast("cpu"):
                    result = kinds(seeded(mine, *thing(args), **thing(kwargs)), rl.Tensor)
            assert result == expected
            compared += 1
    if not compared:
        pytest.skip("nothing to compare")

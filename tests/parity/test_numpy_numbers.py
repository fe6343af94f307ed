"""Every op record with its numbers as NumPy scalars: what PyTorch takes, Rushlight takes,
with results of the same form."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op records need it")

import numpy as np  # noqa: E402

import rushlight as rl  # noqa: E402
from tests.parity.checks import describe, leaves, main_dtype, samples, seeded  # noqa: E402
from tests.parity.convert import Missing, function, thing  # noqa: E402
from tests.parity.records import RECORDS  # noqa: E402

LETTERS = sorted({name[:1].lower() for name in RECORDS})
SAMPLES = 2   # of each record, of those with numbers in them


def with_numpy(x):
    """The same arguments with NumPy's scalars for Python's numbers."""
    if type(x) is int:
        return np.int64(x)
    if type(x) is float:
        return np.float64(x)
    if type(x) in (list, tuple):
        return type(x)(with_numpy(item) for item in x)
    return {key: with_numpy(item) for key, item in x.items()} if type(x) is dict else x


def form(result):
    """Shapes and dtypes of a result."""
    return [
        (tuple(t.shape), str(t.dtype).rpartition(".")[2]) if hasattr(t, "dtype") else type(t).__name__
        for t in leaves(result)
    ]


def failures(record):
    tried = 0
    for sample in samples(record, main_dtype(record), "forward"):
        if tried == SAMPLES:
            break
        args, kwargs = with_numpy(list(sample.args)), with_numpy(dict(sample.kwargs))
        if not any(isinstance(x, np.generic) for x in leaves([args, kwargs])):
            continue
        tried += 1
        first, given, named = thing((sample.input, args, kwargs))
        try:
            want = seeded(record.op, sample.input, *args, **kwargs)
        except Exception:   # noqa: BLE001  what PyTorch refuses is not asked of us
            continue
        try:
            got = seeded(function(record.op), first, *given, **named)
        except Missing:
            return
        except Exception as error:   # noqa: BLE001  any failure is the finding
            yield f"{describe(sample)}: {type(error).__name__}: {str(error)[:160]}"
            continue
        if form(want) != form(got):
            yield f"{describe(sample)}: {form(want)} became {form(got)}"


@pytest.mark.share(2)
@pytest.mark.parametrize("letter", LETTERS)
def test_numbers_may_be_numpys(letter):
    found = {}
    for name, record in RECORDS.items():
        if name[:1].lower() == letter and record.dtypes and (wrong := list(failures(record))):
            found[name] = wrong
    assert not found


def test_numpy_numbers_outside_ops():
    t, m = rl.tensor([1.0, 2.0, 4.0]), rl.arange(4.0).view(2, 2)
    assert rl.zeros(np.int64(3), 2).shape == (3, 2) and m.reshape(np.int64(4), -1).shape == (4, 1)
    assert rl.nn.functional.interpolate(m[None, None], size=(np.int64(4), np.int64(4))).shape == (1, 1, 4, 4)
    for _ in range(2):   # whatever was called before
        assert t.clamp(min=np.float64(2)).tolist() == [2, 2, 4] and t.clamp(min=2.0).dtype is rl.float32
        assert (t ** np.float64(2)).tolist() == [1, 4, 16] and (np.float64(2) ** t).tolist() == [2, 4, 16]
    assert (np.ones(3) / t).tolist() == [1, 0.5, 0.25]
    assert (np.ones(3) == t).tolist() == [True, False, False] and (t == np.ones(3)).tolist() == [True, False, False]
    assert (t + np.ones(3)).dtype is rl.float64 and (t * np.float64(2)).dtype is rl.float32
    assert (t * np.complex64(1j)).dtype is rl.complex64

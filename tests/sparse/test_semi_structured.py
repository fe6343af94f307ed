"""Two values in four: packed with PyTorch's bits, and unpacked to what was packed."""

from __future__ import annotations

import hashlib

import pytest

import rushlight
from rushlight.sparse import _semi_structured_conversions as ours

# dtype, rows, columns -> the first bytes of a hash over PyTorch's values and places.
ANSWERS: dict[tuple[str, int, int], str] = {
    ("float16", 32, 64): "b74eb8c0e6c496d9",
    ("bfloat16", 64, 128): "2de8c80e3b8bd1b5",
    ("int8", 32, 128): "2dcb08ad0dac6283",
    ("float32", 32, 64): "ced3cfa00f0b9dc3",
    ("float32", 64, 32): "fa291b6e2fbfcafd",
}


def matrix(lib, dtype, rows, columns):
    """Small whole numbers, at most two of four kept (of float32, one of two), some fours with fewer."""
    size, kept = (2, 1) if dtype == "float32" else (4, 2)
    at = lib.arange(rows * columns).view(rows, -1, size)
    place = lib.arange(size).expand_as(at)
    part = at[..., :1] // size
    chosen = (place == part % size) | ((place == (part * 7 // 3 + 1) % size) & (part % 5 > 0) & (kept > 1))
    return ((at % 11 - 5) * chosen).view(rows, columns).to(getattr(lib, dtype))


def digest(lib, kept, meta):
    parts = (kept.to(lib.float32), meta.to(lib.int64))
    return hashlib.sha256(b"".join(part.contiguous().numpy().tobytes() for part in parts)).hexdigest()[:16]


@pytest.mark.parametrize("case", ANSWERS, ids=str)
def test_bits_are_pytorchs_and_come_back(case):
    dense = matrix(rushlight, *case)
    kept, meta = ours.sparse_semi_structured_from_dense_cutlass(dense)
    assert digest(rushlight, kept, meta) == ANSWERS[case]
    assert rushlight.equal(ours.sparse_semi_structured_to_dense_cutlass(kept, meta), dense)


def test_stored_answers_are_those_of_the_installed_pytorch():
    torch = pytest.importorskip("torch")
    from torch.sparse import _semi_structured_conversions as theirs

    for case, answer in ANSWERS.items():
        pair = theirs.sparse_semi_structured_from_dense_cutlass(matrix(torch, *case))
        assert digest(torch, *pair) == answer, case


def test_sizes_that_do_not_fit_are_refused():
    for shape, dtype in (((8,), "float16"), ((30, 64), "float16"), ((32, 24), "float16"), ((32, 64), "float64")):
        with pytest.raises(RuntimeError, match=r"dense"):
            ours.sparse_semi_structured_from_dense_cutlass(rushlight.ones(shape, dtype=getattr(rushlight, dtype)))
    kept, meta = ours.sparse_semi_structured_from_dense_cutlass(rushlight.zeros(32, 64, dtype=rushlight.float16))
    with pytest.raises(RuntimeError, match="meta matrix"):
        ours.sparse_semi_structured_to_dense_cutlass(kept, meta[:, :2])


@pytest.mark.filterwarnings("ignore:SparseSemiStructuredTensor is a prototype")
def test_packed_tensors_multiply_and_refuse_the_rest():
    dense = matrix(rushlight, "float32", 32, 64)
    parts = ours.sparse_semi_structured_from_dense_cutlass(dense)
    packed = rushlight.sparse.SparseSemiStructuredTensorCUTLASS(dense.shape, *parts, None, None, None)
    x, bias = rushlight.randn(5, 64), rushlight.randn(32)
    rushlight.testing.assert_close(rushlight.mm(packed, x.t()), dense @ x.t())
    linear = rushlight.nn.functional.linear
    rushlight.testing.assert_close(linear(x, packed, bias), linear(x, dense, bias))
    assert rushlight.equal(packed.t().to_dense(), dense.t()) and packed.values().shape == (32, 32)
    with pytest.raises(NotImplementedError, match="no rule for"):
        packed + 1
    with pytest.raises(RuntimeError, match="Only CUDA tensors"):
        rushlight.sparse.to_sparse_semi_structured(dense)

"""Every record of PyTorch's `optim_db`, against PyTorch: parameters, state and errors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.optim.optim_records import RECORDS, check, error_differences  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

# LBFGS is in test_lbfgs.py: it needs gradients of the loss its closure returns.
DENSE = [name for name, record in RECORDS.items() if not record.only_supports_sparse_grads and name != "LBFGS"]


@pytest.mark.parametrize("name", DENSE)
def test_default(name: str) -> None:
    assert check(RECORDS[name], {}) == []


@pytest.mark.parametrize("name", [n for n in DENSE if "foreach" in RECORDS[n].supported_impls])
def test_foreach(name: str) -> None:
    found = check(RECORDS[name], {"foreach": True})
    # refused by PyTorch, which is built first
    assert [text for text in found if "as a Tensor is not supported" not in text] == []


@pytest.mark.parametrize("name", [n for n in DENSE if "fused" in RECORDS[n].supported_impls])
def test_fused(name: str) -> None:
    assert check(RECORDS[name], {"fused": True}) == []


@pytest.mark.parametrize("name", [n for n in DENSE if n != "Muon"])
def test_maximize(name: str) -> None:
    assert check(RECORDS[name], {"maximize": True}) == []


@pytest.mark.parametrize("name", [n for n in DENSE if RECORDS[n].supports_complex])
def test_complex(name: str) -> None:
    assert check(RECORDS[name], {}, torch.complex64) == []


@pytest.mark.parametrize("name", DENSE)
def test_double(name: str) -> None:
    loose = 1e8 if name == "Muon" else 1.0   # it iterates in bfloat16 whatever the parameters are
    assert check(RECORDS[name], {}, torch.float64, loose=loose) == []


@pytest.mark.parametrize("name", ["AdamW", "Adam", "Adagrad"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half(name: str, dtype: torch.dtype) -> None:
    """Computed in float32 and rounded once, as PyTorch's fused kernels do."""
    assert check(RECORDS[name], {"fused": True}, dtype, loose=2.0) == []


def test_half_sgd() -> None:
    """PyTorch's fused kernel loses the momentum of half types (2.13): against its single-tensor form."""
    assert check(RECORDS["SGD"], {}, torch.bfloat16, loose=3.0) == []


@pytest.mark.parametrize("name", [n for n, r in RECORDS.items() if r.supports_sparse or r.only_supports_sparse_grads])
def test_sparse_gradients(name: str) -> None:
    found = check(RECORDS[name], {}, is_sparse=True)
    # weight decay, by PyTorch, which is run first
    refused = ("not compatible with sparse", "add(sparse, dense) is not supported")
    assert [text for text in found if not any(words in text for words in refused)] == []


@pytest.mark.parametrize("name", [n for n, r in RECORDS.items() if r.optim_error_inputs_func])
def test_errors(name: str) -> None:
    assert error_differences(RECORDS[name]) == []

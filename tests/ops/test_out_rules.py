"""What `out=` decides: the dtype of made tensors, which memory it may share, and results with names."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import rushlight as rl
from rushlight.dispatch.dispatcher import dispatch_out


def outcome(module: Any, dtype: str, call: Any) -> Any:
    out = module.empty(0, dtype=getattr(module, dtype))
    try:
        return call(module, out).tolist(), str(out.dtype).split(".")[-1]
    except (RuntimeError, ValueError, NotImplementedError) as e:
        return type(e).__name__


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32", "float64"])
@pytest.mark.parametrize("call", [
    lambda m, out: m.arange(0, 5, 0.5, out=out), lambda m, out: m.arange(0, 5, 1.5, out=out),
    lambda m, out: m.arange(5.5, out=out), lambda m, out: m.arange(5, out=out),
    lambda m, out: m.linspace(0, 6, 4, out=out),
    lambda m, out: m.full((2,), 3, out=out), lambda m, out: m.ones(3, out=out), lambda m, out: m.zeros(3, out=out),
    lambda m, out: m.eye(2, out=out), lambda m, out: m.logspace(0, 2, 3, out=out),
])
def test_tensors_are_made_in_the_dtype_of_out(dtype: str, call: Any) -> None:
    torch = pytest.importorskip("torch")
    assert outcome(rl, dtype, call) == outcome(torch, dtype, call)


def test_out_that_reaches_an_input_once_resized_is_refused() -> None:
    index = rl.tensor([0, 1, 2])
    source = index.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="memory"):
            rl.gather(source, 0, index[1:], out=index[:1])
    assert index.tolist() == [0, 1, 2]


def test_lu_with_infos_has_named_parts() -> None:
    a = rl.tensor([[2.0, 1.0], [1.0, 3.0]])
    for result in (rl.lu(a, get_infos=True), a.lu(get_infos=True)):
        assert type(result).__name__ == "_lu_with_info"
        assert result._fields == ("LU", "pivots", "info")
        assert result.info.item() == 0
        assert result.LU.tolist() == result[0].tolist()
    assert type(rl.lu(a)) is tuple


@pytest.mark.parametrize("call", [
    lambda x, out: rl.add(x, x, out=out), lambda x, out: rl.exp(x, out=out), lambda x, out: rl.cumsum(x, 0, out=out),
    lambda x, out: rl.mul(x[0], x, out=out),
])
def test_results_are_written_into_out_without_a_copy(call: Any, monkeypatch: Any) -> None:
    x, out = rl.rand(64, 64), rl.empty(64, 64)
    expected = call(x, rl.empty(0))
    monkeypatch.setattr("rushlight.rules.out._write", None)
    version = out._version
    assert call(x, out) is out and out._version == version + 1
    assert rl.equal(out, expected)


def test_out_that_the_kernel_cannot_write_still_gets_the_result() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    double, strided, wide = rl.empty(2, 3, dtype=rl.float64), rl.empty(3, 2).t(), rl.zeros(2, 6)
    expected = (x + x).tolist()
    assert rl.add(x, x, out=double).tolist() == expected and double.dtype is rl.float64
    assert rl.add(x, x, out=strided).tolist() == expected and strided.stride() == (1, 2)
    assert rl.add(x, x, out=wide[:, ::2]).tolist() == expected and wide[:, 1::2].sum().item() == 0
    assert rl.cumsum(x, 1, out=wide[:, ::2]).tolist() == x.cumsum(1).tolist()
    y = x.clone()
    assert rl.cumsum(y, 1, out=y).tolist() == x.cumsum(1).tolist()      # a scan over its own input
    y = rl.arange(6.0)
    assert rl.add(y, 1, out=y).tolist() == [1, 2, 3, 4, 5, 6]
    base = rl.arange(3.0)
    with pytest.warns(UserWarning):
        # larger than the result: resized, not repeated
        assert rl.add(base, base, out=rl.empty(2, 3)).tolist() == [0, 2, 4]


@pytest.fixture
def without_python() -> Any:
    """While it lasts, out= may not ask Python."""
    def refused(overload: Any, args: tuple, out: Any) -> Any:
        raise AssertionError(f"{overload.name}: out= was handed to Python")

    rl._C.set_hooks(out_caller=refused)
    yield
    rl._C.set_hooks(out_caller=dispatch_out)


@pytest.mark.parametrize("call", [
    lambda x, out: rl.add(x, x, out=out), lambda x, out: rl.mul(x, 2.5, out=out), lambda x, out: rl.mm(x, x, out=out),
    lambda x, out: rl.cat((x[:1], x[1:]), out=out), lambda x, out: rl.cumsum(x, 1, out=out),
    lambda x, out: rl.index_select(x, 0, rl.tensor([2, 1, 0, 3]), out=out),
])
def test_a_plain_out_is_the_cores_own_affair(call: Any, without_python: None) -> None:
    x, out = rl.rand(4, 4), rl.empty(4, 4)
    version = out._version
    assert call(x, out) is out
    assert out._version == version + 1
    with rl.autocast("cpu", rl.bfloat16):  # mixed precision leaves forms with out= alone
        kept = out.clone()
        assert call(x, out).dtype == rl.float32
    assert out.tolist() == kept.tolist()


def test_out_among_the_arguments_is_written_where_it_may_be(without_python: None) -> None:
    x = rl.arange(6.0)
    assert rl.add(x, 1, out=x) is x
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(RuntimeError, match="different places"):
        rl.add(x[1:], 1, out=x[:-1])


def test_out_that_records_or_belongs_to_inference_is_refused() -> None:
    x, y = rl.rand(4), rl.rand(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="out="):
        rl.add(x, y, out=rl.empty(4))
    with pytest.raises(RuntimeError, match="out="):
        rl.add(x, x, out=y)
    with rl.inference_mode():
        fixed = rl.empty(4)
    with pytest.raises(RuntimeError, match="inference tensor"):
        rl.add(x, x, out=fixed)
    with pytest.raises(RuntimeError, match="share"):
        rl.cat((x[:2], x[2:]), out=x)

"""What the tape says when a gradient cannot be had: which op made the tensor that changed,
and histories that could not be remade."""

import pytest

import rushlight as rl


def changed_leaf():
    w, x = rl.ones(3, requires_grad=True), rl.ones(3)
    y = (w * x).sum()
    x.add_(1)
    y.backward()


def changed_result():
    w = rl.ones(3, requires_grad=True)
    y = w.exp()
    y.add_(1)
    y.sum().backward()


def changed_intermediate():
    w = rl.ones(3, requires_grad=True)
    x = w * 2
    y = (x * x).sum()
    with rl.no_grad():
        x.add_(1)
    y.backward()


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (changed_leaf, r"\) is at version 1"),
        (changed_result, "output 0 of ExpBackward0,"),
        (changed_intermediate, "output 0 of MulBackward0,"),
    ],
)
def test_errors_name_the_op_that_made_the_tensor(cause, said):
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        cause()
    assert "nothing recorded" not in str(caught.value)
    import re

    assert re.search(said, str(caught.value)), caught.value


def test_a_history_that_cannot_be_remade_is_an_error_of_the_backward_pass(monkeypatch):
    base = rl.ones(4, requires_grad=True) * 1
    view = base[:2]
    base.mul_(2)   # the view's history is stale now
    original = rl.Tensor.as_strided

    def broken(*args, **kwargs):
        raise ValueError("no strides today")

    monkeypatch.setattr(rl.Tensor, "as_strided", broken)
    total = view.sum()
    monkeypatch.setattr(rl.Tensor, "as_strided", original)
    with pytest.raises(RuntimeError, match="could not be remade.*no strides today"):
        total.backward()


def test_invert_of_floats():
    for kind in (rl.float32, rl.complex64):
        with pytest.raises(TypeError):
            ~rl.ones(2, dtype=kind)
        with pytest.raises(NotImplementedError):
            rl.bitwise_not(rl.ones(2, dtype=kind))
    assert (~rl.tensor([1, -1])).tolist() == [-2, 0]


def test_deeply_nested_modules_are_shown():
    inner = rl.nn.Linear(1, 1)
    for _ in range(600):
        inner = rl.nn.Sequential(inner)
    text = repr(inner)
    assert text.count("Sequential(") == 600 and "Linear(in_features=1" in text
    inner.append(inner)
    with pytest.raises(RecursionError):
        repr(inner)

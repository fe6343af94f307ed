"""Tensors that carry a mask, against PyTorch: `answers.txt` holds programs and what PyTorch 2.13 made of them.

With PyTorch installed, some of the stored answers are checked against it as well.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rushlight as rl

ANSWERS = [line.split("\t") for line in (Path(__file__).parent / "answers.txt").read_text().splitlines()]


def shown(lib: Any, value: Any) -> str:
    """A result as text: elements that count, rounded, with size, dtype, layout and whether it is in a graph."""
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(shown(lib, v) for v in value) + "]"
    if lib.masked.is_masked_tensor(value):
        data, mask = value.get_data().detach(), value.get_mask()
        if value.layout is not lib.strided:
            data, mask = data.to_dense(), mask.to_dense()
        pairs = zip(data.reshape(-1).tolist(), mask.reshape(-1).tolist(), strict=True)
        kept = [f"{float(v) + 0.0:.3f}" if m else "--" for v, m in pairs]
        dtype, layout = (str(a).rpartition(".")[2] for a in (value.dtype, value.layout))
        return f"masked {kept} {list(mask.shape)} {dtype} {layout} {value.requires_grad}".replace("-0.000", "0.000")
    if isinstance(value, lib.Tensor):
        numbers = [f"{float(v):.3f}" for v in value.detach().reshape(-1).tolist()]
        return f"plain {numbers} {list(value.shape)}".replace("-0.000", "0.000")
    return repr(value).replace("rushlight", "torch")


def world(lib: Any) -> dict[str, Any]:
    """What programs may name."""
    masked = lib.masked

    def mk(dtype=None, rg=False):
        data = lib.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
        mask = lib.tensor([[True, False, True], [True, True, False]])
        return masked.masked_tensor(data if dtype is None else data.to(dtype), mask, requires_grad=rg)

    def differs(dtype):
        return masked.masked_tensor(lib.ones(2, 3, dtype=dtype), lib.ones(2, 3, dtype=lib.bool))

    def grad(function):
        x = mk(rg=True)
        y = function(x)
        y.backward()
        return [y, x.grad]

    names = {"T": lib, "F": lib.nn.functional, "M": masked, "mk": mk, "grad": grad, "differs": differs}
    return {**names, **vars(longer(lib, mk))}


def longer(lib: Any, mk: Any) -> SimpleNamespace:
    """Programs that need more than a line."""
    masked, condition = lib.masked, lib.tensor([[True, False, True]] * 2)

    def asg():
        d = lib.tensor([1.0, 2.0], requires_grad=True)
        mt = masked.as_masked_tensor(d, lib.tensor([True, False]))
        (mt * 3).sum().backward()
        return [mt, d.grad]

    def cp():
        d = lib.ones(2)
        mt = masked.masked_tensor(d, lib.tensor([True, False]))
        d.fill_(5)
        return mt

    def two():
        a, b = mk(rg=True), mk(rg=True)
        (a * b).sum().backward()
        return [a.grad, b.grad]

    def gt():
        a = mk(rg=True)
        a.to_tensor(0.0).sum().backward()
        return a.grad

    def gd():
        a = mk(rg=True)
        a.get_data().sum().backward()
        return a.grad

    def ag():
        a = mk(rg=True)
        return lib.autograd.grad((a * a).sum(), a)

    def gw():
        a, b = mk(rg=True), mk(rg=True)
        lib.where(condition, a, b).sum().backward()
        return [a.grad, b.grad]

    def ng():
        data = lib.tensor([1.0, float("nan"), 2.0])
        m = masked.masked_tensor(data, lib.tensor([True, False, True]), requires_grad=True)
        (m * m).sum().backward()
        return m.grad

    def vb():
        a = mk(rg=True)
        (a * 2).backward(masked.masked_tensor(lib.ones(2, 3), a.get_mask()))
        return a.grad

    def nog():
        with lib.no_grad():
            return mk(rg=True) * 2

    return SimpleNamespace(asg=asg, cp=cp, two=two, gt=gt, gd=gd, ag=ag, gw=gw, ng=ng, vb=vb, nog=nog)


def answer(lib: Any, program: str, names: dict[str, Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return shown(lib, eval(program, names))      # noqa: S307
        except Exception as error:      # noqa: BLE001 - its class is the answer
            public = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
            return public.__name__


def test_masked_tensors_answer_as_pytorchs() -> None:
    names = world(rl)
    wrong = {program: (got, wanted) for program, wanted in ANSWERS if (got := answer(rl, program, names)) != wanted}
    assert not wrong


def test_the_stored_answers_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    names = world(torch)
    for program, wanted in ANSWERS[::6]:
        assert answer(torch, program, names) == wanted, program


def test_masks_travel_with_copies_and_pickles() -> None:
    x = world(rl)["mk"]()
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.detach()):
        assert rl.masked.is_masked_tensor(other) and repr(other) == repr(x)
    x.add_(1)
    assert x.get_data()[0, 0] == 2 and x.get_mask().sum() == 4


def test_what_does_not_count_takes_no_part_in_gradients() -> None:
    data = rl.tensor([[0.0, 1.0], [2.0, float("inf")]])
    x = rl.masked.masked_tensor(data, rl.tensor([[True, True], [True, False]]), requires_grad=True)
    w = rl.ones(2, requires_grad=True)
    (x * w).sum().backward()
    assert w.grad.get_data().tolist() == [2.0, 1.0] and x.grad.get_mask().tolist() == [[True, True], [True, False]]


def test_refusals_name_what_was_wrong() -> None:
    a, b = world(rl)["mk"](), world(rl)["differs"](rl.float32)
    with pytest.raises(ValueError, match="masks"):
        a + b
    with pytest.raises(TypeError, match="relu"):
        a.relu()
    with pytest.raises(TypeError, match="bool"):
        rl.masked.masked_tensor(rl.ones(2), rl.ones(2))

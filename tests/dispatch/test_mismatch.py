"""A call that fits no signature says which argument, at which position, what it must be and what was found."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.op import definitions, ops
from rushlight.op.registry import schemas_of
from rushlight.op.schema import parse

x = rl.ones(2, 3)

CASES = {
    "add: argument 'other' (position 2) must be Tensor or Number, got str 'a'": lambda: rl.add(x, "a"),
    "add: argument 'alpha' must be Number, got str 'a'": lambda: rl.add(x, x, alpha="a"),
    "add_: argument 'other' (position 2) must be Tensor or Number, got None": lambda: x.add_(None),
    "sum: argument 'dim' (position 2) must be int or a sequence of ints or None, got str 'a'": lambda: x.sum("a"),
    "sum: argument 'dim' must be int or a sequence of ints or None, got str 'a'": lambda: x.sum(dim="a"),
    "sum: argument 'input' (position 1) is missing": lambda: rl.sum(),
    "sum: argument 'input' is given twice, at position 1 and by name": lambda: rl.sum(x, input=x),
    "sum: expected at most 3 positional arguments, got 4": lambda: x.sum(0, True, 3),
    "transpose: argument 'dim1' (position 3) is missing": lambda: x.transpose(0),
    "cat: argument 'tensors' (position 1) must be a sequence of Tensors, got int 3 at index 1": lambda: rl.cat([x, 3]),
    "stack: argument 'tensors' (position 1) must be a sequence of Tensors, got int 3": lambda: rl.stack(3),
    "reshape: argument 'shape' (position 2) must be int or a sequence of ints, got str 'a' at index 1":
        lambda: x.reshape(2, "a"),
    "max: the argument at position 2 must be Tensor ('other') or int ('dim'), got str 'a'": lambda: x.max("a"),
    "linear: argument 'weight' (position 2) must be Tensor, got list": lambda: F.linear(x, [1]),
    "conv2d: argument 'stride' must be int or a sequence of ints, got str 'a'": lambda: F.conv2d(x, x, stride="a"),
    "topk: argument 'k' (position 2) must be int, got float 1.5": lambda: x.topk(1.5),
    "zeros: argument 'dtype' must be dtype or None, got str 'f'": lambda: rl.zeros(2, dtype="f"),
    "sin() got an unexpected keyword argument 'foo'": lambda: rl.sin(x, foo=1),
}


@pytest.mark.parametrize("message", CASES)
def test_the_argument_is_named(message: str) -> None:
    with pytest.raises(TypeError) as caught:
        CASES[message]()
    first, _, rest = str(caught.value).partition("\n")
    assert first == message + "." and rest.startswith("Signature")


def test_every_op_that_takes_a_tensor_first_says_so() -> None:
    silent = []
    for name, classes in definitions.items():
        firsts = [parse(text).params[:1] for cls in classes for text in schemas_of(cls)]
        if name not in ops or not all(
            first and first[0].type in ("Tensor", "Tensor[]", "Tensor|Scalar") for first in firsts
        ):
            continue
        try:
            ops[name](object())
        except TypeError as error:
            if "position 1" not in str(error) or "got object" not in str(error):
                silent.append((name, str(error)[:100]))
        except Exception as error:
            silent.append((name, repr(error)[:100]))
        else:
            silent.append((name, "no error"))
    assert not silent

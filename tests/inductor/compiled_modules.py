"""PyTorch's records of its modules, compiled and run eagerly: results, gradients and state must be equal.

Enters: a record. Leaves: how many inputs agreed, were refused by capture (with the reason), or differed.
"""

from __future__ import annotations

import copy
from typing import Any

import rushlight as rl
from tests.nn.module_records import _build, ours, samples, tensors


class Outcome(Exception):  # noqa: N818 - tells a refusal from a difference
    """Capture refused this module."""


def run(module: Any, call: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Results, gradients (of inputs, then parameters) and buffers of one forward and backward."""
    module.zero_grad()
    inputs = [t for t in tensors((args, kwargs), rl.Tensor) if t.is_leaf and t.requires_grad]
    for t in inputs:
        t.grad = None
    rl.manual_seed(1)
    made = list(tensors(call(*args, **kwargs), rl.Tensor))
    wanted = [t for t in made if t.requires_grad]
    if wanted:
        sum((t * t).sum() for t in wanted).backward()
    grads = [t.grad for t in (*inputs, *module.parameters())]
    return (
        [t.detach() for t in made],
        [None if g is None else g.clone() for g in grads],
        [b.clone() for b in module.buffers()],
    )


def check(record: Any, sample: Any, training: bool, dynamic: bool = False) -> None:
    """Raise where the compiled module differs; `Outcome` where it cannot be captured."""
    memo: dict[Any, Any] = {}
    module, _ = _build(record, sample, memo)
    module.train(training)
    given = sample.forward_input
    args, kwargs = ours(given.args, memo), {k: ours(v, memo) for k, v in given.kwargs.items()}
    other = copy.deepcopy(module)
    expected = run(module, module, args, kwargs)
    compiled = rl.compile(other, fullgraph=True, dynamic=dynamic)
    try:
        got = run(other, compiled, args, kwargs)
    except (rl._dynamo.exc.Unsupported, NotImplementedError) as refused:
        raise Outcome(str(refused)) from refused
    for a, b in zip(got, expected, strict=True):
        assert [x is None for x in a] == [x is None for x in b]
        for x, y in zip(a, b, strict=True):
            if x is not None:
                assert (x.shape, x.dtype) == (y.shape, y.dtype)
                rl.testing.assert_close(
                    x,
                    y,
                    equal_nan=True,
                    rtol=1e-4,
                    atol=2e-5 * max(1.0, float(y.detach().abs().nan_to_num(0, 0, 0).max()) if y.numel() else 1.0),
                )


def checked(record: Any, dynamic: bool = False) -> tuple[int, list[str]]:
    """How many inputs of a record agree, and why the others were refused."""
    agreed, refused = 0, []
    for training in (True, False):
        for sample in samples(record, training)[:2]:
            try:
                check(record, sample, training, dynamic)
                agreed += 1
            except Outcome as reason:
                refused.append(str(reason))
    return agreed, refused

"""Selective checkpointing, and what debug=True tells. The plain kinds are in tests/autograd/test_checkpoint.py."""

from __future__ import annotations

import functools

import pytest

import rushlight as rl
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
)


class Calls(TorchDispatchMode):
    """Names of the ops that ran."""

    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


def block(x, y):
    return ((x @ y) @ y).sigmoid() * y


def run(context_fn=None, times=1):
    """Gradients of a checkpointed block, and how often ops ran until the end of backward."""
    rl.manual_seed(0)
    x, y = rl.rand(4, 4, requires_grad=True), rl.rand(4, 4, requires_grad=True)
    with Calls() as calls:
        out = checkpoint(block, x, y, use_reentrant=False, **({"context_fn": context_fn} if context_fn else {}))
        for i in range(times):
            out.sum().backward(retain_graph=i + 1 < times)
    return (x.grad.tolist(), y.grad.tolist()), calls.names


def keep_products(ctx, op, *args, **kwargs):
    return CheckpointPolicy.PREFER_SAVE if op._opname == "mm" else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize("policy", [
    [rl.ops.aten.mm.default], keep_products, lambda ctx, op, *args, **kwargs: op._opname == "mm",
])
def test_chosen_ops_run_once(policy):
    plain, before = run()
    selective, after = run(functools.partial(create_selective_checkpoint_contexts, policy))
    assert selective == plain
    assert before.count("mm") - after.count("mm") == 2
    assert before.count("sigmoid") == after.count("sigmoid") == 2


def test_second_backward_is_refused():
    with pytest.raises(RuntimeError, match="extra time"):
        run(functools.partial(create_selective_checkpoint_contexts, [rl.ops.aten.mm.default]), times=2)


@pytest.mark.parametrize("allow", [True, False])
def test_changed_results_are_noticed(allow):
    def change(x):
        y = x @ x
        y.add_(1)
        return y.sin()

    x = rl.rand(3, 3, requires_grad=True)
    out = checkpoint(
        change,
        x,
        use_reentrant=False,
        context_fn=functools.partial(create_selective_checkpoint_contexts, [rl.ops.aten.mm.default], allow),
    )
    if allow:
        out.sum().backward()
    else:
        with pytest.raises(RuntimeError, match="has been mutated"):
            out.sum().backward()


def test_wrong_policies_are_refused():
    with pytest.raises(ValueError, match="OpOverload"):
        create_selective_checkpoint_contexts([rl.ops.aten.mm])
    with pytest.raises(TypeError, match="function or a list"):
        create_selective_checkpoint_contexts(3)
    offload = functools.partial(create_selective_checkpoint_contexts, lambda *a, **k: CheckpointPolicy.MUST_CPU_OFFLOAD)
    with pytest.raises(NotImplementedError, match="accelerator"):
        checkpoint(block, rl.ones(2, 2, requires_grad=True), rl.ones(2, 2), use_reentrant=False, context_fn=offload)


def test_debug_lists_the_ops_of_both_runs():
    runs = []

    def changing(x):
        runs.append(1)
        return x.sin() if len(runs) == 1 else x.sin().cos()

    x = rl.rand(3, requires_grad=True)
    with set_checkpoint_debug_enabled(True):
        out = checkpoint(changing, x, use_reentrant=False, early_stop=False)
    with pytest.raises(CheckpointError, match=r"(?s)original forward:.*sin.*recomputation:.*cos.*changing"):
        out.sum().backward()
    with pytest.raises(ValueError, match="incompatible"):
        checkpoint(changing, x, use_reentrant=False, debug=True, context_fn=lambda: (None, None))

"""FLOP counts against PyTorch's: totals by module and op, the table, custom formulas."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.utils.flop_counter import FlopCounterMode, register_flop_formula
from rushlight.utils.module_tracker import ModuleTracker

torch = pytest.importorskip("torch")
pytest.importorskip("torch.utils.flop_counter")

MODELS = {
    "conv": (lambda n: n.Sequential(n.Conv2d(3, 4, 3), n.Flatten(), n.Linear(144, 5)), (2, 3, 8, 8)),
    "groups": (lambda n: n.Conv1d(4, 6, 3, groups=2), (2, 4, 8)),
    "transposed": (lambda n: n.ConvTranspose2d(3, 4, 3, stride=2), (2, 3, 5, 5)),
    "vector": (lambda n: n.Linear(4, 5), (4,)),
    "batch": (lambda n: n.Linear(4, 5, bias=False), (2, 3, 4)),
}
FUNCTIONS = {
    "mm": (lambda t, a, b: a @ b, ((2, 3), (3, 4))), "bmm": (lambda t, a, b: a @ b, ((2, 3, 4), (2, 4, 5))),
    "broadcast": (lambda t, a, b: a @ b, ((2, 1, 3, 4), (3, 4, 5))),
    "addmm": (lambda t, a, b, c: t.addmm(a, b, c), ((2, 4), (2, 3), (3, 4))),
    "einsum": (lambda t, a, b: t.einsum("bij,bjk->bik", a, b), ((2, 3, 4), (2, 4, 5))),
    "attention": (lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v), ((2, 16, 8),) * 3),
}


def counts(space, counter, work):
    with counter(display=False) as result:
        out = work()
        (out[0] if isinstance(out, tuple) else out).sum().backward()
    return {
        name: {str(op): n for op, n in by_op.items()} for name, by_op in result.get_flop_counts().items()
    }, result.get_total_flops()


@pytest.mark.parametrize("name", MODELS)
def test_modules_count_as_in_pytorch(name):
    build, shape = MODELS[name]
    results = []
    for space, counter in ((torch, torch.utils.flop_counter.FlopCounterMode), (rl, FlopCounterMode)):
        module, x = build(space.nn), space.randn(*shape).requires_grad_()
        results.append(counts(space, counter, lambda module=module, x=x: module(x)))
    assert results[0] == results[1]


def test_forward_of_recurrent_networks_counts_as_in_pytorch():
    totals = []
    for space, counter in ((torch, torch.utils.flop_counter.FlopCounterMode), (rl, FlopCounterMode)):
        module, x = space.nn.GRU(4, 5, num_layers=2, bidirectional=True), space.randn(2, 3, 4)
        with counter(display=False) as result:
            module(x)
        totals.append(result.get_total_flops())
    assert totals[0] == totals[1] > 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_count_as_in_pytorch(name):
    function, shapes = FUNCTIONS[name]
    totals = []
    for space, counter in ((torch, torch.utils.flop_counter.FlopCounterMode), (rl, FlopCounterMode)):
        args = [space.randn(*s).requires_grad_() for s in shapes]
        totals.append(counts(space, counter, lambda args=args, space=space: function(space, *args))[1])
    assert totals[0] == totals[1] > 0


def test_attention_without_scores_counts_as_with_them():
    q = rl.randn(1, 2, 16, 8)
    with FlopCounterMode(display=False) as counter:
        rl.nn.functional.scaled_dot_product_attention(q, q, q)
    assert counter.get_total_flops() == 2 * 2 * 16 * 16 * (8 + 8)


def test_table(capsys):
    model = rl.nn.Sequential(rl.nn.Linear(10, 20), rl.nn.Sequential(rl.nn.Linear(20, 30)))
    with FlopCounterMode(depth=2):
        model(rl.randn(50, 10))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["Module", "FLOP", "%", "Total"]
    assert [line.split()[0] for line in lines[2:] if "-" not in line] == ["Sequential", "Sequential.0", "Sequential.1"]
    assert "80.000K" in lines[2]
    assert "100.00%" in lines[2]


def test_formulas_can_be_added():
    rl.library.define("flops::twice", "(Tensor x) -> Tensor")
    rl.library.impl("flops::twice", "CPU")(lambda x: x + x)

    @register_flop_formula(rl.ops.flops.twice)
    def formula(x_shape, *args, out_shape=None, **kwargs):
        return x_shape[0] * 7

    with FlopCounterMode(display=False) as counter:
        rl.ops.flops.twice(rl.ones(3))
    assert counter.get_total_flops() == 21
    with pytest.raises(RuntimeError, match="duplicate"):
        register_flop_formula(rl.ops.flops.twice)(formula)
    with pytest.raises(ValueError, match="OpOverloadPacket"):
        register_flop_formula("twice")(formula)


def test_tracker_names_running_modules():
    seen = []

    class Look(rl.nn.Module):
        def __init__(self, tracker):
            super().__init__()
            self.tracker = [tracker]

        def forward(self, x):
            seen.append(set(self.tracker[0].parents))
            return x * 2

    with ModuleTracker() as tracker:
        rl.nn.Sequential(rl.nn.Identity(), Look(tracker))(rl.ones(1))
        assert tracker.parents == {"Global"}
    assert seen == [{"Global", "Sequential", "Sequential.1"}]

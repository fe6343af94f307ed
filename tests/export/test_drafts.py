"""draft_export: programs whose elements decide are exported as the example goes, and check that they still go so."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import draft_export, export
from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode


class Decided(nn.Module):
    """A branch, a size and a count that elements decide; a buffer that is written to."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("calls", rl.zeros(()))

    def forward(self, x, k):
        self.calls.add_(1)
        y = self.lin(x) * 2 if x.sum() > 0 else x
        return y.repeat(int(k.max()), 1), x[x > 0] * 2


def test_elements_decide_as_for_the_example():
    rl.manual_seed(0)
    model = Decided()
    x, k = rl.ones(2, 3), rl.tensor([1, 3])
    with pytest.raises(GuardOnDataDependentSymNode, match="elements of a tensor"):
        export(model, (x, k))
    before = rl.get_rng_state()
    program = draft_export(model, (x, k))
    assert rl.equal(rl.get_rng_state(), before) and model.calls == 0      # nothing happened to the model
    assert not program._report.successful() and len(program._report.failures) == 2
    assert "taken to be True" in str(program._report) and "taken to be 3" in str(program._report)
    module = program.module()
    for a, b in zip(module(x * 2, k), model(x * 2, k), strict=True):
        rl.testing.assert_close(a, b)
    assert module.calls == 2      # it is the buffer of the model
    with pytest.raises(RuntimeError, match="test_drafts.py"):
        module(-x, k)
    with pytest.raises(RuntimeError, match="== 3"):
        module(x, k + 1)


def test_sizes_that_vary_stay_so_in_drafts():
    program = draft_export(Decided(), (rl.ones(2, 3), rl.tensor([1, 3])),
                           dynamic_shapes=({0: rl.export.Dim("batch")}, None))
    assert program.module()(rl.ones(5, 3), rl.tensor([3, 0]))[0].shape == (15, 3)


def test_what_can_be_exported_has_nothing_to_report():
    program = draft_export(nn.Linear(3, 3), (rl.ones(2, 3),))
    assert program._report.successful()

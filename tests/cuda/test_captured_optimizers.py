"""Steps of optimizers that a graph captures: replays go on counting, and give what steps outside of graphs give."""

from __future__ import annotations

import inspect

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.loops.interpret import evaluate
from rushlight.op.multi_tensor import many_nest
from rushlight.optim.rule import Numbers, RuledOptimizer, TensorMath
from tests.cuda.test_simulated_driver import driver, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.share(2)   # of each test that has several cases

BATCHES = 12
WAYS = {"foreach": {"foreach": True}, "fused": {"fused": True}, "single": {"foreach": False}}
OPTIMIZERS = {
    name: found for name in dir(rl.optim)
    if isinstance(found := getattr(rl.optim, name), type) and issubclass(found, RuledOptimizer)
    and "capturable" in inspect.signature(found).parameters
}
CASES = [
    (name, way) for name, optimizer in OPTIMIZERS.items() for way, options in WAYS.items()
    if set(options) <= set(inspect.signature(optimizer).parameters)
]


def test_all_that_promise_it_are_here():
    assert set(OPTIMIZERS) == {"ASGD", "Adadelta", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"}


def _model():
    rl.manual_seed(1)
    return nn.Sequential(nn.Linear(16, 33), nn.GELU(), nn.LayerNorm(33), nn.Linear(33, 7))


def _trained(name, options, batches, captured):
    """A model's parameters after so many batches; the first is made outside of the graph, which needs state."""
    model = _model().cuda()
    decay = {} if name == "Rprop" else {"weight_decay": 0.01}
    optimizer = OPTIMIZERS[name](model.parameters(), lr=1e-2, **decay, **options)
    x, target = batches[0][0].clone(), batches[0][1].clone()

    def step():
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()

    step()
    graph = rl.cuda.CUDAGraph()
    if captured:
        with rl.cuda.graph(graph):
            step()
    for features, labels in batches[1:]:
        x.copy_(features)
        target.copy_(labels)
        graph.replay() if captured else step()
    return [p.detach().cpu() for p in model.parameters()], [
        float(own["step"]) for own in optimizer.state.values() if "step" in own
    ]


@pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("name", "way"), CASES)
def test_replays_train_as_steps_do(name, way):
    rl.manual_seed(0)
    batches = [(rl.randn(24, 16).cuda(), rl.randint(7, (24,)).cuda()) for _ in range(BATCHES)]
    options = {**WAYS[way], "capturable": True}
    expected, _ = _trained(name, WAYS[way], batches, captured=False)
    for captured in (False, True):
        got, steps = _trained(name, options, batches, captured)
        for a, b in zip(got, expected, strict=True):
            assert (a - b).abs().max().item() < 1e-3
        assert all(step == BATCHES for step in steps)


@pytest.mark.parametrize("way", WAYS)
def test_a_captured_step_asks_the_host_for_nothing(driver, way):  # noqa: F811
    cases = [name for name, other in CASES if other == way]
    run(driver, f"""
for name in {cases!r}:
    net = rl.nn.Sequential(*[rl.nn.Linear(8, 8) for _ in range(20)]).cuda()
    optimizer = getattr(rl.optim, name)(net.parameters(), lr=0.01, capturable=True, **{WAYS[way]!r})
    for p in net.parameters():
        p.grad = rl.zeros_like(p)
    optimizer.step()
    copies, launches = count(COPIES), count(LAUNCHES)
    with rl.cuda.graph(rl.cuda.CUDAGraph()):
        optimizer.step()
    assert count(COPIES) == copies, name
    assert count(LAUNCHES) - launches <= 40, (name, count(LAUNCHES) - launches)      # of 40 parameters
""")


def test_a_step_that_is_not_capturable_is_refused(driver):  # noqa: F811
    run(driver, """
net = rl.nn.Linear(8, 8).cuda()
for options in ({}, {"fused": True}):
    optimizer = rl.optim.AdamW(net.parameters(), **options)
    for p in net.parameters():
        p.grad = rl.zeros_like(p)
    optimizer.step()
    try:
        with rl.cuda.graph(rl.cuda.CUDAGraph()):
            optimizer.step()
    except RuntimeError as error:
        assert "capturable=True" in str(error)
    else:
        raise SystemExit("replays would repeat one step's numbers")
    optimizer.step()
sgd = rl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
sgd.step()
with rl.cuda.graph(rl.cuda.CUDAGraph()):
    sgd.step()
""")


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_numbers_of_many_parameters_are_those_of_each(name):
    """What the device computes for all parameters side by side, by ops on the host."""
    optimizer = OPTIMIZERS[name]([nn.Parameter(rl.zeros(1))], lr=1e-2)
    rule, hyper = optimizer._rule, optimizer.param_groups[0]
    starts = [(float(step), *(0.4 + 0.1 * k for k in range(len(rule.scalars) - 1))) for step in (0, 1, 4, 5, 6, 40)]
    columns = [rl.tensor(column, dtype=rl.float64) for column in zip(*starts, strict=True)]
    together = rule.numbers(hyper, *columns)
    for i, scalars in enumerate(starts):
        for one, all_of in zip(rule.numbers(hyper, *scalars), together, strict=True):
            value = float(all_of[i]) if isinstance(all_of, rl.Tensor) and all_of.ndim else float(all_of)
            assert value == pytest.approx(float(one), rel=1e-9, abs=1e-12)


def test_numbers_are_read_from_the_table_behind_the_tensors():
    rule = rl.optim.AdamW._rule
    choices = rule.choices({"amsgrad": False, "maximize": False, "weight_decay": 0.1, "decoupled_weight_decay": True})

    def body(s, tensors, values):
        param, grad, *state = tensors
        new = rule.expr(s, choices, Numbers(rule.names, values), param, grad, *state)
        return {0: new[0], 2: new[1], 3: new[2]}

    nest = many_nest("adam", ["f32"] * 4, "f32", len(rule.names), body, has_table=True)
    assert [o.code for o in nest.operands] == ["f32"] * 4 + ["f64"] and nest.params == ("first", "last")
    *read, loop = nest.loop.body
    tensors = [rl.arange(5.0) + k for k in range(4)]
    numbers = [-0.01, 1e-8, 0.1, 0.001, 0.999]
    expected = rule.expr(TensorMath, choices, Numbers(rule.names, numbers), *tensors)
    operands = [*[t.numpy() for t in tensors], rl.tensor(numbers, dtype=rl.float64).numpy()]
    given = dict(zip((one.name for one in read), evaluate([one.value for one in read], operands), strict=True))
    found = evaluate([store.value for store in loop.body], operands, {**given, "j": range(5)})
    for store, got in zip(loop.body, found, strict=True):
        want = expected[{0: 0, 2: 1, 3: 2}[store.operand]].tolist()
        assert got.tolist() == pytest.approx(want, rel=1e-5)

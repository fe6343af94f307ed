"""One module over several devices of one process; the host stands for them, which takes every step but the copies."""

from __future__ import annotations

from collections import namedtuple

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.parallel import comm, data_parallel, gather, parallel_apply, replicate, scatter
from rushlight.nn.parallel.scatter_gather import scatter_kwargs

CPU = rl.device("cpu")
Pair = namedtuple("Pair", "a b")


def test_without_accelerators_the_module_is_called() -> None:
    module = nn.Linear(3, 2)
    wrapped = nn.DataParallel(module, device_ids=[0, 1])
    x = rl.randn(4, 3)
    if rl.cuda.is_available():
        pytest.skip("there are accelerators")
    assert wrapped.device_ids == [] and list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    rl.testing.assert_close(wrapped(x), module(x))


def test_shares_of_a_batch_give_the_results_and_gradients_of_all() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = rl.randn(5, 3, requires_grad=True)
    out = data_parallel(module, x, device_ids=[CPU, CPU, CPU], output_device=CPU)
    out.square().sum().backward()
    got = [x.grad, *[p.grad for p in module.parameters()]]
    x.grad = None
    module.zero_grad()
    whole = module(x)
    whole.square().sum().backward()
    rl.testing.assert_close(out, whole)
    rl.testing.assert_close(got, [x.grad, *[p.grad for p in module.parameters()]])


def test_nested_inputs_and_outputs() -> None:
    x = rl.arange(6.0)
    parts = scatter({"x": [x, Pair(x * 2, "word")], "n": 3}, [CPU, CPU])
    assert [p["x"][0].tolist() for p in parts] == [[0, 1, 2], [3, 4, 5]]
    assert parts[1]["x"][1].a.tolist() == [6, 8, 10] and parts[1]["x"][1].b == "word" and parts[0]["n"] == 3
    whole = gather([{"x": Pair(p["x"][0], (p["x"][1].a, None))} for p in parts], CPU)
    assert whole["x"].a.tolist() == x.tolist() and whole["x"].b[0].tolist() == (x * 2).tolist()
    assert gather([rl.tensor(1.0), rl.tensor(2.0)], CPU).tolist() == [1, 2]
    given, named = scatter_kwargs((x,), {}, [CPU, CPU, CPU])
    assert len(given) == len(named) == 3
    with pytest.raises(TypeError, match="int"):
        gather([1, 2], CPU)


def test_replicas_have_no_parameters_of_their_own() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    first, second = replicate(module, [CPU, CPU])
    assert not list(first.parameters()) and not list(first[0].parameters()) and first is not second
    (first(rl.ones(2, 2)).sum() + second(rl.ones(2, 2)).sum()).backward()
    assert module[0].weight.grad is not None
    assert list(module.parameters()) and int(module[1].num_batches_tracked) == 2
    detached = replicate(module, [CPU], detach=True)[0]
    assert not detached(rl.ones(2, 2)).requires_grad


def test_errors_of_replicas_are_raised() -> None:
    def fails(x: rl.Tensor) -> rl.Tensor:
        raise KeyError("no")

    with pytest.raises(KeyError):
        parallel_apply([nn.Identity(), fails], [rl.ones(1), rl.ones(1)])
    with pytest.raises(AssertionError, match="2 modules but 1 inputs"):
        parallel_apply([nn.Identity(), nn.Identity()], [rl.ones(1)])
    with rl.no_grad():
        assert not parallel_apply([nn.Linear(1, 1)] * 2, [rl.ones(1)] * 2)[0].requires_grad


def test_copies_between_devices() -> None:
    x = rl.arange(4.0)
    assert [t.tolist() for t in comm.broadcast(x, [CPU, CPU])] == [[0, 1, 2, 3]] * 2
    assert comm.reduce_add([x, x, x]).tolist() == [0, 3, 6, 9]
    assert [t.tolist() for t in comm.reduce_add_coalesced([(x, x), (x, x + 1)])] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert [t.tolist() for t in comm.scatter(x, [CPU, CPU], [1, 3])] == [[0], [1, 2, 3]]
    out = rl.zeros(4)
    assert comm.gather([x[:2], x[2:]], out=out) is out and out.tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="one of devices and out"):
        comm.broadcast(x)
    with pytest.raises(ValueError, match="one shape"):
        comm.reduce_add([x, x[:2]])

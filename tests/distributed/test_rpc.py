"""Calls between workers: results, references, errors, timeouts; gradients and optimizers over several of them."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import threading
import time

import pytest

import rushlight as rl
from rushlight import distributed as dist, nn
from rushlight.distributed import autograd as dist_autograd, rpc
from rushlight.distributed.nn import RemoteModule
from rushlight.distributed.optim import DistributedOptimizer
from rushlight.distributed.rpc import functions
from tests.distributed.processes import Raised, results_of, run


def _worker(rank, ranks, body, folder, *args):
    """A worker of each process; the first one runs the test's body."""
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/met", rpc_timeout=20)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=ranks, rpc_backend_options=options)
    result = body(*args) if rank == 0 else "served"
    rpc.shutdown()
    return result


def _first(ranks, body, folder, *args):
    return results_of(run(ranks, _worker, body, str(folder), *args, make_world=False))[0]


def _who():
    return rpc.get_worker_info().name


def _fail(text):
    raise KeyError(text)


def _slow(seconds):
    time.sleep(seconds)
    return seconds


def _ask_back(name):
    return rpc.rpc_sync(name, _who) + " through " + _who()


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value

    @functions.async_execution
    def add_later(self, amount):
        future = rl.futures.Future()
        threading.Timer(0.05, lambda: future.set_result(self.add(amount))).start()
        return future


@functions.async_execution
def _chained(to, x):
    return rpc.rpc_async(to, rl.add, args=(x, 1)).then(lambda f: f.wait() * 10)


@functions.async_execution
def _not_a_future():
    return 3


def _calls():
    found = {
        "op": rpc.rpc_sync("worker1", rl.add, args=(rl.ones(2), 1)).tolist(),
        "by id": rpc.rpc_sync(1, _who),
        "info": rpc.rpc_sync(rpc.get_worker_info("worker1"), _who),
        "self": rpc.rpc_sync("worker0", _who),
        "kwargs": rpc.rpc_sync("worker1", rl.add, args=(rl.ones(2), 1), kwargs={"alpha": 3}).tolist(),
        "back": rpc.rpc_sync("worker1", _ask_back, args=("worker0",)),
        "large": float(rpc.rpc_sync("worker1", rl.sum, args=(rl.ones(1 << 20),))),
        "nested": rpc.rpc_sync("worker1", dict, args=({"a": [rl.ones(1), (2, "x")]},))["a"][1],
        "none": rpc.rpc_sync("worker1", rl.ones, args=(0, 3)).shape[1],
    }
    futures = [rpc.rpc_async("worker1", rl.mul, args=(rl.tensor(i), 2)) for i in range(50)]
    found["many"] = [int(f.wait()) for f in futures]
    found["then"] = rpc.rpc_async("worker1", _who).then(lambda f: f.value().upper()).wait()
    with rpc._wait_all():
        waited = rpc.rpc_async("worker1", _slow, args=(0.1,))
    found["waited"] = waited.done()
    found["chained"] = rpc.rpc_sync("worker1", _chained, args=("worker0", rl.ones(1))).item()
    return found


def test_functions_are_called_on_other_workers(tmp_path):
    found = _first(2, _calls, tmp_path)
    assert found["op"] == [2, 2] and found["kwargs"] == [4, 4] and found["large"] == 1 << 20
    assert found["by id"] == found["info"] == "worker1" and found["self"] == "worker0"
    assert found["back"] == "worker0 through worker1" and found["nested"] == (2, "x") and found["none"] == 3
    assert found["many"] == [2 * i for i in range(50)] and found["then"] == "WORKER1"
    assert found["waited"] and found["chained"] == 20


def _errors():
    texts = []
    for call in (
        lambda: rpc.rpc_sync("worker1", _fail, args=("oh",)),
        lambda: rpc.rpc_sync("worker9", _who),
        lambda: rpc.rpc_sync("worker1", "no function"),
        lambda: rpc.rpc_sync("worker1", _slow, args=(2,), timeout=0.2),
        lambda: rpc.rpc_sync("worker1", lambda: 1),
        lambda: rpc.rpc_sync("worker1", _not_a_future),
        lambda: rpc.remote("worker1", _fail, args=("remote",)).to_here(),
        lambda: rpc.remote("worker1", Counter, args=(1,)).local_value(),
        lambda: pickle.dumps(rpc.RRef(3)),
        lambda: rpc.init_rpc("again", rank=0, world_size=2),
        lambda: rpc.rpc_sync("worker1", threading.Lock),
    ):
        try:
            texts.append(("no error", str(call())))
        except Exception as error:
            texts.append((type(error).__name__, str(error)))
    rpc.rpc_sync("worker1", _slow, args=(1.0,), timeout=0)       # still there
    return texts


def test_errors_come_back_with_their_kind(tmp_path):
    expected = [
        ("KeyError", "worker1"), ("RuntimeError", "no worker 'worker9'"), ("TypeError", "callable"),
        ("RuntimeError", "set timeout (200 ms)"), ("PicklingError", ""), ("RuntimeError", "async_execution"),
        ("KeyError", "remote"), ("RuntimeError", "to_here"), ("RuntimeError", "call to another worker only"),
        ("RuntimeError", "already initialized"), ("TypeError", "pickle"),
    ]
    found = _first(2, _errors, tmp_path)
    for (kind, words), (found_kind, text) in zip(expected, found, strict=True):
        assert kind in (found_kind, "PicklingError") and words in text, (kind, words, found_kind, text)


def _count_owned():
    gc.collect()
    return len(rpc.rref.State.table)


def _use(counter):
    return counter.rpc_sync().add(5), counter.owner_name(), counter.is_owner()


def _references():
    counter = rpc.remote("worker1", Counter, args=(10,))
    found = {
        "added": counter.rpc_sync().add(1),
        "async": counter.rpc_async().add(1).wait(),
        "later": counter.rpc_sync().add_later(1),
        "left there": counter.remote().add(1).to_here(),
        "by a third": rpc.rpc_sync("worker2", _use, args=(counter,)),
        "by the owner": rpc.rpc_sync("worker1", _use, args=(counter,)),
        "owner": (counter.owner_name(), counter.is_owner(), counter.confirmed_by_owner()),
        "type": counter._get_type().__name__,
        "own": rpc.RRef(4).to_here(),
        "lent": rpc.rpc_sync("worker1", rpc.RRef.to_here, args=(rpc.RRef([1, 2]),)),
    }
    held = rpc.rpc_sync("worker1", _count_owned)
    del counter
    gc.collect()
    deadline = time.monotonic() + 10
    while (left := rpc.rpc_sync("worker1", _count_owned)) and time.monotonic() < deadline:
        time.sleep(0.02)
    found["counts"] = held >= 1, left, _count_owned()
    return found


def test_values_live_on_their_owner_while_somebody_refers_to_them(tmp_path):
    found = _first(3, _references, tmp_path)
    assert found["added"] == 11 and found["async"] == 12 and found["later"] == 13 and found["left there"] == 14
    assert found["by a third"] == (19, "worker1", False) and found["by the owner"] == (24, "worker1", True)
    assert found["owner"] == ("worker1", False, True) and found["type"] == "Counter"
    assert found["own"] == 4 and found["lent"] == [1, 2] and found["counts"] == (True, 0, 0)


# --- gradients --------------------------------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self, seed, out=4):
        super().__init__()
        rl.manual_seed(seed)
        self.linear = nn.Linear(4, out)

    def forward(self, x):
        return rl.tanh(self.linear(x))


def _parameters(module):
    return [rpc.RRef(p) for p in module.local_value().parameters()]


def _x(step):
    return rl.arange(8.0).reshape(2, 4) / 8 + step


def _train_over_workers(steps):
    """A layer here, one on each of two others, the second given the first's result again."""
    here = Layer(0)
    there = [rpc.remote(f"worker{i}", Layer, args=(i,)) for i in (1, 2)]
    references = [rpc.RRef(p) for p in here.parameters()]
    for module in there:
        references += rpc.rpc_sync(module.owner(), _parameters, args=(module,))
    optimizer = DistributedOptimizer(rl.optim.SGD, references, lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        with dist_autograd.context() as context_id:
            hidden = there[0].rpc_sync().forward(here(_x(step)))
            out = there[1].rpc_sync().forward(hidden) + there[1].remote().forward(hidden * 2).to_here() + hidden
            loss = out.square().mean()
            dist_autograd.backward(context_id, [loss])
            grads = dist_autograd.get_gradients(context_id)
            assert set(grads) == set(here.parameters())
            assert step or all(p.grad is None for p in here.parameters())
            optimizer.step(context_id)
        losses.append(float(loss.detach()))
    with pytest.raises(RuntimeError, match="autograd context"):
        dist_autograd.get_gradients(context_id)
    return losses


def test_training_over_workers_is_one_processs(tmp_path):
    found = _first(3, _train_over_workers, tmp_path, 4)
    layers = [Layer(i) for i in range(3)]
    optimizer = rl.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1, momentum=0.9)
    losses = []
    for step in range(4):
        hidden = layers[1](layers[0](_x(step)))
        loss = (layers[2](hidden) + layers[2](hidden * 2) + hidden).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert found == pytest.approx(losses, rel=1e-6)


def _remote_module():
    module = RemoteModule("worker1/cpu", Layer, args=(3,))
    x = _x(0)
    ours = Layer(3)
    found = [rl.allclose(module(x), ours(x)), rl.allclose(module.forward_async(x).wait(), ours(x))]
    found.append(len(module.remote_parameters()))
    found.append(rl.allclose(rpc.rpc_sync("worker1", RemoteModule.forward, args=(module, x)), ours(x)))
    module.eval()
    for call in (module.parameters, module.state_dict, lambda: RemoteModule("worker1/cpu", Counter, args=(1,))(x)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(RuntimeError, match="call to another worker only"):
        pickle.dumps(module)
    return found


def test_a_module_on_another_worker(tmp_path):
    assert _first(2, _remote_module, tmp_path) == [True, True, 2, True]


def _rref_backward():
    x = rl.ones(3, requires_grad=True)
    rpc.RRef((x * 2).sum()).backward()
    with dist_autograd.context() as context_id:
        loss = rpc.remote("worker1", rl.sum, args=(x * 3,))
        loss.backward(context_id)
        return x.grad.tolist(), dist_autograd.get_gradients(context_id)[x].tolist()


def test_backward_of_a_reference(tmp_path):
    assert _first(2, _rref_backward, tmp_path) == ([2.0] * 3, [3.0] * 3)


# --- what goes wrong --------------------------------------------------------------------------------------------------


def _exit():
    os._exit(5)


def _call_the_dead(rank, ranks, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/met", rpc_timeout=20)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=ranks, rpc_backend_options=options)
    if rank == 1:
        time.sleep(30)
    start, texts = time.monotonic(), []
    for function in (_exit, _who):
        try:
            rpc.rpc_sync("worker1", function)
        except RuntimeError as error:
            texts.append(str(error))
    rpc.shutdown(graceful=False)
    return texts, time.monotonic() - start


def test_a_worker_that_dies_is_named_at_once(tmp_path):
    first, second = run(2, _call_the_dead, str(tmp_path), make_world=False)
    assert second is None and not isinstance(first, Raised), first
    texts, seconds = first
    assert len(texts) == 2 and all("worker1" in text for text in texts) and seconds < 10


def _group_and_workers(rank, ranks, port):
    """A process may be both, met at one port."""
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=ranks)
    total = rl.tensor(rank + 1)
    dist.all_reduce(total)
    answer = rpc.rpc_sync(f"worker{1 - rank}", _who)
    rpc.shutdown()
    return int(total), answer


def test_workers_that_are_ranks_too():
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    assert results_of(run(2, _group_and_workers, port, make_world=False)) == [(3, "worker1"), (3, "worker0")]


def _same_name(rank, ranks, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/met", rpc_timeout=10)
    rpc.init_rpc("same", rank=rank, world_size=ranks, rpc_backend_options=options)


def test_two_workers_of_one_name_are_told(tmp_path):
    for found in run(2, _same_name, str(tmp_path), make_world=False):
        assert isinstance(found, Raised) and "'same'" in found.text


def test_nothing_can_be_called_before_init():
    with pytest.raises(RuntimeError, match="RPC has not been initialized"):
        rpc.rpc_sync("worker1", _who)
    with pytest.raises(RuntimeError, match="RPC has not been initialized"):
        rpc.RRef(1)
    with pytest.raises(ValueError, match="name"):
        rpc.init_rpc("a name with spaces", rank=0, world_size=1)
    with pytest.raises(NotImplementedError, match="CPU only"):
        rpc.TensorPipeRpcBackendOptions(device_maps={"worker1": {"cuda:0": "cuda:1"}})
    with pytest.raises(NotImplementedError, match="not profiled"):
        rpc.enable_gil_profiling(True)
    assert rpc.is_available() and dist_autograd.is_available()

"""Graph modules as modules: pickles, folders, quick calls, wrapped functions, what the tracer leaves behind."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import subprocess
import sys

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import fx, nn
from rushlight.fx.experimental import optimization
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.passes.shape_prop import ShapeProp


@fx.wrap
def chosen(x, flag=True):
    """Its body could not be traced."""
    return x * 2 if x.sum() > 0 or flag else x


fx.wrap("len")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.register_buffer("offset", rl.ones(4))
        self.scale = nn.Parameter(rl.full((4,), 2.0))

    def forward(self, x, k=1):
        y = F.gelu(self.body(x)) * self.scale + self.offset.to(rl.float32)
        return {"y": chosen(y), "n": len(y) + k, "t": rl.zeros(2, device=rl.device("cpu"))}


def same(a, b) -> bool:
    return rl.equal(a["y"], b["y"]) and a["n"] == b["n"]


def test_pickles_keep_graph_and_parameters() -> None:
    net = Net()
    gm, x = fx.symbolic_trace(net), rl.randn(2, 3)
    for again in (pickle.loads(pickle.dumps(gm)), copy.deepcopy(gm)):
        assert again.code == gm.code and str(again.graph) == str(gm.graph)
        assert same(again(x), net(x)) and list(again.state_dict()) == list(gm.state_dict())
        again.scale.data.zero_()
        assert gm.scale.sum() == 8
    file = io.BytesIO()
    rl.save(gm, file)
    file.seek(0)
    assert same(rl.load(file, weights_only=False)(x), net(x))


def test_pickles_open_in_another_process(tmp_path) -> None:
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.GELU()))
    path = tmp_path / "gm.pkl"
    path.write_bytes(pickle.dumps(gm))
    program = (
        f"import pickle, rushlight as rl; gm = pickle.load(open({str(path)!r}, 'rb')); print(gm(rl.ones(1, 2)).shape,"
        " 'gelu' in gm.code or gm.graph)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Size([1, 2])" in done.stdout


def test_unnamed_functions_do_not_pickle() -> None:
    def local(x):
        return x

    graph = fx.Graph()
    graph.output(graph.call_function(local, (graph.placeholder("x"),)))
    with pytest.raises(RuntimeError, match="cannot be imported"):
        pickle.dumps(fx.GraphModule({}, graph))


def test_folder_is_a_package(tmp_path, monkeypatch) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    gm = fx.symbolic_trace(net)
    with pytest.warns(UserWarning, match="saved as pickles"):
        gm.to_folder(tmp_path / "kept", "Kept")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = importlib.import_module("kept").Kept()
    x = rl.randn(2, 2)
    assert rl.equal(result(x), net(x))


def test_wrapped_functions_are_one_call_and_stay_so() -> None:
    gm = fx.symbolic_trace(Net())
    assert [n.name for n in gm.graph.nodes if n.op == "call_function" and n.target is chosen] == ["chosen"]
    assert gm.code.startswith('\ntorch.fx._symbolic_trace.wrap("')
    again = fx.symbolic_trace(gm)
    assert [n.op for n in again.graph.nodes] == [n.op for n in gm.graph.nodes]


def test_tracing_leaves_modules_as_they_were() -> None:
    """Calls of modules are quick again, and their parameters are tensors, also after a failed trace."""
    net, before = Net(), (nn.Module.__call__, nn.Module.__getattr__)
    for bad in (Net(), lambda x: x if x else -x, lambda x: undefined_name):  # noqa: F821
        try:
            fx.symbolic_trace(bad)
        except (fx.proxy.TraceError, NameError):
            pass
        assert (nn.Module.__call__, nn.Module.__getattr__) == before
    assert type(net.scale) is nn.Parameter and net(rl.ones(1, 3))["n"] == 2
    assert not isinstance(len([1]), fx.Proxy)


def test_asserts_can_be_traced() -> None:
    class Tracer(fx.Tracer):
        trace_asserts = True

    names: dict = {}
    exec("def f(x):\n    assert x.sum() > 0\n    return x", names)   # pytest would rewrite an assertion of its own
    graph = Tracer().trace(names["f"])
    gm = fx.GraphModule({}, graph)
    assert gm(rl.ones(2)).sum() == 2
    with pytest.raises(AssertionError):
        gm(-rl.ones(2))


def test_mutable_operations_can_be_refused() -> None:
    class Tracer(fx.Tracer):
        check_mutable_operations = True

    with pytest.raises(RuntimeError, match="writes to its arguments"):
        Tracer().trace(lambda x: rl.relu_(x))
    Tracer().trace(lambda x: rl.relu(x))


def test_spellings_of_one_op_are_equal() -> None:
    assert F.relu == rl.relu and hash(F.relu) == hash(rl.relu) and {rl.relu: 1}[F.relu] == 1
    graph = fx.symbolic_trace(lambda x: rl.relu(F.relu(x))).graph
    assert len(graph.find_nodes(op="call_function", target=rl.relu)) == 2
    assert F.gelu is not F.relu and F.relu != F.gelu and F.conv2d is rl.conv2d


def test_functions_written_in_python_are_recorded() -> None:
    def f(x, y):
        return (
            rl.einsum("ij,jk", x, y),
            rl.broadcast_tensors(x, y),
            rl.equal(x, y),
            rl.allclose(x, y),
            rl.numel(x),
            rl.is_floating_point(x),
            rl.detach(x),
        )

    targets = [n.target.__name__ for n in fx.symbolic_trace(f).graph.nodes if n.op == "call_function"]
    assert targets == ["einsum", "broadcast_tensors", "equal", "allclose", "numel", "is_floating_point", "detach"]
    gm = fx.symbolic_trace(lambda x: rl.einsum("ij->j", x))
    assert gm(rl.ones(2, 3)).tolist() == [2.0] * 3


def test_assertions_on_traced_values_are_kept() -> None:
    gm = fx.symbolic_trace(lambda x: (rl._assert(x.ndim == 2, "two dims"), x)[1])
    gm.graph.eliminate_dead_code()
    gm.recompile()
    gm(rl.ones(1, 1))
    with pytest.raises(AssertionError, match="two dims"):
        gm(rl.ones(1))


def test_batch_norms_fold() -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(3),
        nn.BatchNorm1d(3),
        nn.Dropout(),
    ).train()
    x = rl.randn(4, 1, 5, 5)
    net(x)
    net.eval()
    fused = optimization.fuse(net)
    assert not any(
        isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))
        for _, m in fused.named_modules()
        if any(n.target == _ for n in fused.graph.nodes)
    )
    assert rl.allclose(fused(x), net(x), atol=1e-5)
    assert "call_module[target=6]" not in str(optimization.remove_dropout(net).graph)


def test_drawings_are_dot_text() -> None:
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    ShapeProp(gm).propagate(rl.ones(1, 2))
    text = FxGraphDrawer(gm, "net").get_dot_graph().to_string()
    assert text.startswith('digraph "net"') and '"_0" -> "_1";' in text and "shape=[1, 2]" in text


def test_interpreting_uses_no_more_memory_than_needed() -> None:
    alive = []

    class Watch(fx.Interpreter):
        def run_node(self, n):
            alive.append(len(self.env))
            return super().run_node(n)

    Watch(fx.symbolic_trace(lambda x: x.sin().cos().tan().exp())).run(rl.ones(2))
    assert max(alive) == 1


def test_table_of_nodes(capsys) -> None:
    fx.symbolic_trace(lambda x: x + 1).graph.print_tabular()
    assert capsys.readouterr().out.splitlines() == [
        "opcode         name    target                   args    kwargs",
        "-------------  ------  -----------------------  ------  --------",
        "placeholder    x       x                        ()      {}",
        "call_function  add     <built-in function add>  (x, 1)  {}",
        "output         output  output                   (add,)  {}",
    ]


def test_threads_wait_for_code_that_another_generates():
    """The first thread generates; a switch in the middle must not send the second round in circles."""
    import threading

    from rushlight.fx._lazy_graph_module import _LazyGraphModule

    class Slow(rl.fx.Graph):
        def python_code(self, *args, **kwargs):
            started.set()
            assert waiting.wait(10)
            return super().python_code(*args, **kwargs)

    started, waiting, found = threading.Event(), threading.Event(), []
    graph = Slow()
    x = graph.placeholder("x")
    graph.output(graph.call_function(rl.neg, (x,)))
    module = _LazyGraphModule(rl.nn.Module(), graph)
    module._graph = graph      # a GraphModule copies what it is given
    threads = [threading.Thread(target=lambda: found.append(module(rl.ones(2)).tolist())) for _ in range(2)]
    threads[0].start()
    assert started.wait(10)
    threads[1].start()
    threads[1].join(0.2)
    waiting.set()
    for thread in threads:
        thread.join(10)
    assert found == [[-1.0, -1.0]] * 2

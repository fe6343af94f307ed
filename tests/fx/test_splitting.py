"""Splitter, minimizer and drawings: which nodes go where, as PyTorch puts them; who is to blame."""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ET

import pytest

import rushlight as rl
from rushlight import fx, nn
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.passes.graph_manipulation import get_size_of_all_nodes, replace_target_nodes_with
from rushlight.fx.passes.net_min_base import _MinimizerBase, _MinimizerSettingBase
from rushlight.fx.passes.operator_support import create_op_support
from rushlight.fx.passes.splitter_base import FxNetSplitterInternalError, _SplitterBase, _SplitterSettingBase


def passes(framework: str):
    names = ("splitter_base", "operator_support")
    return {name: importlib.import_module(f"{framework}.fx.passes.{name}") for name in names}


def network(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = t.nn.Linear(4, 4)

        def forward(self, x):
            a = t.sin(x)
            b = t.cos(x) + a
            c = self.lin(t.relu(b))
            d = t.sin(c) + t.sigmoid(a)
            return t.cos(d).sum() + x.size(0)

    return t.fx.symbolic_trace(Net())


def split(framework: str, supported: set[str], **settings):
    t = importlib.import_module(framework)
    p = passes(framework)
    module = network(t)
    support = p["operator_support"].create_op_support(lambda modules, node: node.name in supported)
    splitter = p["splitter_base"]._SplitterBase(
        module, (t.ones(2, 4),), support, p["splitter_base"]._SplitterSettingBase(**settings)
    )
    result = splitter()
    return result, splitter.get_node_submodule_map(), module


@pytest.mark.parametrize("supported", [
    {"sin", "cos", "add"}, {"sin", "cos", "add", "relu", "lin", "sin_1"}, {"relu", "sigmoid"}, set(),
    {"sin", "cos", "add", "relu", "lin", "sin_1", "sigmoid", "add_1", "cos_1", "sum_1", "size", "add_2"},
    {"lin", "size"},
])
@pytest.mark.parametrize("least", [1, 2])
def test_nodes_go_where_pytorch_puts_them(supported, least):
    pytest.importorskip("torch")
    ours, where, module = split("rushlight", supported, min_acc_module_size=least)
    _, theirs, _ = split("torch", supported, min_acc_module_size=least)
    assert where == theirs
    rl.testing.assert_close(ours(rl.ones(2, 4)), module(rl.ones(2, 4)))


def splitter(supported, lower=None, **settings):
    class Splitter(_SplitterBase):
        def _lower_model_to_backend(self, mod, inputs):
            return mod if lower is None else lower(mod)

    support = create_op_support(lambda modules, node: node.name in supported)
    return Splitter(network(rl), (rl.ones(2, 4),), support, _SplitterSettingBase(**settings))


def test_previews_tell_what_is_supported_and_what_crosses(capsys):
    result = splitter({"sin", "cos", "add"})
    report = result.node_support_preview()
    assert "torch.sin: ((rushlight.float32,), {})" in report.partition("Not supported")[0]
    assert "torch.nn.modules.linear.Linear" in report.partition("Not supported")[2]
    report = result.split_preview()
    assert "_run_on_acc_1: 3 node(s)" in report and "32 bytes go in, 64 come out" in report and "runs." in report

    def broken(mod):
        raise RuntimeError("no")

    assert "fails during lowering" in splitter({"sin", "cos", "add"}, broken).split_preview()
    capsys.readouterr()


def test_results_have_the_inputs_of_every_part():
    result = splitter({"sin", "cos", "add"}).generate_split_results()
    assert result.non_acc_submodule_prefix == "_run_on_cpu_"
    assert [len(v) for v in result.submodule_inputs.values()] == [1, 1, 3]
    with pytest.raises(ValueError, match="max_acc_splits=1"):
        splitter({"sin", "cos", "add"}, max_acc_splits=1).generate_split_results()
    with pytest.raises(NotImplementedError, match="move_non_tensor"):
        _SplitterSettingBase(move_non_tensor_nodes_on_boundary=True)
    answer = splitter({"sin"})
    answer.tag(answer.put_nodes_into_subgraphs())
    with pytest.raises(FxNetSplitterInternalError, match="already"):
        answer.tag(answer.put_nodes_into_subgraphs())


# --- the minimizer ----------------------------------------------------------------------------------------------------


class Wrong(_MinimizerBase):
    """The second way computes some nodes wrongly."""

    wrong: tuple[str, ...] = ()

    def run_a(self, mod, inputs, report_idx=-1):
        return mod(*inputs)

    def run_b(self, mod, inputs, report_idx=-1):
        names = self.wrong

        class Off(fx.Interpreter):
            def run_node(self, n):
                result = super().run_node(n)
                return result + 1 if n.op == "call_function" and n.name in names else result

        return Off(mod).run(*inputs)


def compare(a, b, names):
    a, b = (x if isinstance(x, tuple) else (x,) for x in (a, b))
    worst = max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))
    return worst, worst < 1e-5


def minimizer(wrong, **settings):
    class Chain(nn.Module):
        def forward(self, x):
            return rl.tanh(rl.relu(rl.exp(rl.cos(rl.sin(x)))))

    result = Wrong(fx.symbolic_trace(Chain()), (rl.linspace(0, 1, 5),), compare, _MinimizerSettingBase(**settings))
    result.wrong = wrong
    return result


@pytest.mark.parametrize(("settings", "wrong", "expected"), [
    ({}, ("exp",), {"exp"}), ({}, (), set()), ({"find_all": True}, ("sin", "relu"), {"sin", "relu"}),
    ({"traverse_method": "binary"}, ("relu",), {"relu"}),
    ({"traverse_method": "binary", "find_all": True}, ("sin", "exp"), {"sin", "exp"}),
    ({"traverse_method": "accumulate"}, ("exp",), {"exp"}),
    ({"traverse_method": "defined"}, ("exp",), {"sin", "cos", "exp", "relu", "tanh"}),
    ({"accumulate_error": True}, ("cos",), {"cos"}),
])
def test_culprits_are_found(settings, wrong, expected, capsys):
    assert {n.name for n in minimizer(wrong, **settings).minimize()} == expected
    capsys.readouterr()


def test_other_methods_of_the_minimizer(capsys):
    skip = minimizer(("cos",), traverse_method="skip")
    assert {n.name for n in skip.minimize(skip_nodes=["exp"])} == {"sin", "cos"}
    with pytest.raises(RuntimeError, match="skip_nodes"):
        skip.minimize()
    for last, expected in ((True, {"exp"}), (False, {"exp"}), (None, {"exp"})):
        result = minimizer(("exp",), traverse_method="block")
        assert {n.name for n in result.minimize(find_last_node=last)} == expected
    with pytest.raises(RuntimeError, match="unknown traverse_method 'x'"):
        minimizer((), traverse_method="x").minimize()
    result = minimizer(("relu",), return_intermediate=True)
    result.run_nodes("exp", "relu")
    assert "differ" in capsys.readouterr().out
    assert {n.name for n in minimizer(("relu",)).minimize("sin", "exp")} == set()
    with pytest.raises(RuntimeError, match="run_a"):
        _MinimizerBase(fx.symbolic_trace(nn.ReLU()), (rl.ones(2),), compare, _MinimizerSettingBase()).run_a(None, ())
    with pytest.raises(AssertionError, match="takes 1 inputs, got 2"):
        Wrong(fx.symbolic_trace(nn.ReLU()), (rl.ones(2), 1), compare, _MinimizerSettingBase())


# --- drawings and sizes -----------------------------------------------------------------------------------------------


def test_graphs_are_drawn_as_svg_without_graphviz(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    module = network(rl)
    drawn = FxGraphDrawer(module, "net <1>").get_dot_graph()
    drawn.write_svg(tmp_path / "net.svg")
    root = ET.parse(tmp_path / "net.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    boxes = {g.get("id"): g.find(f"{space}rect") for g in root.findall(f"{space}g")}
    assert {n.name for n in module.graph.nodes} <= set(boxes)
    assert len(root.findall(f"{space}path")) == len(drawn.edges)
    for node in module.graph.nodes:                 # below what they use, and no two on top of each other
        for used in node.all_input_nodes:
            assert float(boxes[used.name].get("y")) < float(boxes[node.name].get("y"))
    spots = [(float(b.get("x")), float(b.get("y")), float(b.get("width"))) for b in boxes.values()]
    for i, (x, y, w) in enumerate(spots):
        assert not any(y == q and x < p + v and p < x + w for p, q, v in spots[:i])
    with pytest.raises(RuntimeError, match="png pictures need Graphviz"):
        drawn.write_png(tmp_path / "net.png")


def test_sizes_and_targets():
    module = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    get_size_of_all_nodes(module, [rl.ones(2, 4)])
    sizes = {n.name: tuple(n.size_bytes) for n in module.graph.nodes if n.op != "output"}
    assert sizes == {"input_1": (32, 32), "_0": (24, 24 + 60), "_1": (24, 24)}
    module = fx.symbolic_trace(lambda x: rl.sin(x))
    replace_target_nodes_with(module, "call_function", rl.sin, "call_function", rl.cos)
    rl.testing.assert_close(module(rl.ones(2)), rl.cos(rl.ones(2)))

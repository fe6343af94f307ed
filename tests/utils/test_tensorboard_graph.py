"""add_graph and add_onnx_graph beside PyTorch's: the same ops in the same scopes, with the same inputs, attributes and
shapes, as TensorBoard's own reader sees them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.tensorboard import SummaryWriter

reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def models(lib: ModuleType) -> dict[str, Any]:
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(4, 8)
            self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1))
            self.register_buffer("scale", lib.ones(8))
            self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 2, bias=False)])

        def forward(self, x, y):
            h = nn.functional.relu(self.fc1(x)) + y
            h = self.body(h) * self.scale
            for layer in self.layers:
                h = layer(h)
            return h.sum(1), h.view(-1)

    class Conv(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn, self.pool = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.MaxPool2d(2)
            self.up = nn.ConvTranspose2d(2, 2, 2, stride=2)

        def forward(self, x):
            return lib.flatten(self.up(self.pool(nn.functional.relu(self.bn(self.conv(x))))), 1)

    class Split(nn.Module):
        def forward(self, pair):
            a, b = pair.chunk(2, 1)
            return lib.cat([a.softmax(-1), lib.matmul(b, b.t()) @ a]).transpose(0, 1).contiguous()

    return {
        "net": (Net(), (lib.ones(3, 4), lib.ones(3, 8))),
        "conv": (Conv(), lib.ones(2, 1, 8, 8)),
        "split": (Split(), lib.ones(2, 4)),
        "norm": (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU(), nn.Softmax(-1)), lib.ones(2, 3, 4)),
        "one": (nn.Sequential(nn.Linear(2, 2)), lib.ones(1, 2)),
        "relu": (nn.ReLU(), lib.ones(2)),
    }


def drawn(writer: Any, folder: Path, *args: Any, **kwargs: Any) -> list[Any]:
    """The nodes that a writer leaves: name, op, inputs, attributes."""
    with writer(str(folder)) as w:
        w.add_graph(*args, **kwargs)
    return nodes_in(folder)


def nodes_in(folder: Path) -> list[Any]:
    events = reader.EventAccumulator(str(folder))
    events.Reload()
    return [
        (n.name, n.op, list(n.input), {
            key: [[d.size for d in s.dim] for s in v.list.shape] if key == "_output_shapes" else v.s.decode()
            for key, v in sorted(n.attr.items())
        })
        for n in events.Graph().node
    ]


def canonical(nodes: list[Any]) -> Counter[Any]:
    """The graph without the numbers of values: each node as its scope, op, attributes, and what it is made from."""
    known = {n[0]: n for n in nodes}
    seen: dict[str, str] = {}

    def scope(name: str) -> str:
        return name.partition(".")[0] if name.startswith(("input/", "output/")) else name.rpartition("/")[0]

    def whole(name: str) -> str:
        if name not in known:
            return f"no node, in {scope(name)}"
        if name not in seen:
            _, op, inputs, attributes = known[name]
            seen[name] = f"{scope(name)} {op} {attributes} ({', '.join(whole(i) for i in inputs)})"
        return seen[name]

    return Counter(whole(name) for name in known)


@pytest.mark.parametrize("name", ["net", "conv", "split", "norm", "one", "relu"])
def test_graphs_equal_pytorchs(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.tensorboard import SummaryWriter as TorchWriter

    expected = drawn(TorchWriter, tmp_path / "theirs", *models(torch)[name])
    got = drawn(SummaryWriter, tmp_path / "ours", *models(rl)[name])
    assert canonical(got) == canonical(expected)


STORED = [
    ("input/x", "IO Node", [], {"_output_shapes": [[3, 4]], "attr": ""}),
    ("input/y", "IO Node", [], {"_output_shapes": [[3, 8]], "attr": ""}),
    ("output/output.1", "IO Node", ["Net/22"], {"_output_shapes": [[1]], "attr": ""}),
    ("Net/Linear[fc1]/weight/weight", "prim::GetAttr", ["Net/Linear[fc1]/weight/fc1"], {"attr": "{ name :  weight }"}),
    ("Net/Linear[fc1]/bias/bias", "prim::GetAttr", ["Net/Linear[fc1]/weight/fc1"], {"attr": "{ name :  bias }"}),
]


def test_graph_has_scopes_shapes_and_constants(tmp_path: Path) -> None:
    model, args = models(rl)["net"]
    nodes = drawn(SummaryWriter, tmp_path, model, args)
    assert [n for n in nodes if n[0].startswith("input/")] == STORED[:2]
    assert STORED[3] in nodes
    assert STORED[4] in nodes
    by_op = {op: (name, inputs, attributes) for name, op, inputs, attributes in nodes}
    name, inputs, attributes = by_op["aten::dropout"]
    assert name.startswith("Net/Sequential[body]/Dropout[2]/")
    assert attributes["_output_shapes"] == [[3, 8]]
    constants = {n[0]: n[3]["attr"] for n in nodes if n[1] == "prim::Constant"}
    assert [constants[i] for i in inputs[1:]] == ["{ value : 0.1}", "{ value : 0}"]
    assert by_op["IO Node"][0] == "output/output.1"
    # a weight without its bias: None is a constant without a value
    last = [n for n in nodes if n[1] == "aten::linear"][-1]
    assert last[0].startswith("Net/Linear[1]/")
    assert last[2][1] == "Net/ModuleList[layers]/Linear[1]/weight/weight"
    assert constants[last[2][2]] == "{}"
    assert len({n[0] for n in nodes}) == len(nodes)


def test_a_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = rl.nn.Sequential(rl.nn.BatchNorm1d(2), rl.nn.Dropout(0.5))
    model[1].eval()
    before = model[0].running_mean.tolist()
    nodes = drawn(SummaryWriter, tmp_path, model, rl.randn(4, 2))
    assert model.training
    assert not model[1].training
    assert model[0].running_mean.tolist() == before
    assert model[0].num_batches_tracked.item() == 0
    assert any(n[1] == "aten::dropout" for n in nodes)


def test_programs_that_look_at_elements_are_drawn_as_they_ran(tmp_path: Path) -> None:
    class Looks(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = rl.nn.Linear(2, 2)

        def forward(self, x):
            y = self.inner(x) if x.sum() > 0 else x
            for _ in range(int(x.max().item())):
                y = y.exp()
            return y

    nodes = drawn(SummaryWriter, tmp_path, Looks(), rl.ones(1, 2) * 2)
    assert sum(n[1] == "aten::exp" for n in nodes) == 2
    linear = next(n for n in nodes if n[1] == "aten::linear")
    assert linear[0].startswith("Looks/Linear[inner]/")
    assert linear[2][0] == "input/x"
    assert linear[3]["_output_shapes"] == [[1, 2]]
    assert next(n for n in nodes if n[0] == "output/output.1")[2] == [[n[0] for n in nodes if n[1] == "aten::exp"][-1]]


def test_containers_need_a_trace_that_is_not_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Dict(rl.nn.Module):
        def forward(self, x):
            return {"a": x + 1}

    with pytest.raises(RuntimeError):
        drawn(SummaryWriter, tmp_path / "strict", Dict(), rl.ones(2))
    assert "No graph saved" in capsys.readouterr().out
    nodes = drawn(SummaryWriter, tmp_path / "not", Dict(), rl.ones(2), verbose=True, use_strict_trace=False)
    built = next(n for n in nodes if n[1] == "prim::DictConstruct")
    assert len(built[2]) == 2
    assert "aten::add(input/x, " in capsys.readouterr().out


def test_onnx_graph_equals_pytorchs(tmp_path: Path) -> None:
    model = rl.nn.Sequential(rl.nn.Conv2d(1, 2, 3, padding=1), rl.nn.ReLU(), rl.nn.Flatten(), rl.nn.Linear(32, 3))
    path = str(tmp_path / "model.onnx")
    rl.onnx.export(model.eval(), (rl.ones(1, 1, 4, 4),), path)
    with SummaryWriter(str(tmp_path / "ours")) as w:
        w.add_onnx_graph(path)
    got = nodes_in(tmp_path / "ours")
    assert [(op, shape) for _, op, _, shape in got][:1] == [("Variable", {"dtype": "", "shape": ""})]
    assert {op for _, op, _, _ in got} >= {"Conv", "Relu", "Gemm", "Variable"}
    assert "pads = [1, 1, 1, 1] = 7" in next(a["parameters"] for _, op, _, a in got if op == "Conv")
    (tmp_path / "none.onnx").write_bytes(b"\xff\xff\xff")
    with SummaryWriter(str(tmp_path / "bad")) as w, pytest.raises(ValueError, match=r"none\.onnx"):
        w.add_onnx_graph(tmp_path / "none.onnx")
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    from torch.utils.tensorboard import SummaryWriter as TorchWriter

    with TorchWriter(str(tmp_path / "theirs")) as w:
        w.add_onnx_graph(path)
    assert got == nodes_in(tmp_path / "theirs")

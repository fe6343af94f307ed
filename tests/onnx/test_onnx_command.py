"""`python -m rushlight onnx FILE` says what a file is, and whether it runs here."""

from __future__ import annotations

import rushlight as torch
from rushlight.__main__ import main
from rushlight.onnx.model import Graph, Model, Node, Value


def written(path, op: str) -> str:
    value = Value("x", torch.float32, ("n", 3))
    graph = Graph("g", [value], [Value("y", torch.float32, ("n", 3))], [Node(op, ("x",), ("y",))])
    Model(graph, 20, 10, producer=("tests", "1")).save(str(path))
    return str(path)


def test_it_describes_and_runs(tmp_path, capsys):
    path = written(tmp_path / "m.onnx", "Relu")
    assert main(["onnx", path, "--run", "--size", "4"]) == 0
    shown = capsys.readouterr().out
    assert "input   x: float[n, 3]" in shown and "nodes   1: Relu 1" in shown and "written by tests 1" in shown
    assert "gives   y: rushlight.float32[4, 3]" in shown


def test_dims_that_vary_are_sized_by_name(tmp_path, capsys):
    path = written(tmp_path / "m.onnx", "Relu")
    assert main(["onnx", path, "--run", "--size", "2", "--size", "n=5"]) == 0
    assert "gives   y: rushlight.float32[5, 3]" in capsys.readouterr().out
    assert main(["onnx", path, "--run", "--size", "rows=5"]) == 2
    assert "one of n, got 'rows=5'" in capsys.readouterr().err


def test_it_names_what_is_missing(tmp_path, capsys):
    assert main(["onnx", written(tmp_path / "m.onnx", "Nowhere")]) == 1
    assert "missing Nowhere of ai.onnx version 20" in capsys.readouterr().out


def test_files_that_cannot_be_read_are_said_to_be(tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(b"no model at all")
    assert main(["onnx", str(tmp_path / "m.onnx")]) == 2
    assert main(["onnx", str(tmp_path / "none.onnx")]) == 2
    assert "none.onnx" in capsys.readouterr().err

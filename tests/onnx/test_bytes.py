"""What is written, byte by byte: needs neither onnx nor a runtime."""

from __future__ import annotations

import os

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.onnx import model as models
from rushlight.onnx.wire import Message, fields, varint


def texts(data: object, number: int) -> list[str]:
    return [bytes(v).decode() for f, v in fields(data) if f == number]


def inside(data: object, number: int) -> list[object]:
    return [v for f, v in fields(data) if f == number]


def exported(**options: object) -> torch.onnx.ONNXProgram:
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3)).eval()
    return torch.onnx.export(net, (torch.ones(2, 8),), **options)


@pytest.mark.parametrize(("value", "data"), [
    (0, b"\0"), (1, b"\1"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\x01"),
])
def test_integers_are_written_seven_bits_at_a_time(value, data):
    assert varint(value) == data


def test_a_message_reads_back_field_by_field():
    inner = Message().text(1, "héllo").integer(2, 7)
    data = bytes(Message().integer(1, 5).real(2, 0.5).message(3, inner).integers(4, [1, 300]))
    found = list(fields(data))
    assert found[0] == (1, 5) and found[1] == (2, 0.5)
    parts = [(f, v if isinstance(v, int) else bytes(v)) for f, v in fields(found[2][1])]
    assert parts == [(1, "héllo".encode()), (2, 7)]
    assert bytes(found[3][1]) == b"\x01\xac\x02"


def test_what_is_cut_off_is_no_message():
    data = bytes(Message().text(1, "hello"))
    with pytest.raises(ValueError, match="cut off"):
        list(fields(data[:-1]))


def test_a_model_has_the_fields_that_the_standard_says():
    program = exported(dynamic_shapes=({0: "batch"},), input_names=["features"], output_names=["scores"])
    data = program.serialize()
    assert inside(data, 1) == [9] and texts(data, 2) == ["rushlight"]
    (opset,) = inside(data, 8)
    assert inside(opset, 2) == [20]
    (graph,) = inside(data, 7)
    nodes = inside(graph, 1)
    assert [texts(n, 4)[0] for n in nodes] == ["Gemm", "Relu", "Gemm"]
    assert texts(nodes[0], 1) == ["features", "0.weight", "0.bias"] and texts(nodes[2], 2) == ["scores"]
    assert sorted(texts(t, 8)[0] for t in inside(graph, 5)) == ["0.bias", "0.weight", "2.bias", "2.weight"]
    (given,) = inside(graph, 11)
    (shape,) = inside(inside(inside(given, 2)[0], 1)[0], 2)
    dims = inside(shape, 1)
    assert texts(dims[0], 2) == ["batch"] and inside(dims[1], 1) == [8]


def test_elements_are_those_of_the_parameters():
    program = exported()
    (graph,) = inside(program.serialize(), 7)
    found = {texts(t, 8)[0]: t for t in inside(graph, 5)}
    weight = program.exported_program.state_dict["0.weight"]
    np.testing.assert_array_equal(np.frombuffer(inside(found["0.weight"], 9)[0], np.float32),
                                  weight.detach().numpy().ravel())


def test_large_tensors_lie_beside_the_model(tmp_path):
    program = exported()
    path = tmp_path / "net.onnx"
    program.save(path, external_data=True)
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "net.onnx.data"]
    (graph,) = inside(path.read_bytes(), 7)
    found = {texts(t, 8)[0]: t for t in inside(graph, 5)}
    place = dict([texts(e, 1)[0], texts(e, 2)[0]] for e in inside(found["0.weight"], 13))
    assert place["location"] == "net.onnx.data" and int(place["length"]) == 64 * 8 * 4
    assert int(place["offset"]) % 4096 == 0 and inside(found["0.weight"], 14) == [1]
    begin = int(place["offset"])
    data = (tmp_path / "net.onnx.data").read_bytes()[begin : begin + int(place["length"])]
    weight = program.exported_program.state_dict["0.weight"]
    np.testing.assert_array_equal(np.frombuffer(data, np.float32), weight.detach().numpy().ravel())
    assert inside(found["2.bias"], 9), "small tensors stay in the model"


def test_one_file_when_asked_for(tmp_path):
    exported(f=tmp_path / "net.onnx", external_data=False)
    assert os.listdir(tmp_path) == ["net.onnx"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "net.onnx"
    path.write_bytes(b"before")

    def fails(*args):
        raise OSError("disk full")

    monkeypatch.setattr(models, "write", fails)
    with pytest.raises(OSError, match="disk full"):
        exported().save(path)
    assert path.read_bytes() == b"before" and os.listdir(tmp_path) == ["net.onnx"]


def test_models_too_large_for_one_file_say_what_to_do(monkeypatch, tmp_path):
    program = exported()
    monkeypatch.setattr(models, "LARGEST_FILE", 2000)
    with pytest.raises(ValueError, match="external_data=True"):
        program.serialize()
    program.save(tmp_path / "net.onnx", external_data=True)


def test_parameters_may_be_inputs(tmp_path):
    program = exported()
    program.save(tmp_path / "a.onnx", include_initializers=False, external_data=False)
    (graph,) = inside((tmp_path / "a.onnx").read_bytes(), 7)
    assert not inside(graph, 5)
    assert [texts(i, 1)[0] for i in inside(graph, 11)] == ["input", "0.weight", "0.bias", "2.weight", "2.bias"]
    program.save(tmp_path / "b.onnx", keep_initializers_as_inputs=True, external_data=False)
    (graph,) = inside((tmp_path / "b.onnx").read_bytes(), 7)
    assert len(inside(graph, 5)) == 4 and len(inside(graph, 11)) == 5

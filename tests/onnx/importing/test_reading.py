"""Files as bytes: every way to write a tensor, tensors in other files, and what is damaged or means harm."""

from __future__ import annotations

import os
import random
import struct

import pytest

import rushlight as torch
from rushlight.onnx import kinds
from rushlight.onnx.importing.reader import read_model, read_tensor
from rushlight.onnx.importing.stored import packed_integers
from rushlight.onnx.wire import Message

from .files import I64, graph, model, node, value


def tensor(**parts: object) -> torch.Tensor:
    """A TensorProto of these fields, read."""
    found = Message()
    if "dims" in parts:
        found.integers(1, parts["dims"])
    found.integer(2, kinds.BY_NAME[parts["kind"]].number).text(8, "t")
    if "raw" in parts:
        found.data(9, parts["raw"])
    for name, field in (("int32", 5), ("int64", 7), ("uint64", 11)):
        if name in parts:
            found.integers(field, parts[name])
    if "floats" in parts:
        found.reals(4, parts["floats"])
    if "doubles" in parts:
        found.data(10, struct.pack(f"<{len(parts['doubles'])}d", *parts["doubles"]))
    for s in parts.get("strings", ()):
        found.data(6, s)
    return read_tensor(memoryview(bytes(found)))[1].load()


@pytest.mark.parametrize(("parts", "dtype", "expected"), [
    ({"kind": "FLOAT", "dims": [2], "floats": [1.5, -2.0]}, torch.float32, [1.5, -2.0]),
    ({"kind": "FLOAT", "dims": [1, 2], "raw": struct.pack("<2f", 1, 2)}, torch.float32, [[1.0, 2.0]]),
    ({"kind": "FLOAT", "dims": [], "raw": struct.pack("<f", 3)}, torch.float32, 3.0),
    ({"kind": "DOUBLE", "dims": [2], "doubles": [0.1, 0.2]}, torch.float64, [0.1, 0.2]),
    ({"kind": "INT64", "dims": [3], "int64": [1, -1, 2**40]}, torch.int64, [1, -1, 2**40]),
    ({"kind": "INT32", "dims": [2], "int32": [-5, 7]}, torch.int32, [-5, 7]),
    ({"kind": "INT8", "dims": [2], "int32": [-5, 7]}, torch.int8, [-5, 7]),
    ({"kind": "UINT8", "dims": [2], "int32": [200, 7]}, torch.uint8, [200, 7]),
    ({"kind": "BOOL", "dims": [2], "int32": [1, 0]}, torch.bool, [True, False]),
    ({"kind": "UINT64", "dims": [1], "uint64": [2**63 + 1]}, torch.uint64, [2**63 + 1]),
    ({"kind": "FLOAT16", "dims": [2], "int32": [0x3C00, 0xC000]}, torch.float16, [1.0, -2.0]),
    ({"kind": "BFLOAT16", "dims": [2], "int32": [0x3F80, 0xC000]}, torch.bfloat16, [1.0, -2.0]),
    ({"kind": "FLOAT8E4M3FN", "dims": [1], "int32": [0x38]}, torch.float8_e4m3fn, [1.0]),
    ({"kind": "COMPLEX64", "dims": [1], "floats": [1.0, 2.0]}, torch.complex64, [1 + 2j]),
    ({"kind": "INT4", "dims": [3], "raw": b"\xf1\x08"}, torch.int8, [1, -1, -8]),
    ({"kind": "UINT4", "dims": [3], "int32": [0xF1, 0x08]}, torch.uint8, [1, 15, 8]),
    ({"kind": "INT2", "dims": [5], "raw": b"\xe4\x01"}, torch.int8, [0, 1, -2, -1, 1]),
    ({"kind": "FLOAT4E2M1", "dims": [2], "raw": b"\xa7"}, torch.float32, [6.0, -1.0]),
    ({"kind": "FLOAT", "dims": [0, 3]}, torch.float32, []),
    ({"kind": "INT64", "dims": [0]}, torch.int64, []),
])
def test_every_way_to_write_a_tensor(parts, dtype, expected):
    found = tensor(**parts)
    assert found.dtype is dtype and list(found.shape) == parts["dims"]
    assert (found.float() if dtype.itemsize < 4 and dtype.is_floating_point else found).tolist() == expected


def test_strings_are_arrays_of_objects():
    assert tensor(kind="STRING", dims=[2], strings=["é".encode(), b""]).tolist() == ["é", ""]


@pytest.mark.parametrize("parts", [
    {"kind": "FLOAT", "dims": [3], "raw": b"\0" * 8}, {"kind": "FLOAT", "dims": [2**60], "raw": b""},
    {"kind": "FLOAT", "dims": [2**40, 2**40]}, {"kind": "FLOAT", "dims": [-1]}, {"kind": "INT64", "dims": [2],
                                                                                 "int64": [1]},
    {"kind": "INT4", "dims": [9], "raw": b"\0"}, {"kind": "INT4", "dims": [9], "int32": [1]},
    {"kind": "STRING", "dims": [1], "raw": b"abc"}, {"kind": "STRING", "dims": [5], "strings": [b"a"]},
    {"kind": "FLOAT", "dims": [2], "int64": [1, 2]}, {"kind": "COMPLEX64", "dims": [1], "floats": [1.0]},
])
def test_sizes_that_the_bytes_do_not_back_are_refused(parts):
    with pytest.raises(ValueError, match="onnx:.*'t'"):
        tensor(**parts)


def test_packed_integers_read_as_they_are_written():
    values = [0, 1, 127, 128, -1, 2**62, -(2**63), 300] * 5
    data = list(Message().integers(1, values).pieces)[-1]
    assert packed_integers(data).tolist() == values and packed_integers(b"").tolist() == []
    for bad in (b"\x80", b"\xff" * 11 + b"\0"):
        with pytest.raises(ValueError, match="integer"):
            packed_integers(bad)


# --- graphs that are none ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "text"), [
    ([node("Relu", "y", "z"), node("Relu", "z", "y")], "in a circle"),
    ([node("Relu", "nobody", "y")], "reads 'nobody', which nothing defines"),
    ([node("Relu", "x", "y"), node("Neg", "x", "y")], "defines 'y' twice"),
    ([node("Relu", "x", "x"), node("Relu", "x", "y")], "defines 'x' twice"),
    ([node("Relu", "x", "z")], "has the result 'y', which nothing defines"),
    ([node("Relu", "x x", "y")], "has 2 inputs, and its operator takes 1"),
    ([node("Relu", "x", "y", odd=1)], "has the attribute 'odd'"),
    ([node("Concat", "x x", "y")], "lacks the attribute 'axis'"),
])
def test_graphs_that_are_none_are_refused_by_name(nodes, text):
    with pytest.raises(ValueError, match=text):
        torch.onnx.load(model(nodes, [value("x", 2)], [value("y", 2)]))


def test_nodes_in_any_order_run():
    data = model([node("Neg", "h", "y"), node("Abs", "x", "h")], [value("x", 2)], [value("y", 2)])
    assert torch.onnx.load(data)(torch.tensor([-1.0, 2.0])).tolist() == [-1.0, -2.0]


def test_versions_from_the_future_are_named():
    with pytest.raises(ValueError, match=r"version 99 of ai.onnx, and \d+ is the newest"):
        torch.onnx.load(model([node("Relu", "x", "y")], [value("x", 1)], [value("y", 1)], opset=99))


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 50, b"hello, this is no model", b"PK\x03\x04" + b"\0" * 40,
                                  b"\x08\x08"])
def test_what_is_no_model_is_refused(data):
    with pytest.raises(ValueError, match="onnx"):
        torch.onnx.load(data)


def test_graphs_nested_without_end_are_refused():
    inner = Message()
    for _ in range(300):
        inner = Message().message(1, Message().text(4, "If").message(5, Message().text(1, "then_branch").message(6,
                                                                                                                 inner)))
    with pytest.raises(ValueError, match="deep"):
        read_model(bytes(Message().message(7, inner)))


def test_constants_do_not_grow_without_bound():
    """A few bytes may ask for a tensor of any size: that is a matter of the call, not of reading the file."""
    nodes = [node("ConstantOfShape", "n", "big"), node("ReduceSum", "big", "s", keepdims=0), node("Add", "x s", "y")]
    loaded = torch.onnx.load(model(nodes, [value("x", 1)], [value("y", 1)], {"n": torch.tensor([2**40])}))
    assert sum(b.numel() for b in loaded.buffers()) < 100


# --- tensors in other files -------------------------------------------------------------------------------------------


def beside(folder: object, location: str, offset: object = "0", length: object = "16") -> str:
    entries = {"location": location, "offset": offset, "length": length}
    w = Message().integers(1, [4]).integer(2, 1).text(8, "w")
    for key, word in entries.items():
        if word is not None:
            w.message(13, Message().text(1, key).text(2, str(word)))
    w.integer(14, 1)
    g = graph([node("Add", "x w", "y")], [value("x", 4)], [value("y", 4)]).encoded().message(5, w)
    path = os.path.join(folder, "m.onnx")
    with open(path, "wb") as file:
        file.write(bytes(Message().integer(1, 10).message(7, g).message(8, Message().text(1, "").integer(2, 20))))
    with open(os.path.join(folder, "w.bin"), "wb") as file:
        file.write(struct.pack("<8f", *range(8)))
    return path


def test_tensors_lie_in_other_files_at_an_offset(tmp_path):
    assert torch.onnx.load(beside(tmp_path, "w.bin", "16")).w.tolist() == [4.0, 5.0, 6.0, 7.0]
    assert torch.onnx.load(beside(tmp_path, "w.bin", None, None)).w.tolist() == [0.0, 1.0, 2.0, 3.0]
    with open(beside(tmp_path, "w.bin"), "rb") as file:
        assert torch.onnx.load(file).w.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(("location", "offset", "length", "text"), [
    ("w.bin", "24", "16", "cut off"), ("w.bin", "0", "12", "takes 16 bytes"), ("w.bin", "-4", "16", "no number"),
    ("w.bin", "x", "16", "no number"), ("w.bin", "9" * 30, "16", "no number"), ("w.bin", str(2**62), "16", "cut off"),
    ("/etc/passwd", "0", "16", "absolute"), ("../w.bin", "0", "16", "outside"), ("a/../../w.bin", "0", "16", "outside"),
    ("C:\\w.bin", "0", "16", "absolute"), ("link.bin", "0", "16", "link"), ("", "0", "16", "no name"),
    ("no\0.bin", "0", "16", "no name"),
])
def test_other_places_are_refused_by_name(tmp_path, location, offset, length, text):
    outside = tmp_path / "secret.bin"
    outside.write_bytes(b"\0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    path = beside(folder, location, offset, length)
    (folder / "link.bin").symlink_to(outside)
    with pytest.raises(ValueError, match=f"'w'.*{text}"):
        torch.onnx.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="'gone.bin'"):
        torch.onnx.load(beside(tmp_path, "gone.bin"))
    with open(beside(tmp_path, "w.bin"), "rb") as file:
        data = file.read()
    with pytest.raises(ValueError, match="given as bytes has no folder"):
        torch.onnx.load(data)


# --- fuzzing ----------------------------------------------------------------------------------------------------------


def whole() -> bytes:
    """A file with a bit of everything."""
    then = graph([node("Mul", "h w", "t")], [], [value("t", None)])
    other = graph([node("Neg", "h", "t")], [], [value("t", None)])
    nodes = [node("MatMul", "x w", "h"), node("Shape", "h", "s"), node("Gather", "s i", "n", axis=0),
             node("ReduceSum", "h", "r", keepdims=0), node("Greater", "r zero", "c"),
             node("If", "c", "b", then_branch=then, else_branch=other), node("Reshape", "b target", "y", allowzero=0)]
    return model(nodes, [value("x", "n", 4)], [value("y", None), value("n", dtype=I64)],
                 {"w": torch.ones(4, 4), "i": torch.tensor(0), "zero": torch.tensor(0.0), "target": torch.tensor([-1])})


def mutated(data: bytes, rng: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not found:
            break
        kind, at = rng.randrange(5), rng.randrange(len(found))
        if kind == 0:
            found[at] = rng.randrange(256)
        elif kind == 1:
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del found[at : at + rng.randint(1, 8)]
        elif kind == 3:
            found[at:at] = rng.randbytes(rng.randint(1, 8))
        else:
            found = found[: max(at, 1)]
    return bytes(found)


def test_files_that_are_cut_off_anywhere_are_refused_or_read():
    data = whole()
    for end in range(0, len(data), 3):
        survive(data[:end])


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_are_refused_or_read(seed):
    rng, data = random.Random(seed), whole()
    assert torch.onnx.load(data)(torch.ones(4, 4))[0].shape == (16,)
    for _ in range(400):
        survive(mutated(data, rng))


def survive(data: bytes) -> None:
    try:
        torch.onnx.load(data)
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        assert not isinstance(error, KeyError), error
    # Anything else is a bug: this is what the test is for.

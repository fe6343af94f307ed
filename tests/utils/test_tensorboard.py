"""Event files: framing, and every add_* call read back by TensorBoard and compared with what PyTorch's writer makes."""

from __future__ import annotations

import io
import os
import pathlib
import struct
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils.tensorboard import SummaryWriter
from rushlight.utils.tensorboard.images import encode_png
from rushlight.utils.tensorboard.records import crc32c
from rushlight.utils.tensorboard.wire import Message, varint


def event_file(folder):
    return str(next(p for p in sorted(pathlib.Path(folder).iterdir()) if p.name.startswith("events.out.tfevents")))


def records(path):
    """The payloads of a file whose frames all check."""
    data, at, found = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        for start, size in ((at, 8), (at + 12, length)):
            (written,) = struct.unpack_from("<I", data, start + size)
            crc = crc32c(data[start : start + size])
            assert written == (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF
        found.append(data[at + 12 : at + 12 + length])
        at += length + 16
    return found


# --- without TensorBoard ----------------------------------------------------------------------------------------------


def test_checksums():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    data = bytes(i * 7 & 0xFF for i in range(70_001))   # long enough for the parallel way
    by_parts = 0xFFFFFFFF
    from rushlight.utils.tensorboard.records import _TABLE

    for byte in data:
        by_parts = _TABLE[(by_parts ^ byte) & 0xFF] ^ by_parts >> 8
    assert crc32c(data) == by_parts ^ 0xFFFFFFFF


def test_wire_format():
    assert varint(300) == b"\xac\x02"
    assert varint(-1) == b"\xff" * 9 + b"\x01"
    assert Message("Value", tag="a", simple_value=0.0).SerializeToString() == b"\x0a\x01a\x15\x00\x00\x00\x00"
    with pytest.raises(AssertionError, match="no fields"):
        Message("Value", colour=1)


def test_files_are_framed_and_flushed(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=2, filename_suffix=".end")
    assert event_file(tmp_path).endswith(".end")
    assert len(records(event_file(tmp_path))) == 1
    for i in range(3):
        writer.add_scalar("x", i, i)
    assert len(records(event_file(tmp_path))) == 4
    writer.add_scalar("x", 3, 3)
    writer.flush()
    assert len(records(event_file(tmp_path))) == 5
    writer.close()
    writer.close()
    writer.add_scalar("x", 4, 4)   # opens a new file
    writer.close()
    assert sum(len(records(p)) for p in tmp_path.iterdir()) == 7


def test_threads_share_a_writer(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        threads = [threading.Thread(target=lambda: [writer.add_scalar("x", i, i) for i in range(50)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert len(records(event_file(tmp_path))) == 201


def test_default_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_note") as writer:
        assert writer.get_logdir().startswith("runs")
        assert writer.get_logdir().endswith("_note")
    assert os.path.isdir(writer.get_logdir())


def test_refusals(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(FileNotFoundError, match="x.onnx"):
            writer.add_onnx_graph("x.onnx")
        with pytest.raises(AssertionError, match="one element"):
            writer.add_scalar("x", rl.ones(2))
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("x", rl.ones(0))
        with pytest.raises(ValueError, match="len"):
            writer.add_histogram_raw("x", 0, 1, 1, 1, 1, [1, 2], [1])
        with pytest.raises(AssertionError, match="same dimension"):
            writer.add_image("x", rl.ones(3, 4, 4), dataformats="CHH")
        with pytest.raises(TypeError, match="dictionary"):
            writer.add_hparams([], {})
        with pytest.raises(AssertionError, match="3 tags"):
            writer.add_custom_scalars_marginchart(["a"])
        with pytest.raises(ValueError, match="BxNx3"):
            writer.add_mesh("x", rl.ones(3, 3))
        with pytest.raises(AssertionError, match="#labels"):
            writer.add_embedding(rl.ones(2, 3), metadata=["a"])


# --- with TensorBoard -------------------------------------------------------------------------------------------------


def loaded(path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    return list(loader.LegacyEventFileLoader(path).Load())


CALLS = {
    "scalar": lambda w, t: w.add_scalar("a/b", 2.5, 3, walltime=7.0),
    "scalar_tensor": lambda w, t: w.add_scalar("a", t.tensor([1.5]), 0),
    "scalar_zero": lambda w, t: w.add_scalar("a", 0.0, -1),
    "scalar_new": lambda w, t: w.add_scalar("a", 2, 1, new_style=True),
    "scalar_double": lambda w, t: w.add_scalar("a", 2.1, 1, new_style=True, double_precision=True),
    "histogram": lambda w, t: w.add_histogram("h", t.arange(100).float() - 30, 2),
    "histogram_auto": lambda w, t: w.add_histogram("h", np.linspace(-1, 2, 50), bins="auto"),
    "histogram_max_bins": lambda w, t: w.add_histogram("h", t.arange(1000), 2, bins=97, max_bins=10),
    "histogram_raw": lambda w, t: w.add_histogram_raw("h", 0.0, 9.0, 10, 45.0, 285.0, [1.0, 5.0, 10.0], [1, 4, 5], 1),
    "text": lambda w, t: w.add_text("t", "grüße **bold**", 1),
    "audio": lambda w, t: w.add_audio("s", (t.arange(100).float() / 50 - 1)[None], 1, sample_rate=8000),
    "pr_curve": lambda w, t: w.add_pr_curve(
        "p", t.tensor([0, 1, 1, 0, 1]), t.tensor([0.1, 0.8, 0.55, 0.3, 0.9]), 1, num_thresholds=11
    ),
    "pr_curve_raw": lambda w, t: w.add_pr_curve_raw("p", *([np.linspace(0, 1, 5)] * 6), 1, num_thresholds=5),
    "multiline": lambda w, t: w.add_custom_scalars_multilinechart(["a", "b"], category="c", title="d"),
    "margin": lambda w, t: w.add_custom_scalars_marginchart(["a", "b", "c"]),
    "layout": lambda w, t: w.add_custom_scalars({"x": {"y": ["Multiline", ["a"]], "z": ["Margin", ["a", "b", "c"]]}}),
    "mesh": lambda w, t: w.add_mesh(
        "m", t.ones(1, 4, 3), colors=t.ones(1, 4, 3, dtype=t.int32), faces=t.ones(1, 2, 3, dtype=t.int32),
        config_dict={"b": 1, "a": 2},
    ),
    "tensor": lambda w, t: w.add_tensor("x", t.arange(6).reshape(2, 3), 1),
    "tensor_bool": lambda w, t: w.add_tensor("x", t.tensor([True, False]), 1),
    "tensor_complex": lambda w, t: w.add_tensor("x", t.tensor([1 + 2j]), 1),
}


def both_writers():
    pytest.importorskip("tensorboard")
    torch = pytest.importorskip("torch")
    return torch, pytest.importorskip("torch.utils.tensorboard").SummaryWriter


@pytest.mark.parametrize("name", CALLS)
def test_events_equal_pytorchs(name, tmp_path):
    torch, their_writer = both_writers()
    for folder, writer, space in (("mine", SummaryWriter, rl), ("theirs", their_writer, torch)):
        with writer(str(tmp_path / folder)) as result:
            CALLS[name](result, space)
    mine, theirs = loaded(event_file(tmp_path / "mine")), loaded(event_file(tmp_path / "theirs"))
    for events in (mine, theirs):
        for event in events:
            if name != "scalar" or not event.HasField("summary"):
                event.ClearField("wall_time")
            event.ClearField("source_metadata")
    assert mine == theirs


def test_half_tensors_are_read_back(tmp_path):
    util = pytest.importorskip("tensorboard.util.tensor_util")   # PyTorch's writer puts the bits of float32 there
    values = rl.tensor([1.5, -2.0, 0.0], dtype=rl.float16)
    with SummaryWriter(tmp_path) as writer:
        writer.add_tensor("x", values)
        writer.add_tensor("y", values.bfloat16())
    half, short = (e.summary.value[0].tensor for e in loaded(event_file(tmp_path))[1:])
    assert util.make_ndarray(half).tolist() == values.tolist()
    assert list(short.half_val) == [0x3FC0, 0xC000, 0]


PICTURES = {
    "image": lambda w, t: w.add_image("i", t.arange(3 * 4 * 5).reshape(3, 4, 5).float() / 60, 1),
    "image_bytes": lambda w, t: w.add_image("i", t.arange(3 * 4 * 5).reshape(3, 4, 5).to(t.uint8), 1),
    "image_grey": lambda w, t: w.add_image("i", t.arange(20).reshape(4, 5).float() / 20, 1, dataformats="HW"),
    "image_hwc": lambda w, t: w.add_image("i", t.arange(60).reshape(4, 5, 3).float() / 60, 1, dataformats="HWC"),
    "images": lambda w, t: w.add_images("i", t.arange(5 * 1 * 4 * 4).reshape(5, 1, 4, 4).float() / 80, 1),
    "image_opacity": lambda w, t: w.add_image("i", t.ones(4, 8, 8) * 0.5, 1),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_equal_pytorchs(name, tmp_path):
    torch, their_writer = both_writers()
    pillow = pytest.importorskip("PIL.Image")
    found = []
    for folder, writer, space in (("mine", SummaryWriter, rl), ("theirs", their_writer, torch)):
        with writer(str(tmp_path / folder)) as result:
            PICTURES[name](result, space)
        value = loaded(event_file(tmp_path / folder))[-1].summary.value[0]
        pixels = np.asarray(pillow.open(io.BytesIO(value.image.encoded_image_string)))
        found.append((value.tag, value.image.height, value.image.width, value.image.colorspace, pixels.tolist()))
    assert found[0] == found[1]


def test_png_is_read_back():
    pillow = pytest.importorskip("PIL.Image")
    for channels in (1, 3, 4):
        pixels = np.random.RandomState(0).randint(0, 256, (5, 7, channels)).astype(np.uint8)
        assert (np.asarray(pillow.open(io.BytesIO(encode_png(pixels)))).reshape(5, 7, channels) == pixels).all()


def test_boxes_video_and_figures(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    with SummaryWriter(tmp_path) as writer:
        writer.add_image_with_boxes("b", rl.zeros(3, 32, 32), rl.tensor([[4.0, 4.0, 20.0, 20.0]]), 1)
        writer.add_image_with_boxes(
            "b", rl.zeros(3, 32, 32), rl.tensor([[4.0, 4.0, 20.0, 20.0]]), 2, labels="cat", rescale=2
        )
        writer.add_video("v", rl.rand(3, 4, 3, 8, 8), 3, fps=2)
    box, named, video = (e.summary.value[0].image for e in loaded(event_file(tmp_path))[1:])
    pixels = np.asarray(pillow.open(io.BytesIO(box.encoded_image_string)))
    assert pixels[4, 10].tolist() == [255, 0, 0]
    assert pixels[10, 10].tolist() == [0, 0, 0]
    assert pillow.open(io.BytesIO(named.encoded_image_string)).size == (64, 64)
    moving = pillow.open(io.BytesIO(video.encoded_image_string))
    assert (moving.format, moving.n_frames, moving.size) == ("GIF", 4, (32, 8))


def test_figures(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    with SummaryWriter(tmp_path) as writer:
        figure = plt.figure(figsize=(1, 1), dpi=50)
        figure.gca().plot([1, 2])
        writer.add_figure("f", figure, 1)
    assert records(event_file(tmp_path))


def test_hparams_equal_pytorchs(tmp_path):
    torch, their_writer = both_writers()
    found = []
    for folder, writer, space in (("mine", SummaryWriter, rl), ("theirs", their_writer, torch)):
        with writer(str(tmp_path / folder)) as result:
            result.add_hparams(
                {"lr": 0.1, "name": "a", "on": True, "t": space.tensor([2.0]), "none": None},
                {"m/acc": 0.5},
                {"lr": [0.1, 0.2]},
                run_name="run",
                global_step=2,
            )
        events = loaded(event_file(tmp_path / folder / "run"))
        for event in events:
            event.ClearField("wall_time")
            event.ClearField("source_metadata")
        found.append([event.SerializeToString(deterministic=True) for event in events])
        plugin = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
        contents = [
            plugin.HParamsPluginData.FromString(v.metadata.plugin_data.content)
            for e in events
            for v in e.summary.value
            if v.HasField("metadata")
        ]
        found[-1] = (contents, [v.simple_value for e in events for v in e.summary.value if v.HasField("simple_value")])
    assert found[0] == found[1]


def test_scalars_and_embeddings_make_pytorchs_files(tmp_path):
    torch, their_writer = both_writers()
    trees = []
    for folder, writer, space in (("mine", SummaryWriter, rl), ("theirs", their_writer, torch)):
        root = tmp_path / folder
        with writer(str(root)) as result:
            result.add_scalars("loss/all", {"train": 1.0, "test": 2.0}, 1)
            result.add_embedding(
                space.tensor([[1.0, 2.5], [3.0, -4.0]]),
                metadata=["x", "y"],
                label_img=space.ones(2, 3, 4, 4) * 0.5,
                global_step=3,
                tag="e/f",
            )
            result.add_embedding(space.ones(2, 2), metadata=[["x", 1], ["y", 2]], metadata_header=["name", "n"])
        trees.append(
            {
                str(p.relative_to(root)): p.read_bytes() if p.suffix == ".tsv" else b""
                for p in sorted(root.rglob("*"))
                if "tfevents" not in p.name
            }
        )
    assert trees[0] == trees[1]
    config = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2").ProjectorConfig
    from google.protobuf import text_format

    mine, theirs = (
        text_format.Parse((tmp_path / name / "projector_config.pbtxt").read_text(), config())
        for name in ("mine", "theirs")
    )
    assert mine == theirs


def test_accumulator_reads_a_run(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.ReLU(), rl.nn.Linear(4, 2))
    with SummaryWriter(tmp_path) as writer:
        for i in range(20):
            writer.add_scalar("loss", 1 / (i + 1), i)
        writer.add_histogram("w", model[0].weight, 3)
        writer.add_graph(model, rl.ones(1, 3))
    run = EventAccumulator(str(tmp_path)).Reload()
    assert [e.step for e in run.Scalars("loss")] == list(range(20))
    assert run.Scalars("loss")[1].value == 0.5
    assert run.Tags()["histograms"] == ["w"] or "w" in run.Tags()["tensors"]
    graph = run.Graph()
    linear, last = [node for node in graph.node if node.op == "aten::linear"]
    inside = "Sequential/Linear[0]"
    assert list(linear.input) == ["input/input", f"{inside}/weight/weight", f"{inside}/bias/bias"]
    assert [list(node.input) for node in graph.node if node.name == "output/output.1"] == [[last.name]]
    assert [d.size for d in linear.attr["_output_shapes"].list.shape[0].dim] == [1, 4]


def test_purge_step_starts_a_session(tmp_path):
    with SummaryWriter(tmp_path, purge_step=5) as writer:
        writer.add_scalar("x", 1.0, 5)
    events = loaded(event_file(tmp_path))
    assert [e.step for e in events] == [0, 5, 5, 5]
    assert events[2].session_log.status == 1

"""Files both ways with PyTorch: what one writes the other reads, in the zip and the older format, safely and not."""

import io
import warnings
import zipfile
from collections import OrderedDict

import pytest

import rushlight

torch = pytest.importorskip("torch")

BOTH_WAYS = [pytest.param(torch, rushlight, id="from_torch"), pytest.param(rushlight, torch, id="to_torch")]
FORMATS = [pytest.param(True, id="zip"), pytest.param(False, id="legacy")]
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex32 complex64"
    " complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()
NEW_DTYPES = {"uint16", "uint32", "uint64", "complex32", *(name for name in DTYPES if name.startswith("float8"))}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def passed(writer, reader, obj, weights_only=True, **kwargs):
    file = io.BytesIO()
    writer.save(obj, file, **kwargs)
    file.seek(0)
    return reader.load(file, weights_only=weights_only)


def everything(m):
    x = m.arange(12, dtype=m.float32).view(3, 4)
    result = OrderedDict(
        a=x, b=x[1:, ::2], empty=m.zeros(0), none=None, number=3, big=2**80, text="é\U0001f600",
        list=[1, 2.5, (True, x.t())], complex=1 + 2j, dtype=m.float16, device=m.device("cpu"), size=m.Size([1, 2]),
        parameter=m.nn.Parameter(m.ones(2)), leaf=m.ones(2, requires_grad=True),
        sparse=m.eye(3).to_sparse(), csr=m.eye(3).to_sparse_csr(), meta=m.empty(2, 3, device="meta"), set={1, 2},
        bytes=b"\x00abc", array=bytearray(b"x"), untyped=m.ones(2).untyped_storage(), typed=m.ones(2).storage(),
        layout=m.sparse_csr,
    )
    result._metadata = {"version": 1}
    return result


def data_pickle(data):
    archive = zipfile.ZipFile(io.BytesIO(data))
    return archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))


def test_files_are_equal_byte_for_byte():
    ours, theirs = io.BytesIO(), io.BytesIO()
    rushlight.save(everything(rushlight), ours)
    torch.save(everything(torch), theirs)
    ours, theirs = ours.getvalue(), theirs.getvalue()
    end = theirs.index(b"serialization_id")    # which PyTorch computes from hashes of its own
    assert ours[:end] == theirs[:end]
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("length", range(0, 70, 3))
def test_records_are_aligned_as_pytorch_aligns_them(tmp_path, length):
    name = "n" * (1 + length)
    for m, folder in ((torch, tmp_path / "t"), (rushlight, tmp_path / "r")):
        folder.mkdir()
        m.save({"x": m.ones(3), "y": m.ones(200)}, folder / f"{name}.pt")
    ours, theirs = ((tmp_path / f / f"{name}.pt").read_bytes() for f in "rt")
    end = theirs.index(b"serialization_id")
    assert ours[:end] == theirs[:end]


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
@pytest.mark.parametrize("is_zip", FORMATS)
@pytest.mark.parametrize("weights_only", [True, False])
def test_containers_views_and_values(writer, reader, is_zip, weights_only):
    written = everything(writer)
    if not is_zip:
        del written["untyped"]    # which PyTorch writes, but cannot read
    read = passed(writer, reader, written, weights_only, _use_new_zipfile_serialization=is_zip)
    assert type(read) is OrderedDict and read._metadata == {"version": 1}
    assert read["a"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert (
        read["b"].tolist() == [[4, 6], [8, 10]]
        and tuple(read["b"].stride()) == (4, 2)
        and read["b"].storage_offset() == 4
    )
    assert (
        read["b"].untyped_storage().data_ptr()
        == read["a"].untyped_storage().data_ptr()
        == read["list"][2][1].untyped_storage().data_ptr()
    )
    assert (
        read["empty"].shape == (0,)
        and read["none"] is None
        and read["number"] == 3
        and read["big"] == 2**80
        and read["text"] == "é\U0001f600"
    )
    assert (
        read["dtype"] is reader.float16 and read["device"] == reader.device("cpu") and type(read["size"]) is reader.Size
    )
    assert (
        type(read["parameter"]) is reader.nn.Parameter
        and read["parameter"].requires_grad
        and read["leaf"].requires_grad
    )
    assert read["sparse"].to_dense().tolist() == read["csr"].to_dense().tolist() == reader.eye(3).tolist()
    assert read["meta"].is_meta and read["meta"].shape == (2, 3) and read["layout"] is reader.sparse_csr
    assert (
        read["set"] == {1, 2}
        and read["bytes"] == b"\x00abc"
        and read["array"] == bytearray(b"x")
        and read["complex"] == 1 + 2j
    )
    assert not is_zip or read["untyped"].tolist() == [0, 0, 128, 63] * 2
    assert read["typed"].tolist() == [1.0, 1.0] and read["typed"].dtype is reader.float32


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
@pytest.mark.parametrize("is_zip", FORMATS)
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(writer, reader, is_zip, name):
    if reader is torch and not is_zip and name in NEW_DTYPES:
        pytest.skip("PyTorch cannot read these dtypes from the older format")
    raw = writer.tensor([0, 1, 2, 3, 60, 61, 62, 63] * 2, dtype=writer.uint8)
    t = raw.view(getattr(writer, name))
    read, part = passed(writer, reader, [t, t[:1]], _use_new_zipfile_serialization=is_zip)
    assert read.dtype is getattr(reader, name) and read.view(reader.uint8).tolist() == raw.tolist()
    assert part.untyped_storage().data_ptr() == read.untyped_storage().data_ptr()


def layouts(m):
    return {
        "coo": m.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [1.0, 2.0, 3.0], (2, 3)), "csc": m.eye(3).to_sparse_csc(),
        "bsr": m.eye(4).to_sparse_bsr((2, 2)),
        "strided": m.nested.nested_tensor([m.arange(6.0).view(2, 3), m.ones(1, 3)]),
        "jagged": m.nested.nested_tensor([m.arange(6.0).view(2, 3), m.ones(1, 3)], layout=m.jagged),
    }


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
@pytest.mark.parametrize("kind", ["coo", "csc", "bsr", "strided", "jagged"])
def test_sparse_and_nested(writer, reader, kind):
    import torch._dynamo  # noqa: F401 - PyTorch asks for it before it reads jagged tensors

    written = layouts(writer)[kind]
    read = passed(writer, reader, written, weights_only=True)
    assert str(read.layout).partition(".")[2] == str(written.layout).partition(".")[2]
    if written.is_nested:
        assert [part.tolist() for part in read.unbind()] == [part.tolist() for part in written.unbind()]
    else:
        assert read.to_dense().tolist() == written.to_dense().tolist()


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
def test_sparse_in_the_older_format(writer, reader):
    for written in (layouts(writer)["coo"], layouts(writer)["csc"]):
        read = passed(writer, reader, written, _use_new_zipfile_serialization=False)
        assert read.to_dense().tolist() == written.to_dense().tolist()


def test_nested_tensors_are_refused_in_the_older_format():
    file = io.BytesIO()
    with pytest.raises(RuntimeError, match="nested"):
        rushlight.save(layouts(rushlight)["strided"], file, _use_new_zipfile_serialization=False)
    file = io.BytesIO()
    torch.save(layouts(torch)["strided"], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    with pytest.raises(RuntimeError, match="nested"):
        rushlight.load(file)


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
def test_generator(writer, reader):
    written = writer.Generator().manual_seed(7)
    read = passed(writer, reader, written, weights_only=False)
    assert read.get_state().tolist() == written.get_state().tolist()


def modules(m):
    nn = m.nn
    result = {
        "conv": nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
        "lstm": nn.LSTM(3, 4, 2, bidirectional=True), "gru": nn.GRU(3, 4, bias=False),
        "encoder": nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"), 2),
        "transformer": nn.Transformer(8, 2, 1, 1, 16), "attention": nn.MultiheadAttention(8, 2),
        "lists": nn.ModuleList([nn.ParameterList([m.ones(2)]), nn.ModuleDict({"a": nn.Linear(1, 1)})]),
        "bag": nn.EmbeddingBag(4, 2), "spectral": nn.utils.spectral_norm(nn.Linear(2, 2)),
        "loss": nn.CrossEntropyLoss(), "upsample": nn.Upsample(scale_factor=2),
    }
    return result


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
@pytest.mark.parametrize(
    "name",
    ["conv", "lstm", "gru", "encoder", "transformer", "attention", "lists", "bag", "spectral", "loss", "upsample"],
)
def test_whole_modules(writer, reader, name):
    written = modules(writer)[name]
    read = passed(writer, reader, written, weights_only=False)
    assert isinstance(read, reader.nn.Module) and repr(read) == repr(written)
    ours, theirs = written.state_dict(), read.state_dict()
    assert list(ours) == list(theirs) and all(ours[key].tolist() == theirs[key].tolist() for key in ours)


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
def test_loaded_modules_compute_the_same(writer, reader):
    data = [[[0.1 * i - 0.05 * j for j in range(8)] for i in range(3)] for _ in range(2)]
    written = modules(writer)["encoder"].eval()
    read = passed(writer, reader, written, weights_only=False).eval()
    ours, theirs = written(writer.tensor(data)), read(reader.tensor(data))
    assert theirs.flatten().tolist() == pytest.approx(ours.flatten().tolist(), abs=1e-5)
    written = modules(writer)["lstm"]
    read = passed(writer, reader, written, weights_only=False)
    ours, theirs = written(writer.tensor(data)[..., :3])[0], read(reader.tensor(data)[..., :3])[0]
    assert theirs.flatten().tolist() == pytest.approx(ours.flatten().tolist(), abs=1e-5)


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
def test_optimizers_and_schedulers(writer, reader):
    weight = writer.nn.Parameter(writer.ones(3))
    optimizer = writer.optim.AdamW([weight], lr=0.1)
    weight.grad = writer.ones(3)
    optimizer.step()
    scheduler = writer.optim.lr_scheduler.StepLR(optimizer, 3)
    state = passed(writer, reader, {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()})
    fresh = reader.optim.AdamW([reader.nn.Parameter(reader.tensor(weight.tolist()))], lr=0.5)
    fresh.load_state_dict(state["optimizer"])
    assert (
        fresh.param_groups[0]["lr"] == 0.1
        and fresh.state_dict()["state"][0]["exp_avg"].tolist() == optimizer.state_dict()["state"][0]["exp_avg"].tolist()
    )
    whole = passed(writer, reader, scheduler, weights_only=False)
    assert type(whole).__name__ == "StepLR" and whole.state_dict()["step_size"] == 3


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("is_zip", FORMATS)
def test_pickle_protocols_carry_torch_names(protocol, is_zip):
    layer = rushlight.nn.Linear(2, 2)
    layer.note = "crushlight.nn\nLinear\n"    # text that looks like a name stays text
    file = io.BytesIO()
    rushlight.save(
        [layer, rushlight.ones(2), rushlight.float16, layer],
        file,
        pickle_protocol=protocol,
        _use_new_zipfile_serialization=is_zip,
    )
    if protocol < 4:
        assert b"rushlight" not in file.getvalue().replace(b"crushlight.nn\nLinear", b"")
    for reader in (torch, rushlight):
        file.seek(0)
        read, ones, dtype, again = reader.load(file, weights_only=False)
        assert isinstance(read, reader.nn.Linear) and read.weight.tolist() == layer.weight.tolist() and read is again
        assert ones.tolist() == [1, 1] and dtype is reader.float16 and read.note == layer.note


def test_files_of_other_byte_order():
    file = io.BytesIO()
    torch.save({"a": torch.arange(3, dtype=torch.int32), "c": torch.tensor([1 + 2j]), "b": torch.tensor([True])}, file)
    swapped = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(swapped, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if "/data/" in name:
                data = b"".join(data[k : k + 4][::-1] for k in range(0, len(data), 4)) if len(data) > 1 else data
            target.writestr(name, b"big" if name.endswith("byteorder") else data)
    for m in (torch, rushlight):
        swapped.seek(0)
        read = m.load(swapped)
        assert read["a"].tolist() == [0, 1, 2] and read["c"].tolist() == [1 + 2j] and read["b"].tolist() == [True]


def test_byte_order_record_may_be_left_out():
    file = io.BytesIO()
    rushlight.save(rushlight.ones(2), file, _disable_byteorder_record=True)
    assert not any("byteorder" in name for name in zipfile.ZipFile(file).namelist())
    for endianness, expected in (
        (None, 1.0),
        (rushlight.serialization.LoadEndianness.NATIVE, 1.0),
        (rushlight.serialization.LoadEndianness.BIG, None),
    ):
        rushlight.serialization.set_default_load_endianness(endianness)
        try:
            file.seek(0)
            assert (rushlight.load(file)[0].item() == expected) == (expected is not None)
        finally:
            rushlight.serialization.set_default_load_endianness(None)


def test_checksums_may_be_left_out():
    rushlight.serialization.set_crc32_options(False)
    try:
        file = io.BytesIO()
        rushlight.save(rushlight.ones(2), file)
    finally:
        rushlight.serialization.set_crc32_options(True)
    assert all(entry.CRC == 0 for entry in zipfile.ZipFile(file).infolist())
    for m in (torch, rushlight):
        file.seek(0)
        assert m.load(file).tolist() == [1, 1]


def test_python_reads_the_archive_and_its_checksums():
    file = io.BytesIO()
    rushlight.save({"a": rushlight.arange(1000), "b": rushlight.zeros(0)}, file)
    assert zipfile.ZipFile(file).testzip() is None


def test_tensor_subclasses_and_attributes():
    for writer, reader in ((torch, rushlight), (rushlight, torch)):
        noted = writer.ones(2)
        noted.note = "hello"
        buffer = writer.nn.Buffer(writer.ones(2), persistent=False)
        parameter = writer.nn.Parameter(writer.ones(1))
        parameter.note = [1]
        read = passed(writer, reader, [noted, buffer, parameter])
        assert (
            read[0].note == "hello"
            and isinstance(read[1], reader.nn.Buffer)
            and read[1].persistent is False
            and read[2].note == [1]
        )


def test_conjugated_and_negated_views():
    read = passed(torch, rushlight, [torch.tensor([1 + 2j]).conj(), torch._neg_view(torch.ones(2))])
    assert read[0].tolist() == [1 - 2j] and read[1].tolist() == [-1, -1]


def test_globals_that_are_not_safe_are_listed_alike():
    file = io.BytesIO()
    torch.save(torch.nn.Linear(2, 2), file)
    ours, theirs = (
        m.serialization.get_unsafe_globals_in_checkpoint(file) for m in (rushlight, torch) if not file.seek(0)
    )
    assert set(ours) == set(theirs) == {"torch.nn.modules.linear.Linear"}


def test_plain_pickles_of_pytorch_storages_are_read():
    data = torch.ones(3).untyped_storage().__reduce__()[1][0]
    assert rushlight.storage._load_from_bytes(data).untyped().tolist() == [0, 0, 128, 63] * 3

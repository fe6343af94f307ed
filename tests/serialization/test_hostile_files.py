"""Files that lie: nothing of them runs, nothing is read outside their bytes,
and every one ends in a plain exception."""

import io
import os
import pickle
import struct
import subprocess
import sys
import textwrap
import zipfile
from collections import OrderedDict

import pytest

import rushlight

pytestmark = pytest.mark.share(2)   # of each test that has several cases

PLAIN_ERRORS = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError)
VIEW = (
    b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
    b"X\x03\x00\x00\x00cpu%stQ%s%s%s\x89ccollections\nOrderedDict\n)RtR."
)


def number(value):
    return b"\x8a\x0a" + value.to_bytes(10, "little", signed=True)


def numbers(*values):
    return b"(" + b"".join(map(number, values)) + b"t"


def archive_of(data, records=(("data/0", bytes(16)),), compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + data)
        archive.writestr("archive/byteorder", b"little")
        for name, content in records:
            archive.writestr(f"archive/{name}", content)
        archive.writestr("archive/version", b"3\n")
    file.seek(0)
    return file


def view(count=4, offset=0, sizes=(4,), strides=(1,)):
    return VIEW % (number(count), number(offset), numbers(*sizes), numbers(*strides))


def test_the_forged_view_loads_when_it_is_honest():
    assert rushlight.load(archive_of(view())).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("lie", [
    {"sizes": (5,)}, {"offset": 1}, {"offset": -1}, {"strides": (2,)}, {"strides": (-1,)},
    {"sizes": (2, 2), "strides": (-1, 1)}, {"sizes": (-4,)}, {"offset": 2**62}, {"offset": 2**63 - 1},
    {"offset": 2**70}, {"sizes": (2**62, 4), "strides": (0, 0)}, {"sizes": (2**70,)}, {"strides": (2**62,)},
    {"sizes": (2, 2)}, {"sizes": (1,) * 200, "strides": (1,) * 200}, {"count": 5}, {"count": -1}, {"count": 2**40},
    {"count": 2**62},
])
@pytest.mark.parametrize("weights_only", [True, False])
def test_views_outside_their_storage_are_refused(lie, weights_only):
    with pytest.raises(PLAIN_ERRORS + (OverflowError,)):
        rushlight.load(archive_of(view(**lie)), weights_only=weights_only)


def test_a_blocked_global_is_not_run_and_the_advice_names_the_remedy(tmp_path):
    target = tmp_path / "touched"
    for module, name in (("os", "system"), ("posix", "system"), ("sys", "exit"), ("builtins", "eval"),
                         ("builtins", "exec"), ("subprocess", "call"), ("builtins", "getattr"),
                         ("torch.serialization", "load"), ("torch.hub", "load"), ("functools", "partial")):
        call = (
            f"c{module}\n{name}\n".encode()
            + b"X"
            + struct.pack("<I", len(f"touch {target}"))
            + f"touch {target}".encode()
            + b"\x85R."
        )
        with pytest.raises(pickle.UnpicklingError, match="add_safe_globals|blocked"):
            rushlight.load(archive_of(call))
        assert not target.exists()


def test_modules_called_blocked_cannot_be_allowed():
    with rushlight.serialization.safe_globals([os.system]), pytest.raises(pickle.UnpicklingError, match="blocked"):
        rushlight.load(archive_of(b"cposix\nsystem\nX\x04\x00\x00\x00true\x85R."))


@pytest.mark.parametrize("body", [
    b"cbuiltins\nbytearray\n" + number(2**40) + b"\x85R.",                          # would allocate a terabyte
    b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R.",              # would load a codec by name
    b"ctorch\nTensor\n" + number(2**30) + b"\x85R.",
    b"ctorch\nFloatTensor\n" + number(2**30) + b"\x85R.",
    b"ctorch\nSize\n" + number(3) + b"\x85R.",
    b"ctorch.storage\nUntypedStorage\n" + number(2**36) + b"\x85R.",
    b"ctorch.storage\nUntypedStorage\n" + number(2**36) + b"\x85\x81.",
    b"ctorch.storage\nTypedStorage\n" + number(2**36) + b"\x85R.",
    b"ctorch.nested._internal.nested_tensor\nNestedTensor\n" + number(2**36) + b"\x85R.",
    b"ctorch.nested._internal.nested_tensor\nNestedTensor\n)\x81}X\x05\x00\x00\x00_heldK\x01sb.",
    b"K\x01K\x02\x85R.",                                                              # a number called
    b"ctorch\nfloat32\n)R.",
    b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\n)K\x01}tR.",
    b"ccollections\nOrderedDict\n)R}X\x09\x00\x00\x00__class__K\x01sb.",
    b"]K\x01b.", b"K\x01K\x02a.", b"K\x01(K\x02e.", b"]K\x01K\x02s.", b"](K\x01K\x02u.", b"}(K\x01u.", b"h\x05.", b"t.",
    b"R.", b".", b"", b"(i__main__\nX\n.", b"cos\n", b"X\xff\xff\xff\xffab.", b"\x8b\xff\xff\xff\x7f.",
    b"\x8b\xff\xff\xff\xff.", b"\x96\xff\xff\xff\xff\xff\xff\xff\xffa.",
    b"X\x01\x00\x00\x00aQ.", b"K\x05Q.", b"(X\x06\x00\x00\x00moduleK\x01tQ.", b"(X\x07\x00\x00\x00storagetQ.", b"\xff.",
    b"P0\n.", b"\x82\x01.", b"(X\x07\x00\x00\x00storagectorch\nfloat32\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ.",
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x009X\x03\x00\x00\x00cpuK\x04tQ.",
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x09\x00\x00\x00../../etcX\x03\x00\x00\x00cpuK\x04tQ.",
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x07\x00\x00\x00mars:12K\x04tQ.",
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuX\x01\x00\x00\x004tQ.",
])
def test_forged_pickles_end_in_plain_errors(body):
    with pytest.raises(PLAIN_ERRORS):
        rushlight.load(archive_of(body))


def test_nested_tuples_as_keys_do_not_exhaust_the_stack():
    deep = b")" + b"\x85" * 200_000
    wide = b")" + b"q\x00h\x00\x86" * 200    # each holds the one before twice: hashing would take for ever
    for body in (b"}" + deep + b"Ns.", b"}" + wide + b"Ns.", b"\x8f(" + deep + b"\x90.", b"(" + deep + b"\x91.",
                 b"cbuiltins\nset\n](" + deep + b"e\x85R.",
                 b"ccollections\nOrderedDict\n](" + deep + b"N\x86e\x85R."):
        with pytest.raises(pickle.UnpicklingError):
            rushlight.load(archive_of(body))


def test_deep_nesting_and_cycles_load_without_recursion():
    depth = 300_000
    read = rushlight.load(archive_of(b"]" * depth + b"a" * (depth - 1) + b"."))
    for _ in range(10):
        (read,) = read
    cycle = rushlight.load(archive_of(b"]q\x00h\x00a."))
    assert cycle[0] is cycle


@pytest.mark.parametrize("indices", [[[0, 9], [0, 0]], [[0, -1], [0, 0]]])
def test_sparse_indices_outside_the_size_are_refused(indices):
    sparse = rushlight.sparse_coo_tensor([[0, 1], [0, 0]], [1.0, 2.0], (2, 2))
    sparse._index[0].copy_(rushlight.tensor(indices))
    for is_zip in (True, False):
        file = io.BytesIO()
        rushlight.save(sparse, file, _use_new_zipfile_serialization=is_zip)
        file.seek(0)
        with pytest.raises(RuntimeError):
            rushlight.load(file)


def test_offsets_of_jagged_tensors_outside_the_values_are_refused():
    nested = rushlight.nested.nested_tensor([rushlight.ones(2, 3), rushlight.ones(1, 3)], layout=rushlight.jagged)
    nested._starts.copy_(rushlight.tensor([0, 2, 300]))
    file = io.BytesIO()
    rushlight.save(nested, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="offsets"):
        rushlight.load(file)


# --- the container ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data, error", [
    (b"", EOFError), (b"PK\x03\x04", RuntimeError), (b"PK\x03\x04" + b"0" * 200, RuntimeError),
    (b"hello", PLAIN_ERRORS), (b"\x80\x02K\x01.", RuntimeError), (pickle.dumps({"a": 1}, 2), RuntimeError),
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", EOFError),
])
@pytest.mark.parametrize("as_path", [True, False])
def test_what_is_no_checkpoint(tmp_path, data, error, as_path):
    path = tmp_path / "x.pt"
    path.write_bytes(data)
    with pytest.raises(error):
        rushlight.load(path if as_path else io.BytesIO(data))


def test_directories_and_missing_files(tmp_path):
    with pytest.raises(IsADirectoryError):
        rushlight.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        rushlight.load(tmp_path / "missing.pt")


def test_a_missing_record_and_a_missing_pickle():
    with pytest.raises(RuntimeError, match="data/0"):
        rushlight.load(archive_of(view(), records=()))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/version", b"3\n")
    file.seek(0)
    with pytest.raises(RuntimeError, match="data.pkl"):
        rushlight.load(file)


def test_torchscript_archives_are_named():
    with pytest.raises(RuntimeError, match="TorchScript"):
        rushlight.load(archive_of(b"N.", records=(("constants.pkl", b"\x80\x02)."),)))


def test_a_wrong_checksum_of_the_pickle_is_found():
    file = io.BytesIO()
    rushlight.save({"a": 1}, file)
    data = bytearray(file.getvalue())
    data[data.index(b"X\x01\x00\x00\x00a") + 5] = ord("b")
    with pytest.raises(RuntimeError, match="checksum"):
        rushlight.load(io.BytesIO(bytes(data)))


def test_compressed_archives_load_and_cannot_be_mapped(tmp_path):
    file = archive_of(
        view(count=1000, sizes=(1000,)), records=(("data/0", bytes(4000)),), compression=zipfile.ZIP_DEFLATED
    )
    assert rushlight.load(file).tolist() == [0.0] * 1000
    path = tmp_path / "packed.pt"
    path.write_bytes(file.getvalue())
    with pytest.raises(RuntimeError, match="mmap=False"):
        rushlight.load(path, mmap=True)


def _with_directory(edit):
    """An archive whose directory entry of data/0 was changed."""
    data = bytearray(archive_of(view()).getvalue())
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4) + 4)
    edit(data, at)
    return io.BytesIO(bytes(data))


@pytest.mark.parametrize("field, width, value", [
    (20, "I", 2**31), (24, "I", 2**31), (42, "I", 2**31), (42, "I", 0), (10, "H", 9), (10, "H", 8), (8, "H", 1),
    (28, "H", 60000), (0, "I", 7),
])
def test_forged_directories_are_refused(field, width, value):
    with pytest.raises(RuntimeError, match="zip archive"):
        rushlight.load(_with_directory(lambda data, at: struct.pack_into(f"<{width}", data, at + field, value)))


def test_bombs_are_refused(monkeypatch):
    claim = _with_directory(
        lambda data, at: (struct.pack_into("<H", data, at + 10, 8), struct.pack_into("<I", data, at + 24, 2**32 - 2))
    )
    with pytest.raises(RuntimeError, match="sizes"):
        rushlight.load(claim)
    monkeypatch.setattr(rushlight.serialization.archive, "_SMALL", 1 << 22)    # a gibibyte of zeros takes long to pack
    bomb = archive_of(
        b"N.", records=tuple((f"data/{k}", bytes(1 << 20)) for k in range(5)), compression=zipfile.ZIP_DEFLATED
    )
    with pytest.raises(RuntimeError, match="claims to hold"):
        rushlight.load(bomb)


def test_legacy_storages_larger_than_the_file_are_refused():
    file = io.BytesIO()
    rushlight.save(rushlight.ones(4), file, _use_new_zipfile_serialization=False)
    data = file.getvalue()
    count = data.index(b"K\x04", data.index(b"cpu"))
    forged = data[:count] + b"J\x00\x00\x00\x7f" + data[count + 2 :]
    for body in (forged, data[:-4], data[:-16], data[: len(data) // 2]):
        with pytest.raises(PLAIN_ERRORS):
            rushlight.load(io.BytesIO(body))


# --- chance -----------------------------------------------------------------------------------------------------------

FUZZ = """
    import io, random, sys, warnings
    from collections import OrderedDict
    import rushlight
    from rushlight.serialization.archive import PyTorchFileReader
    warnings.simplefilter("ignore")
    whole = PyTorchFileReader.get_record

    def without_sum(self, name):    # or every change to the pickle would be found at once
        self.entry(name).crc = 0
        return whole(self, name)

    PyTorchFileReader.get_record = without_sum
    from pickle import UnpicklingError
    REFUSALS = (RuntimeError, EOFError, ValueError, TypeError, NotImplementedError, UnpicklingError)
    x = rushlight.arange(12.0).view(3, 4)
    obj = OrderedDict(a=x, b=x[1:, ::2], l=[1, (True, x.t())], d=rushlight.float16, u=x.to(rushlight.uint16),
                      p=rushlight.nn.Parameter(rushlight.ones(2)), s=rushlight.eye(3).to_sparse(),
                      c=rushlight.eye(3).to_sparse_csr(), m=rushlight.empty(2, device="meta"), e={1}, y=b"abc",
                      n=rushlight.nested.nested_tensor([x, x[:1]]),
                      j=rushlight.nested.nested_tensor([x, x[:1]], layout=rushlight.jagged))
    files = []
    for options in ({}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}):
        file = io.BytesIO()
        if len(options) and "pickle_protocol" not in options:
            obj = OrderedDict((key, value) for key, value in obj.items() if key not in "nj")
        rushlight.save(obj, file, **options)
        files.append(file.getvalue())

    def use(value):
        if isinstance(value, rushlight.Tensor) and not value.is_meta:
            dense = value.to_dense() if value.layout is not rushlight.strided and not value.is_nested else value
            parts = value.unbind() if value.is_nested else [dense]
            for part in parts:
                part.tolist()
        elif isinstance(value, dict):
            [use(v) for v in value.values()]

    seed = int(sys.argv[1])
    for turn in range(int(sys.argv[2])):
        chance = random.Random(seed * 1000003 + turn)
        data = bytearray(files[turn % 3])
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)):]
        else:
            reach = min(len(data), len(data) if chance.random() < 0.4 else 1500)
            for _ in range(chance.choice([1, 1, 1, 2, 4])):
                data[chance.randrange(reach)] = chance.choice([chance.randrange(256), 0, 255, *b"Rbuh"])
        try:
            use(rushlight.load(io.BytesIO(bytes(data))))
        except REFUSALS as error:
            assert type(error) is not SystemError
    print("survived")
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_files_never_end_the_process(seed):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FUZZ), str(seed), "1500"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "survived\n", done.stderr[-2000:]


def test_damage_found_by_hypothesis():
    hypothesis = pytest.importorskip("hypothesis")
    from hypothesis import strategies

    file = io.BytesIO()
    rushlight.save(OrderedDict(a=rushlight.ones(3), b=[1, "two", rushlight.zeros(2, 2)]), file)
    whole = file.getvalue()

    @hypothesis.settings(max_examples=150, deadline=None, derandomize=True)
    @hypothesis.given(
        strategies.integers(0, len(whole)), strategies.integers(0, len(whole) - 1), strategies.integers(0, 255)
    )
    def check(length, at, value):
        data = bytearray(whole)
        data[at] = value
        try:
            rushlight.load(io.BytesIO(bytes(data[:length]) if length % 3 == 0 else bytes(data)))
        except PLAIN_ERRORS:
            pass

    check()

"""What a file may name: the defaults, what users add, and what the environment forces."""

import collections
import io
import pickle
import subprocess
import sys

import pytest

import rushlight

serialization = rushlight.serialization


class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is Point and self.x == other.x

    __hash__ = None


class Slotted:
    __slots__ = ("x",)


class Noted(rushlight.Tensor):
    pass


Pair = collections.namedtuple("Pair", "first second")


def make_point(x):
    return Point(x)


@pytest.fixture(autouse=True)
def _nothing_left():
    serialization.clear_safe_globals()
    yield
    serialization.clear_safe_globals()


def saved(value, **kwargs):
    file = io.BytesIO()
    rushlight.save(value, file, **kwargs)
    file.seek(0)
    return file


VALUES = [
    (Point(3), [Point]), (Pair(1, rushlight.ones(2)), [Pair]),
    (collections.defaultdict(list, a=[1]), [collections.defaultdict, list]),
    (collections.defaultdict(dict), [collections.defaultdict, dict]),
    (rushlight.nn.Linear(2, 2), [rushlight.nn.Linear]),
]


@pytest.mark.parametrize("value, allowed", VALUES, ids=lambda v: type(v).__name__)
def test_allowing_what_a_file_names(value, allowed):
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        rushlight.load(saved(value))
    with serialization.safe_globals(allowed):
        read = rushlight.load(saved(value))
    assert type(read) is type(value)
    if not isinstance(value, (tuple, rushlight.nn.Module)):
        assert read == value
    with pytest.raises(pickle.UnpicklingError):
        rushlight.load(saved(value))
    assert type(rushlight.load(saved(value), weights_only=False)) is type(value)


def test_the_list_grows_and_is_cleared():
    serialization.add_safe_globals([Point])
    serialization.add_safe_globals([(make_point, "some.other.name")])
    assert set(serialization.get_safe_globals()) == {Point, (make_point, "some.other.name")}
    assert rushlight.load(saved(Point(1))) == Point(1)
    with serialization.safe_globals([Point, Slotted]):
        pass
    assert Point in serialization.get_safe_globals() and Slotted not in serialization.get_safe_globals()
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []


def test_names_may_be_given():
    data = saved(Point(1))
    with serialization.safe_globals([(Point, f"{Point.__module__}.Point")]):
        assert rushlight.load(data) == Point(1)
    for wrong, error in (((Point, "a", "b"), ValueError), ((Point, 3), TypeError)):
        with serialization.safe_globals([wrong]), pytest.raises(error):
            rushlight.load(saved(Point(1)))


def test_slots_and_subclasses_of_tensor():
    value = Slotted()
    value.x = 4
    with serialization.safe_globals([Slotted]):
        assert rushlight.load(saved(value)).x == 4
    noted = rushlight.ones(2).as_subclass(Noted)
    noted.remark = "here"
    with pytest.raises(pickle.UnpicklingError, match="Noted"):
        rushlight.load(saved(noted))
    with serialization.safe_globals([Noted]):
        read = rushlight.load(saved(noted))
    assert type(read) is Noted and read.remark == "here" and read.tolist() == [1, 1]


def test_numpy_under_allowing():
    np = pytest.importorskip("numpy")
    value = {"a": np.arange(3.0), "n": np.float64(2.5)}
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        rushlight.load(saved(value))
    names = serialization.get_unsafe_globals_in_checkpoint(saved(value))
    assert any("_reconstruct" in name for name in names)
    multiarray = np._core.multiarray if hasattr(np, "_core") else np.core.multiarray
    known = {
        "_reconstruct": multiarray._reconstruct,
        "scalar": multiarray.scalar,
        "ndarray": np.ndarray,
        "dtype": np.dtype,
    }
    with serialization.safe_globals(
        [(known[name.rpartition(".")[2]], name) for name in names] + [type(np.dtype(np.float64))]
    ):
        read = rushlight.load(saved(value))
    assert read["a"].tolist() == [0, 1, 2] and read["n"] == 2.5


def test_unsafe_globals_are_listed_without_running_anything():
    assert serialization.get_unsafe_globals_in_checkpoint(saved({"a": rushlight.ones(2)})) == []
    for protocol in (2, 4):
        found = serialization.get_unsafe_globals_in_checkpoint(
            saved([Point(1), rushlight.nn.ReLU()], pickle_protocol=protocol)
        )
        assert set(found) == {f"{Point.__module__}.Point", "torch.nn.modules.activation.ReLU"}
    with serialization.safe_globals([Point]):
        assert serialization.get_unsafe_globals_in_checkpoint(saved(Point(1))) == []
    with pytest.raises(ValueError, match="checkpoint"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"nothing"))


def test_the_environment_forces(monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(pickle.UnpicklingError):
        rushlight.load(saved(Point(1)), weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="both were set"):
        rushlight.load(saved(Point(1)))
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        assert rushlight.load(saved(Point(1))) == Point(1)
    with pytest.raises(pickle.UnpicklingError):
        rushlight.load(saved(Point(1)), weights_only=True)


def test_a_pickle_module_means_unsafe_and_is_used():
    class Module:
        class Unpickler(pickle.Unpickler):
            def find_class(self, module, name):
                seen.append(name)
                return super().find_class(module, name)

        Pickler = pickle.Pickler
        dump, load = staticmethod(pickle.dump), staticmethod(pickle.load)

    seen = []
    file = saved(Point(1), pickle_module=Module)
    assert rushlight.load(file, pickle_module=Module) == Point(1) and "Point" in seen
    with pytest.raises(RuntimeError, match="pickle_module"):
        rushlight.load(saved(1), pickle_module=pickle, weights_only=True)
    with pytest.warns(UserWarning, match="pickle_load_args"):
        rushlight.load(saved(1), encoding="ascii")


def test_an_op_can_be_allowed():
    """A transformer keeps its activation, a function, among its attributes."""
    layer = rushlight.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    file = saved(layer)
    nn = rushlight.nn
    classes = [
        nn.TransformerEncoderLayer,
        nn.MultiheadAttention,
        nn.modules.linear.NonDynamicallyQuantizableLinear,
        nn.Linear,
        nn.Dropout,
        nn.LayerNorm,
    ]
    with pytest.raises(pickle.UnpicklingError, match=r"nn\.functional\.relu"), serialization.safe_globals(classes):
        rushlight.load(file)
    file.seek(0)
    with serialization.safe_globals([*classes, nn.functional.relu]):
        again = rushlight.load(file)
    assert again.activation is nn.functional.relu
    x = rushlight.rand(2, 3, 8)
    assert rushlight.equal(again.eval()(x), layer.eval()(x))


FRESH = """
import sys
import rushlight as torch
allowed = [torch.nn.functional.relu, torch.nn.Sequential]    # the first use of either name in this process
with torch.serialization.safe_globals(allowed):
    assert torch.load(sys.argv[1]).activation is torch.nn.functional.relu
"""


def test_an_op_can_be_allowed_before_anything_used_it(tmp_path):
    module = rushlight.nn.Sequential()
    module.activation = rushlight.nn.functional.relu
    rushlight.save(module, tmp_path / "module.pt")
    subprocess.run([sys.executable, "-c", FRESH, str(tmp_path / "module.pt")], check=True)

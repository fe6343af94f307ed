"""Objects that read tensors while they are put together, in the format whose tensor bytes come last."""

import io
import pickle

import pytest

import rushlight

serialization = rushlight.serialization


class Summed:
    """Takes its total from the tensor it is restored with."""

    def __init__(self, values):
        self.values = values
        self.total = values.sum().item()

    def __getstate__(self):
        return {"values": self.values}

    def __setstate__(self, state):
        self.__init__(state["values"])


def rebuilt(tensor):
    return rushlight.Size(tensor.tolist())


class Rebuilt:
    """Becomes what a function makes of its tensor."""

    def __reduce__(self):
        return rebuilt, (rushlight.tensor([3, 4, 5]),)


def saved(value):
    file = io.BytesIO()
    rushlight.save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    return file


def pollute() -> None:
    """Leave plausible bytes of the same size in freed memory."""
    for _ in range(20):
        rushlight.Generator().manual_seed(77).get_state().clone()


def test_a_generator_keeps_its_state():
    generator = rushlight.Generator().manual_seed(5)
    rushlight.randn(7, generator=generator)
    file = saved({"first": rushlight.arange(5), "generator": generator, "last": rushlight.ones(3)})
    pollute()
    read = rushlight.load(file, weights_only=False)
    assert rushlight.equal(read["generator"].get_state(), generator.get_state())
    assert rushlight.equal(read["first"], rushlight.arange(5))
    assert rushlight.equal(read["last"], rushlight.ones(3))
    assert file.read() == b""    # behind the storages: another object may follow


def test_pytorch_s_generator_is_read():
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(5)
    torch.randn(7, generator=generator)
    file = io.BytesIO()
    torch.save([torch.ones(2), generator], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    pollute()
    read = rushlight.load(file, weights_only=False)[1]
    assert read.get_state().tolist() == generator.get_state().tolist()


@pytest.mark.parametrize("place", ["memory", "file"])
@pytest.mark.parametrize("value", [Summed(rushlight.arange(9)), Rebuilt()], ids=["state", "function"])
def test_objects_see_their_elements(value, place, tmp_path):
    data = saved([value, value]).getvalue()
    (tmp_path / "old.pt").write_bytes(data)
    read = rushlight.load(io.BytesIO(data) if place == "memory" else tmp_path / "old.pt", weights_only=False)[1]
    if isinstance(value, Summed):
        assert read.total == 36
        assert rushlight.equal(read.values, value.values)
    else:
        assert read == (3, 4, 5)


def test_allowed_classes_see_their_elements():
    file = saved(Summed(rushlight.arange(9)))
    with serialization.safe_globals([Summed]):
        assert rushlight.load(file).total == 36


def test_several_objects_follow_each_other():
    file = io.BytesIO()
    for k in range(3):
        rushlight.save([Summed(rushlight.arange(k + 2)), k], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert [rushlight.load(file, weights_only=False)[0].total for _ in range(3)] == [1, 3, 6]


def test_looking_ahead_runs_nothing(tmp_path):
    """The storages are looked for without building the object: what a file asks to be called is called once."""
    CALLS.clear()
    read = rushlight.load(saved([Called(), rushlight.ones(2)]), weights_only=False)
    assert CALLS == ["called"] and rushlight.equal(read[1], rushlight.ones(2))
    CALLS.clear()
    with pytest.raises(pickle.UnpicklingError), serialization.safe_globals([Summed]):
        rushlight.load(saved([Called(), rushlight.ones(2)]))
    assert CALLS == []


CALLS: list = []


def note():
    CALLS.append("called")


class Called:
    def __reduce__(self):
        return note, ()

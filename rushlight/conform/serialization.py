"""Files: what is saved from a device comes back on it, on the host and on another unit, bit by bit."""

from __future__ import annotations

import copy
import io
import os
import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

import rushlight as rl

from .case import Case, Chip, case
from .expect import same
from .family import family


def sample(name: str, shape: tuple[int, ...]) -> rl.Tensor:
    """Numbers of a type, on the host, no two rows alike."""
    count = 1
    for size in shape:
        count *= size
    dtype = getattr(rl, name)
    base = (rl.arange(count) * 37 + rl.arange(count) // 101) % 199
    if dtype.is_complex:
        return rl.complex(base.to(rl.float64), -base.to(rl.float64) / 2).to(dtype).reshape(shape)
    return (base > 90 if dtype is rl.bool else base.to(dtype)).reshape(shape)


def through_memory(what: Any, **options: Any) -> Any:
    """`what`, saved and loaded."""
    file = io.BytesIO()
    rl.save(what, file)
    file.seek(0)
    return rl.load(file, **options)


def every_type_comes_back(chip: Chip, name: str) -> None:
    for shape in ((), (0,), (7,), (13, 17), (300, 111)):
        x = sample(name, shape)
        there = x.to(chip.device)
        back = through_memory(there)
        assert back.device == there.device, f"saved on {there.device}, loaded on {back.device}"
        same(back, x, exact=True, what=f"{name} of sizes {shape}, saved and loaded")
        host = through_memory(there, map_location="cpu")
        assert host.device.type == "cpu", f"loaded with map_location='cpu' on {host.device}"
        same(host, x, exact=True, what=f"{name} of sizes {shape}, loaded on the host")
        again = through_memory(x, map_location=chip.name)
        assert again.device.type == chip.name, f"loaded with map_location={chip.name!r} on {again.device}"
        same(again, x, exact=True, what=f"{name} of sizes {shape} of the host, loaded on the device")


def a_file_on_disk_comes_back(chip: Chip, n: int) -> None:
    x = (rl.arange(n, dtype=rl.int32) * 131 + rl.arange(n, dtype=rl.int32) // 251).to(rl.uint8)
    first = rl.arange(11, dtype=rl.int16)      # what is behind it in the file lies at an odd place
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tensors.pt")
        rl.save({"first": first.to(chip.device), "bytes": x.to(chip.device), "last": first.to(chip.device) + 1}, path)
        for mapped in (False, True):
            loaded = rl.load(path, map_location="cpu", mmap=mapped)
            got = {key: value.to(chip.device) for key, value in loaded.items()}
            how = "from a mapped file" if mapped else "from a file"
            same(got["bytes"], x, exact=True, what=f"{n} bytes {how}")
            same(got["first"], first, exact=True, what=f"what lies before {n} bytes, {how},")
            same(got["last"], first + 1, exact=True, what=f"what lies behind {n} bytes, {how},")
            del loaded, got
        loaded = rl.load(path)
        assert loaded["bytes"].device.type == chip.name, f"loaded on {loaded['bytes'].device}"
        same(loaded["bytes"], x, exact=True, what=f"{n} bytes from a file, straight to the device,")
        del loaded


@case()
def parts_of_a_mapped_file_are_moved_from_their_places(chip: Chip) -> None:
    x = rl.arange(40_000, dtype=rl.int32).remainder(253).to(rl.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bytes.pt")
        rl.save(x, path)
        loaded = rl.load(path, mmap=True)
        for first, count in ((0, 40_000), (1, 5), (3, 64), (7, 1001), (4097, 33), (39_990, 10)):
            part = loaded[first : first + count]
            same(part.to(chip.device), x[first : first + count], exact=True, what=f"{count} bytes from byte {first} on")
        del loaded, part


@case()
def views_share_what_they_shared(chip: Chip) -> None:
    x = rl.arange(100.0, device=chip.device)
    saved = {"whole": x, "part": x[10:30], "columns": x.reshape(10, 10).t(), "stepped": x[5::3]}
    for place in (None, "cpu"):
        got = through_memory(saved, map_location=place)
        for key, value in saved.items():
            same(got[key], value.cpu(), exact=True, what=f"{key}, saved with other views of its memory")
            assert got[key].stride() == value.stride(), f"{key} has strides {got[key].stride()}, not {value.stride()}"
        got["whole"][12] = -1.0
        assert float(got["part"][2]) == -1.0, "a view that was saved with its tensor does not share its memory"


@case()
def a_small_view_of_a_large_tensor(chip: Chip) -> None:
    x = rl.arange(300_000, dtype=rl.int32, device=chip.device)
    got = through_memory(x[250_001:250_011])
    same(got, rl.arange(250_001, 250_011, dtype=rl.int32), exact=True, what="ten elements from 250,001 on")
    assert got.storage_offset() == 250_001, f"the offset is {got.storage_offset()}, not 250001"


@case()
def strided_tensors_keep_their_order(chip: Chip) -> None:
    x = rl.arange(24.0).reshape(2, 3, 4)
    for order in ((2, 0, 1), (1, 0, 2), (0, 2, 1)):
        got = through_memory(x.to(chip.device).permute(order))
        same(got, x.permute(order), exact=True, what=f"permute{order}, saved and loaded")
    wide = x.reshape(1, 2, 3, 4).to(chip.device).to(memory_format=rl.channels_last)
    same(through_memory(wide), x.reshape(1, 2, 3, 4), exact=True, what="a tensor with its channels last")


def model(device: Any) -> rl.nn.Module:
    """A small one with parameters and buffers."""
    return rl.nn.Sequential(
        rl.nn.Conv2d(1, 4, 3), rl.nn.BatchNorm2d(4), rl.nn.ReLU(), rl.nn.Flatten(), rl.nn.Linear(144, 5)
    ).to(device)


@case()
def a_model_comes_back(chip: Chip) -> None:
    net = model(chip.device)
    net(rl.ones(3, 1, 8, 8, device=chip.device)).sum().backward()
    state = {key: value.cpu() for key, value in net.state_dict().items()}
    loaded = through_memory(net.state_dict())
    for key, value in state.items():
        assert loaded[key].device.type == chip.name, f"{key} was loaded on {loaded[key].device}"
        same(loaded[key], value, exact=True, what=f"{key} of a model")
    other = model(chip.device)
    other.load_state_dict(loaded)
    x = rl.arange(128.0).reshape(2, 1, 8, 8).remainder(7)
    want = net.eval()(x.to(chip.device)).cpu()
    same(other.eval()(x.to(chip.device)), want, exact=True, what="what the model computes")
    host = model("cpu")
    host.load_state_dict(through_memory(net.state_dict(), map_location="cpu"))
    same(other(x.to(chip.device)), host.eval()(x), rtol=1e-4, atol=1e-5, what="what the model computes there and here")


@case()
def training_goes_on_from_a_file(chip: Chip) -> None:
    def step(net: rl.nn.Module, optimizer: Any) -> float:
        optimizer.zero_grad()
        loss = net(rl.ones(4, 6, device=chip.device)).square().sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    def pair() -> tuple[rl.nn.Module, Any]:
        net = rl.nn.Linear(6, 3).to(chip.device)
        return net, rl.optim.Adam(net.parameters(), lr=0.1)

    net, optimizer = pair()
    for _ in range(3):
        step(net, optimizer)
    saved = through_memory({"net": net.state_dict(), "optimizer": optimizer.state_dict()})
    other, restarted = pair()
    other.load_state_dict(saved["net"])
    restarted.load_state_dict(saved["optimizer"])
    for k in range(3):
        got, want = step(other, restarted), step(net, optimizer)
        assert abs(got - want) <= 1e-5 * abs(want), f"loss {k} after loading is {got}, without it is {want}"


@case()
def parameters_stay_parameters(chip: Chip) -> None:
    saved = rl.nn.Parameter(rl.arange(5.0, device=chip.device))
    got = through_memory(saved)
    assert isinstance(got, rl.nn.Parameter) and got.requires_grad, f"a parameter came back as {type(got).__name__}"
    same(got, rl.arange(5.0), exact=True, what="a parameter")


@case()
def pickles_and_copies(chip: Chip) -> None:
    x = rl.arange(12.0).reshape(3, 4)
    there = x.to(chip.device).t()
    for what, got in (("pickle", pickle.loads(pickle.dumps(there))), ("deepcopy", copy.deepcopy(there))):
        assert got.device == there.device, f"{what}: {there.device} became {got.device}"
        same(got, x.t(), exact=True, what=f"a tensor through {what}")
    held = copy.deepcopy({"a": there, "b": there})
    assert held["a"] is held["b"], "deepcopy made two of one tensor"


@case()
def what_is_queued_is_saved(chip: Chip) -> None:
    x = rl.zeros(300_000, dtype=rl.int32, device=chip.device)
    for k in range(1, 5):
        for _ in range(12):
            x.add_(1)
        want = rl.full((300_000,), 12 * k, dtype=rl.int32)
        same(through_memory(x, map_location="cpu"), want, exact=True, what=f"a tensor saved behind {12 * k} kernels")


@case()
def arrays_of_numpy(chip: Chip) -> None:
    x = rl.arange(60, dtype=rl.float32).reshape(5, 12)
    array = x.to(chip.device).t().cpu().numpy()
    assert array.shape == (12, 5) and float(array[3, 2]) == 27.0, f"element (3, 2) is {array[3, 2]}"
    same(rl.from_numpy(array).to(chip.device), x.t(), exact=True, what="an array, moved to the device,")


@case(needs=("two units",))
def units_come_back_where_they_were(chip: Chip) -> None:
    x = rl.arange(1000.0)
    for unit in range(chip.units):
        there = x.to(f"{chip.name}:{unit}")
        got = through_memory(there)
        assert got.device == there.device, f"saved on {there.device}, loaded on {got.device}"
        same(got, x, exact=True, what=f"a tensor of unit {unit}")
    moved = through_memory(x.to(f"{chip.name}:1"), map_location={f"{chip.name}:1": f"{chip.name}:0"})
    assert moved.device.index == 0, f"map_location from unit 1 to unit 0 gave {moved.device}"
    same(moved, x, exact=True, what="a tensor of unit 1, loaded on unit 0")


def cases(chip: Chip) -> Iterator[Case]:
    """All types, and files of many sizes."""
    names = [str(dtype).rpartition(".")[2] for dtype in chip.dtypes]
    yield from family(every_type_comes_back, {name: (name,) for name in names})
    sizes = (1, 63, 4097, 65_537, (1 << 20) + 1, (3 << 20) + 7)
    yield from family(a_file_on_disk_comes_back, {f"{n} bytes": (n,) for n in sizes})

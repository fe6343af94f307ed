"""Checkpoints of one process: the format is PyTorch's, both ways; what ends a save leaves the last one whole."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

import rushlight as rl
from rushlight.distributed import checkpoint as dcp
from rushlight.distributed.checkpoint import format_utils, metadata, state_dict as sd
from rushlight.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no process group.*", "ignore:.*will be replaced.*",
                                        "ignore:torch.distributed is")


def _state(of, scale=1.0):
    return {
        "model": {"w": of.arange(12.0).reshape(3, 4) * scale, "half": of.ones(3, dtype=of.bfloat16), "n": of.tensor(3)},
        "step": 7,
        "plain": [1, "x", (2, 3)],
        "mixed": [of.ones(2), {"k": of.zeros(1)}],
        "none": None,
    }


def _blank(of):
    state = _state(of, 0.0)
    state["model"]["half"].zero_()
    state["mixed"][0].zero_()
    state["step"] = state["plain"] = None
    return state


def _assert_same(found, expected):
    flat, _ = flatten_state_dict(found)
    want, _ = flatten_state_dict(expected)
    assert flat.keys() == want.keys()
    for name, value in want.items():
        if isinstance(value, rl.Tensor):
            assert rl.equal(flat[name], value), name
        else:
            assert flat[name] == value, name


def test_what_is_saved_is_loaded_in_place(tmp_path):
    dcp.save(_state(rl), checkpoint_id=tmp_path)
    state = _blank(rl)
    weight = state["model"]["w"]
    dcp.load(state, checkpoint_id=tmp_path)
    _assert_same(state, _state(rl))
    assert state["model"]["w"] is weight and state["step"] == 7


@pytest.mark.parametrize("options", [{"thread_count": 3}, {"single_file_per_rank": False}, {"sync_files": False}])
def test_writers_options(tmp_path, options):
    dcp.save(_state(rl), storage_writer=dcp.FileSystemWriter(tmp_path, **options))
    state = _blank(rl)
    dcp.load(state, storage_reader=dcp.FileSystemReader(tmp_path))
    _assert_same(state, _state(rl))


def test_torch_reads_ours_and_we_read_theirs(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.distributed.checkpoint")
    dcp.save(_state(rl), checkpoint_id=tmp_path / "ours")
    state = _blank(torch)
    theirs.load(state, checkpoint_id=str(tmp_path / "ours"))
    assert torch.equal(state["model"]["w"], _state(torch)["model"]["w"]) and state["step"] == 7
    assert torch.equal(state["mixed"][0], torch.ones(2)) and state["plain"] == [1, "x", (2, 3)]
    theirs.save(_state(torch), checkpoint_id=str(tmp_path / "theirs"))
    state = _blank(rl)
    dcp.load(state, checkpoint_id=str(tmp_path / "theirs"))
    _assert_same(state, _state(rl))


def test_torch_converts_ours(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.distributed.checkpoint.format_utils")
    dcp.save(_state(rl), checkpoint_id=tmp_path)
    theirs.dcp_to_torch_save(tmp_path, tmp_path / "whole.pt")
    assert torch.equal(torch.load(tmp_path / "whole.pt", weights_only=False)["model"]["w"], _state(torch)["model"]["w"])


def test_conversion_there_and_back(tmp_path):
    rl.save(_state(rl), tmp_path / "one.pt")
    format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "folder")
    format_utils.dcp_to_torch_save(tmp_path / "folder", tmp_path / "two.pt")
    _assert_same(rl.load(tmp_path / "two.pt"), _state(rl))


def test_named_parts_of_a_checkpoint(tmp_path):
    from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

    dcp.save(_state(rl), checkpoint_id=tmp_path)
    assert _load_state_dict_from_keys("model", checkpoint_id=tmp_path).keys() == {"model"}
    assert _load_state_dict_from_keys({"model.w"}, checkpoint_id=tmp_path)["model"].keys() == {"w"}


def test_flattening_is_undone():
    flat, paths = flatten_state_dict(_state(rl))
    assert "model.w" in flat and "mixed.1.k" in flat and flat["plain"] == [1, "x", (2, 3)]
    _assert_same(unflatten_state_dict(flat, paths), _state(rl))
    with pytest.raises(ValueError, match=r"a\.b"):
        flatten_state_dict({"a": {"b": 1}, "a.b": 2})


def test_saved_parts_fill_other_parts(tmp_path):
    """What two ranks would have saved, read as one needs it: boxes intersect."""
    from rushlight.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

    def box(offsets, sizes):
        return metadata.ChunkStorageMetadata(rl.Size(offsets), rl.Size(sizes))

    saved = metadata.TensorStorageMetadata(metadata.TensorProperties(), rl.Size((5, 4)),
                                           [box((0, 0), (3, 4)), box((3, 0), (2, 4))])
    items = create_read_items_for_chunk_list("x", saved, [box((2, 1), (2, 3))])
    assert [(tuple(i.storage_offsets), tuple(i.dest_offsets), tuple(i.lengths)) for i in items] == [
        ((2, 1), (0, 0), (1, 3)),
        ((0, 1), (1, 0), (1, 3)),
    ]


def test_what_does_not_fit_is_said(tmp_path):
    dcp.save({"a": rl.ones(3), "b": 1}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint state_dict: c"):
        dcp.load({"c": rl.ones(3)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="Size mismatch"):
        dcp.load({"a": rl.ones(4)}, checkpoint_id=tmp_path)
    partial = {"a": rl.zeros(3), "c": rl.zeros(2)}
    dcp.load(partial, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert partial["a"].sum() == 3 and partial["c"].sum() == 0
    with pytest.raises(dcp.CheckpointException, match="no checkpoint here"):
        dcp.load({"a": rl.ones(3)}, checkpoint_id=tmp_path / "nothing")
    with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
        dcp.save({"a": 1}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.raises(RuntimeError, match="checkpoint_id"):
        dcp.save({"a": 1})


class _Harm:
    def __reduce__(self):
        return os.system, ("echo harm",)


def test_nothing_in_a_checkpoint_is_run(tmp_path):
    dcp.save({"a": rl.ones(3), "b": 1}, checkpoint_id=tmp_path)
    good = (tmp_path / ".metadata").read_bytes()
    (tmp_path / ".metadata").write_bytes(pickle.dumps(_Harm()))
    with pytest.raises(dcp.CheckpointException, match="not a checkpoint's metadata"):
        dcp.load({"a": rl.ones(3)}, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(good.replace(b"__0_0.distcp", b"../0.distcp\x00"[:12]))
    with pytest.raises(dcp.CheckpointException, match="not in the checkpoint's folder"):
        dcp.load({"a": rl.ones(3)}, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(good[: len(good) // 2])
    with pytest.raises(dcp.CheckpointException, match="not a checkpoint's metadata"):
        dcp.load({"a": rl.ones(3)}, checkpoint_id=tmp_path)


def test_memory_formats_as_old_pythons_write_them(tmp_path, monkeypatch):
    """Python 3.11.0 to 3.11.3 pickle a member of an enum as an attribute of its class."""
    formats = metadata._MEM_FORMAT_ENCODING
    monkeypatch.setattr(formats, "__reduce_ex__", lambda self, protocol: (getattr, (formats, self._name_)))
    dcp.save({"a": rl.full((3,), 2.0)}, checkpoint_id=tmp_path)
    found = {"a": rl.ones(3)}
    dcp.load(found, checkpoint_id=tmp_path)
    assert found["a"].tolist() == [2.0, 2.0, 2.0]
    monkeypatch.setattr(formats, "__reduce_ex__", lambda self, protocol: (getattr, (formats, "__init_subclass__")))
    dcp.save({"a": rl.ones(3)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="only memory formats are looked up"):
        dcp.load(found, checkpoint_id=tmp_path)


def test_a_file_cut_short_is_said(tmp_path):
    dcp.save({"a": rl.ones(300)}, checkpoint_id=tmp_path)
    file = tmp_path / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(dcp.CheckpointException, match="cut short"):
        dcp.load({"a": rl.ones(300)}, checkpoint_id=tmp_path)


_KILLED = """
import sys, warnings, rushlight as rl
from rushlight.distributed import checkpoint as dcp
warnings.simplefilter("ignore")
big = {f"t{i}": rl.full((1 << 14,), 2.0) for i in range(60)}
print("ready", flush=True)
while True:
    dcp.save(big, checkpoint_id=sys.argv[1])
"""


@pytest.mark.parametrize("after", [0.0, 0.02, 0.05])
def test_a_killed_save_leaves_a_whole_checkpoint(tmp_path, after):
    state = {f"t{i}": rl.full((1 << 14,), 1.0) for i in range(60)}
    dcp.save(state, checkpoint_id=tmp_path)
    process = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    dcp.load(state, checkpoint_id=tmp_path)
    values = {float(v) for tensor in state.values() for v in (tensor.min(), tensor.max())}
    assert len(values) == 1 and values <= {1.0, 2.0}
    dcp.save(state, checkpoint_id=tmp_path)      # and what was left behind is cleared away
    assert len(os.listdir(tmp_path)) <= 3


def test_async_save_takes_the_state_as_it_was(tmp_path):
    weight = rl.ones(1000)
    future = dcp.async_save({"w": weight}, checkpoint_id=tmp_path)
    weight.zero_()
    assert isinstance(future.result(), dcp.Metadata)
    loaded = {"w": rl.zeros(1000)}
    dcp.load(loaded, checkpoint_id=tmp_path)
    assert loaded["w"].sum() == 1000


def test_async_save_in_the_writers_own_copy(tmp_path):
    writer = dcp.FileSystemWriter(tmp_path, cache_staged_state_dict=True)
    weight = rl.ones(10)
    for scale in (1, 2):
        weight.fill_(scale)
        dcp.async_save({"w": weight}, storage_writer=writer).result()
    loaded = {"w": rl.zeros(10)}
    dcp.load(loaded, checkpoint_id=tmp_path)
    assert loaded["w"].sum() == 20


def test_an_async_error_is_the_futures(tmp_path):
    (tmp_path / "file").write_text("")
    future = dcp.async_save({"w": rl.ones(1)}, storage_writer=dcp.FileSystemWriter(tmp_path / "file"))
    with pytest.raises(dcp.CheckpointException):
        future.result(timeout=20)


def test_staging_on_a_thread(tmp_path):
    from rushlight.distributed.checkpoint.staging import DefaultStager

    stager = DefaultStager()
    response = dcp.async_save({"w": rl.ones(3)}, checkpoint_id=tmp_path, async_stager=stager)
    response.staging_completion.result()
    response.upload_completion.result()
    stager.close()
    assert (tmp_path / ".metadata").exists()


def test_plans_may_be_kept(tmp_path):
    for value in (1.0, 2.0):
        planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
        dcp.save({"kept": rl.full((3,), value)}, checkpoint_id=tmp_path, planner=planner)
    loaded = {"kept": rl.zeros(3)}
    dcp.load(loaded, checkpoint_id=tmp_path)
    assert loaded["kept"].sum() == 6


def test_tensors_without_memory_get_some(tmp_path):
    dcp.save({"w": rl.ones(4)}, checkpoint_id=tmp_path)
    state = {"w": rl.empty(4, device="meta")}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["w"].device.type == "cpu" and state["w"].sum() == 4


# --- models and optimizers --------------------------------------------------------------------------------------------


def _trained(of, optimizer="AdamW", steps=2):
    of.manual_seed(0)
    model = of.nn.Sequential(of.nn.Linear(4, 8), of.nn.ReLU(), of.nn.Linear(8, 2))
    made = getattr(of.optim, optimizer)(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(of.ones(3, 4)).square().sum().backward()
        made.step()
        made.zero_grad()
    return model, made


class _App:
    """The usual way to save: an object with state."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        model, optimizer = sd.get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optimizer}

    def load_state_dict(self, state):
        sd.set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"]
        )


def test_training_goes_on_as_if_it_had_not_stopped(tmp_path):
    model, optimizer = _trained(rl)
    dcp.save({"app": _App(model, optimizer)}, checkpoint_id=tmp_path)
    other, fresh = _trained(rl, steps=0)
    dcp.load({"app": _App(other, fresh)}, checkpoint_id=tmp_path)
    for m, o in ((model, optimizer), (other, fresh)):
        m(rl.ones(3, 4)).square().sum().backward()
        o.step()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert rl.equal(one, two)


@pytest.mark.parametrize("flat", [False, True])
def test_state_has_torchs_names_and_numbers(flat):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.distributed.checkpoint.state_dict")
    expected = theirs.get_optimizer_state_dict(
        *_trained(torch), options=theirs.StateDictOptions(flatten_optimizer_state_dict=flat)
    )
    model, optimizer = _trained(rl)
    found = sd.get_optimizer_state_dict(
        model, optimizer, options=sd.StateDictOptions(flatten_optimizer_state_dict=flat)
    )
    one, _ = flatten_state_dict(found)
    two, _ = flatten_state_dict(expected)
    assert {n for n in one if "decoupled" not in n} == {n for n in two if "decoupled" not in n}
    for name, value in two.items():
        if isinstance(value, torch.Tensor):
            assert torch.allclose(torch.from_numpy(one[name].numpy()), value, atol=1e-6), name
    other, fresh = _trained(rl, steps=0)
    sd.set_optimizer_state_dict(other, fresh, found)
    for mine, his in zip(fresh.state.values(), optimizer.state.values(), strict=True):
        assert rl.equal(mine["exp_avg"], his["exp_avg"]) and mine["step"] == his["step"]


def test_frozen_parameters_and_submodules():
    model, _ = _trained(rl)
    model[0].weight.requires_grad_(False)
    names = set(sd.get_model_state_dict(model, options=sd.StateDictOptions(ignore_frozen_params=True)))
    assert names == {"0.bias", "2.weight", "2.bias"}
    assert set(sd.get_model_state_dict(model, submodules={model[2]})) == {"2.weight", "2.bias"}
    alone = sd.StateDictOptions(keep_submodule_prefixes=False)
    assert set(sd.get_model_state_dict(model, submodules={model[2]}, options=alone)) == {"weight", "bias"}


def test_a_compiled_models_names_are_the_models():
    model, _ = _trained(rl)
    assert set(sd.get_model_state_dict(rl.compile(model))) == set(model.state_dict())
    fresh = rl.compile(_trained(rl, steps=0)[0])
    missing = sd.set_model_state_dict(fresh, model.state_dict())
    assert not missing.missing_keys and rl.equal(fresh._orig_mod[0].weight, model[0].weight)


def test_options_that_exclude_each_other():
    with pytest.raises(ValueError, match="full_state_dict"):
        sd.get_model_state_dict(rl.nn.Linear(1, 1), options=sd.StateDictOptions(broadcast_from_rank0=True))

"""What optimizers keep of parameters, as C++ sees it: typed, Python's values, and what C++ writes is Python's."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight import optim
from rushlight.cxx_layers import calls, records, text
from rushlight.utils import cpp_extension

SOURCE = Path(__file__).with_name("programs") / "optimizer_states.cpp"


def test_every_optimizer_has_a_state_with_pytorchs_names_and_types():
    number, real, grows = "int64_t", "double", "std::deque<Tensor>"
    counted = {"step": number, "exp_avg": "Tensor", "exp_avg_sq": "Tensor", "max_exp_avg_sq": "Tensor"}
    assert {name: {o.name: o.type for o in state.options} for name, state in records.optimizer_states()} == {
        "SGD": {"momentum_buffer": "Tensor"},
        "Adam": counted,
        "AdamW": counted,
        "Adagrad": {"step": number, "sum": "Tensor"},
        "RMSprop": {"step": number, "square_avg": "Tensor", "momentum_buffer": "Tensor", "grad_avg": "Tensor"},
        "LBFGS": {
            "func_evals": number, "n_iter": number, "d": "Tensor", "old_dirs": grows, "old_stps": grows, "ro": grows,
            "H_diag": "Tensor", "prev_flat_grad": "Tensor", "t": real, "prev_loss": real,
            "al": "std::optional<std::vector<Tensor>>",
        },
    }  # fmt: skip


def test_states_are_declared_once_and_known_by_their_optimizer():
    header, source = text.headers()["rushlight/generated/optim.h"], text.sources()["optimizers.cpp"]
    for name in records.OPTIMIZERS:
        assert header.count(f"struct {name}ParamState :") == 1
        assert f'if (optimizer == "{name}") return std::make_unique<torch::optim::{name}ParamState>();' in source


def test_a_written_state_is_the_optimizers():
    p = parameter()
    made = optim.Adam([p], 0.1)
    step(made, p)
    count, average = made.state[p]["step"], rl.ones(3)
    calls.set_state(made, p, {"step": 4, "exp_avg": average, "max_exp_avg_sq": None})
    assert made.state[p]["step"] is count and count.item() == 4 and made.state[p]["exp_avg"] is average
    calls.set_state(made, p, None)
    assert p not in made.state
    calls.set_state(made, p, {"step": 2})
    assert made.state[p]["step"].dtype is rl.float32 and made.state[p]["step"].item() == 2


# --- a program, against Python ----------------------------------------------------------------------------------------


def parameter() -> Any:
    return rl.tensor([0.5, -1.0, 1.5], requires_grad=True)


def step(optimizer: Any, p: Any) -> None:
    def loss() -> Any:
        optimizer.zero_grad()
        made = p.pow(4).sum() / 4
        made.backward()
        return made

    optimizer.step(loss)


@pytest.fixture(scope="module")
def said(compiler, tmp_path_factory):
    program = cpp_extension.load("states", SOURCE, extra_cflags=["-O0"], is_standalone=True,
                                 build_directory=tmp_path_factory.mktemp("states"))
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.endswith("end\n"), done.stdout + done.stderr
    pairs = (line.split(":") for line in done.stdout.splitlines()[:-1])
    return {name: [float(number) for number in numbers.split()] for name, numbers in pairs}


def agrees(said: dict[str, list[float]], name: str, value: Any) -> None:
    if isinstance(value, list):
        value = rl.cat([one.reshape(-1) for one in value])
    expected = value.detach().reshape(-1).tolist() if isinstance(value, rl.Tensor) else [value]
    assert said[name] == pytest.approx(expected, rel=1e-5, abs=1e-7), name


@pytest.mark.slow  # a compiler runs
def test_adam_is_read_and_written(said):
    p = parameter()
    made = optim.Adam([p, parameter()], 0.1, amsgrad=True)
    step(made, p), step(made, p)
    kept = made.state[p]
    assert said["adam empty"] == [0] and said["adam first.step"] == [1] and said["adam.step"] == [2]
    assert said["adam entries"] == [1] and said["adam found"] == [0] and said["adam key"] == [1]
    for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
        agrees(said, f"adam.{name}", kept[name])
    agrees(said, "adam.p", p)
    kept["step"].fill_(9)
    kept["exp_avg"] = rl.ones(3)
    kept["exp_avg_sq"].mul_(4)
    step(made, p)
    assert said["adam written.step"] == [10] and said["adam copy.step"] == [2] and said["adam loaded.step"] == [10]
    for name in ("exp_avg", "exp_avg_sq"):
        agrees(said, f"adam written.{name}", kept[name])
    agrees(said, "adam loaded.exp_avg", kept["exp_avg"])
    agrees(said, "adam written.p", p)
    made.state.clear()
    step(made, p)
    assert said["adam anew.step"] == [1]
    agrees(said, "adam anew.p", p)


@pytest.mark.slow
def test_a_state_that_cpp_makes_is_used(said):
    p = parameter()
    made = optim.SGD([p], 0.1, momentum=0.9)
    made.state[p]["momentum_buffer"] = rl.full((3,), 2.0)
    step(made, p)
    agrees(said, "sgd.momentum_buffer", made.state[p]["momentum_buffer"])
    agrees(said, "sgd.p", p)
    made.state.clear()
    step(made, p)
    agrees(said, "sgd anew.momentum_buffer", made.state[p]["momentum_buffer"])
    agrees(said, "sgd anew.p", p)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, make, steps",
    [
        ("adamw", lambda p: optim.AdamW([p], 0.1), 2),
        ("adagrad", lambda p: optim.Adagrad([p], 0.1, initial_accumulator_value=0.5), 2),
        ("rmsprop", lambda p: optim.RMSprop([p], 0.01, momentum=0.9, centered=True), 2),
        ("lbfgs", lambda p: optim.LBFGS([p], 0.5, max_iter=4, history_size=5), 1),
    ],
)
def test_every_value_is_pythons(said, name, make, steps):
    p = parameter()
    made = make(p)
    for _ in range(steps):
        step(made, p)
    for key, value in made.state[p].items():
        if key != "al":  # it has gaps
            agrees(said, f"{name}.{key}", value)
    if name == "lbfgs":
        assert said["lbfgs al"] == [5]
        agrees(said, "lbfgs al.first", made.state[p]["al"][0])
    elif name == "adamw":
        assert said["adamw.max_exp_avg_sq"] == []
    elif name == "adagrad":
        assert said["adagrad before.sum"] == [0.5] * 3


@pytest.mark.slow
def test_groups_have_typed_options(said):
    p, q = parameter(), parameter()
    groups = [{"params": [p], "lr": 0.2, "betas": (0.1, 0.2)}, {"params": [q], "lr": 1.0, "betas": (0.5, 0.6)}]
    made = optim.Adam(groups, weight_decay=0.25)
    (p.pow(4).sum() + q.pow(4).sum()).backward()
    made.step()
    assert said["groups lr"] == pytest.approx([0.1, 0.5]) and said["groups betas"] == pytest.approx([0.5, 0.6])
    agrees(said, "groups.p", p)
    agrees(said, "groups.q", q)
    agrees(said, "groups first.exp_avg", made.state[p]["exp_avg"])
    agrees(said, "groups second.exp_avg", made.state[q]["exp_avg"])


@pytest.mark.slow
def test_an_optimizer_of_ones_own_keeps_its_states(said):
    p = parameter()
    for count in (1, 2):
        p.data -= 0.5 / count * p.detach() ** 3
    assert said["own.count"] == [2]
    agrees(said, "own.p", p)

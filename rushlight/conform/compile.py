"""Compiled programs: the same numbers as without `compile`, forward and backward, for sizes that vary, on this device.

Every function here is compiled for the device and compared with what the host computes without compiling. Kernels that
were made for one program must not serve another one that is like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rushlight as rl
from rushlight.nn import functional as F

from .case import Case, Chip, Skip, case
from .expect import same
from .family import family


def numbers(*shape: int) -> rl.Tensor:
    """Numbers between -1 and 1, on the host, of many different values."""
    count = 1
    for size in shape:
        count *= size
    at = rl.arange(count, dtype=rl.float64)
    return (at * 0.7391 + (at * at).remainder(61) * 0.113).sin().to(rl.float32).reshape(shape)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, y: (x * 2 + y).relu() * x.sigmoid() - y.abs(),
    "broadcast": lambda x, y: x * y[:1] + y[:, :1] - 3,
    "reduction": lambda x, y: (x * y).sum(1) + x.amax(1) - y.mean(),
    "softmax": lambda x, y: rl.softmax(x * 3 + y, -1),
    "layer_norm": lambda x, y: F.layer_norm(x + y, (x.shape[-1],)),
    "product": lambda x, y: F.gelu(x @ y.t()) + 1,
    "views": lambda x, y: (x.t() + y.reshape(y.shape[1], y.shape[0]))[1:, ::2].contiguous() * 2,
    "joined": lambda x, y: rl.cat([x + 1, y * 2], 1).sin(),
    "choices": lambda x, y: rl.where(x > y, x, y * 2).clamp(-0.5, 0.7),
    "integers": lambda x, y: (x * 100).to(rl.int64) // 7 + (y * 10).to(rl.int64) % 5,
    "indexed": lambda x, y: x.index_select(1, (y[0] * 8).to(rl.int64).abs()) + y[:, :1],
    "written_in_place": lambda x, y: x.clone().add_(y).mul_(2).sub_(x),
    "many_results": lambda x, y: (x + y, x - y, (x * y).sum(0), x.argmax(1)),
    "cumulative": lambda x, y: (x + y).cumsum(1) * 0.1,
    "variance": lambda x, y: x.var(1) + (y - y.mean(1, keepdim=True)).square().sum(1).sqrt(),
}


def moved(values: Any, device: Any) -> list[rl.Tensor]:
    """Tensors on a device."""
    return [value.to(device) for value in values]


def compiled_is_what_the_host_computes(chip: Chip, name: str) -> None:
    function, given = FUNCTIONS[name], (numbers(9, 12), numbers(9, 12).flip(0) * 1.3)
    program = rl.compile(function)
    want = function(*given)
    for time in ("the first time", "the second time"):
        same(program(*moved(given, chip.device)), want, what=f"{name}, compiled, {time},")


DIFFERENTIABLE = (
    "pointwise", "broadcast", "reduction", "softmax", "layer_norm", "product", "views", "joined", "variance",
)


def compiled_gradients_are_those_of_the_host(chip: Chip, name: str) -> None:
    def gradients(device: Any, function: Callable[..., Any]) -> list[rl.Tensor]:
        x, y = (part.to(device).requires_grad_() for part in (numbers(9, 12), numbers(9, 12).flip(0) * 1.3))
        (function(x, y) ** 2).sum().backward()
        return [x.grad, y.grad]

    got, want = gradients(chip.device, rl.compile(FUNCTIONS[name])), gradients("cpu", FUNCTIONS[name])
    same(got, want, rtol=1e-4, atol=1e-5, what=f"the gradients of {name}, compiled,")


# Sizes
# ---------------------------------------------------------------------------------------------------------------------


@case()
def sizes_may_vary(chip: Chip) -> None:
    def function(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return ((x * y + 1).tanh().sum(1) / x.shape[1]).cumsum(0)

    program = rl.compile(function)
    for rows, columns in ((4, 6), (5, 6), (4, 9), (31, 17), (1, 6), (4, 6), (300, 70)):
        x, y = numbers(rows, columns), numbers(rows, columns) * 0.5
        got = program(*moved((x, y), chip.device))
        same(got, function(x, y), what=f"a function compiled for other sizes, of {rows} x {columns}")


@case()
def sizes_declared_to_vary(chip: Chip) -> None:
    def function(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
        return F.relu(x @ w).mean(0) * x.shape[0]

    program = rl.compile(function, dynamic=True)
    w = numbers(8, 5)
    for rows in (3, 4, 17, 64, 1001):
        got = program(*moved((numbers(rows, 8), w), chip.device))
        same(got, function(numbers(rows, 8), w), rtol=1e-4, what=f"a function of varying sizes, of {rows} rows")


@case()
def gradients_of_varying_sizes(chip: Chip) -> None:
    def function(x: rl.Tensor) -> rl.Tensor:
        return (rl.softmax(x, -1) * x).sum()

    def gradient(device: Any, run: Callable[..., Any], rows: int) -> rl.Tensor:
        x = numbers(rows, 7).to(device).requires_grad_()
        run(x).backward()
        return x.grad

    program = rl.compile(function, dynamic=True)
    for rows in (2, 3, 50, 3):
        want = gradient("cpu", function, rows)
        same(gradient(chip.device, program, rows), want, atol=1e-5, what=f"a gradient of {rows} rows, compiled,")


@case()
def large_tensors_are_computed_to_their_ends(chip: Chip) -> None:
    def function(x: rl.Tensor) -> rl.Tensor:
        return (x * 3 - 1).abs() + x

    program = rl.compile(function)
    for n in (65_535, 65_537, 300_007):
        x = numbers(n)
        same(program(x.to(chip.device)), function(x), what=f"{n} elements, compiled")
    tall = numbers(70_001, 3)
    rows = rl.compile(lambda t: (t * t).sum(1) + 1)
    same(rows(tall.to(chip.device)), (tall * tall).sum(1) + 1, what="sums of 70,001 rows, compiled")


# Programs that are like each other
# ---------------------------------------------------------------------------------------------------------------------


@case()
def programs_alike_are_not_confused(chip: Chip) -> None:
    x, there = numbers(6, 10), numbers(6, 10).to(chip.device)
    for factor in (2.0, 3.0, -1.5, 0.25):
        program = rl.compile(lambda t, factor=factor: (t * factor + 1).relu())
        same(program(there), (x * factor + 1).relu(), what=f"a program with the factor {factor}")
    for shift in (1, 2, 3):
        program = rl.compile(lambda t, shift=shift: (t + shift).sin() * shift)
        same(program(there), (x + shift).sin() * shift, what=f"a program with the number {shift} in it twice")


@case()
def programs_of_the_same_ops_in_another_order(chip: Chip) -> None:
    def first(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return (x - y) * x + y

    def second(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return (y - x) * y + x

    def third(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return (x - y) * y + x

    x, y = numbers(7, 11), numbers(7, 11).flip(1)
    for name, function in (("first", first), ("second", second), ("third", third)):
        got = rl.compile(function)(*moved((x, y), chip.device))
        same(got, function(x, y), what=f"the {name} of three programs alike")


@case()
def programs_of_other_types(chip: Chip) -> None:
    def function(x: rl.Tensor) -> rl.Tensor:
        return x * 2 + x // 2

    program = rl.compile(function)
    for dtype in (d for d in (rl.float32, rl.float64, rl.int32, rl.int64, rl.float16) if d in chip.dtypes):
        x = (numbers(40) * 50).to(dtype)
        same(program(x.to(chip.device)), function(x), what=f"a program compiled for {dtype}")


@case(needs=("handler",))
def one_program_on_the_host_and_on_the_device(chip: Chip) -> None:
    def function(x: rl.Tensor) -> rl.Tensor:
        return (x.exp() - x).sum(1)

    program, x = rl.compile(function), numbers(5, 8)
    for time in range(2):
        same(program(x), function(x), what=f"round {time}: a compiled program on the host")
        got = program(x.to(chip.device))
        assert got.device.type == chip.name, f"round {time}: tensors on {chip.name} gave one on {got.device}"
        same(got, function(x), what=f"round {time}: the same program on the device")


@case(needs=("two units",))
def one_program_on_two_units(chip: Chip) -> None:
    def function(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return (x * y).relu() + 1

    program, x = rl.compile(function), numbers(5, 8)
    for unit in (0, 1, 0):
        place = rl.device(f"{chip.name}:{unit}")
        got = program(*moved((x, x + 1), place))
        assert got.device == place, f"a program of tensors on {place} gave one on {got.device}"
        same(got, function(x, x + 1), what=f"a program on unit {unit}")


@case()
def kernels_of_many_operands(chip: Chip) -> None:
    def function(*parts: rl.Tensor) -> rl.Tensor:
        total = parts[0] * 1.0
        for number, part in enumerate(parts[1:], 2):
            total = total + part * number
        return total.tanh()

    parts = [numbers(6, 5) * (k + 1) / 40 for k in range(14)]
    same(rl.compile(function)(*moved(parts, chip.device)), function(*parts), what="a program of 14 tensors")


@case()
def inputs_are_written_where_the_program_says(chip: Chip) -> None:
    def function(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        x.add_(y)
        y[0] = 7.0
        return x * y

    given = (numbers(4, 6), numbers(4, 6) + 1)
    here, there = [part.clone() for part in given], [part.clone().to(chip.device) for part in given]
    want, got = function(*here), rl.compile(function)(*there)
    same([got, *there], [want, *here], what="the result and the inputs of a program that writes to them")


@case()
def random_numbers_follow_the_seed(chip: Chip) -> None:
    program = rl.compile(lambda x: F.dropout(x * 2, 0.5, True) + 1)
    x = rl.ones(2000, device=chip.device)
    seen = []
    for seed in (3, 3, 4):
        rl.manual_seed(seed)
        seen.append(program(x).cpu())
    assert rl.equal(seen[0], seen[1]), "a compiled dropout gave other numbers for the same seed"
    assert not rl.equal(seen[0], seen[2]), "a compiled dropout gave the same numbers for another seed"
    share = float((seen[0] == 1).float().mean())
    assert 0.4 < share < 0.6, f"a compiled dropout of 0.5 dropped {share:.3f}"


@case()
def errors_are_raised_in_compiled_programs(chip: Chip) -> None:
    program = rl.compile(lambda t, at: t.index_select(0, at) * 2)
    table = numbers(5, 3).to(chip.device)
    same(program(table, rl.tensor([4, 0], device=chip.device)), numbers(5, 3)[[4, 0]] * 2, what="rows 4 and 0")
    try:
        program(table, rl.tensor([1, 5], device=chip.device)).cpu()
    except (IndexError, RuntimeError):
        pass
    else:
        raise AssertionError("row 5 of 5 was not refused in a compiled program")
    got = program(table, rl.tensor([2, 2], device=chip.device))
    same(got, numbers(5, 3)[[2, 2]] * 2, what="rows 2 and 2 after that")


# Models
# ---------------------------------------------------------------------------------------------------------------------


def model(device: Any) -> rl.nn.Module:
    """A small one, the same everywhere."""
    rl.manual_seed(2)
    return rl.nn.Sequential(rl.nn.Linear(12, 24), rl.nn.GELU(), rl.nn.LayerNorm(24), rl.nn.Linear(24, 4)).to(device)


def steps(device: Any, wrap: Callable[[Any], Any], count: int) -> rl.Tensor:
    """The losses of a model that is trained."""
    net = model(device)
    run, update = wrap(net), rl.optim.SGD(net.parameters(), lr=0.2)
    x, y = numbers(16, 12).to(device), (rl.arange(16) % 4).to(device)
    losses = []
    for _ in range(count):
        update.zero_grad()
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        update.step()
        losses.append(loss.detach())
    return rl.stack(losses).cpu()


@case()
def a_compiled_model_trains_like_on_the_host(chip: Chip) -> None:
    got, want = steps(chip.device, rl.compile, 5), steps("cpu", lambda net: net, 5)
    same(got, want, rtol=1e-3, what="the losses of a compiled model")


@contextmanager
def counted(chip: Chip) -> Iterator[list[int]]:
    """How many kernels the device is given, while it is open."""
    handler = chip.handler
    if handler is None or handler.native() is not None:
        raise Skip("the launches of the device cannot be counted")
    count = [0]
    names = [name for name in ("launch", "launch_pointwise") if getattr(handler, name, None) is not None]
    for name in names:
        before = getattr(handler, name)

        def launch(*args: Any, before: Any = before) -> Any:
            count[0] += 1
            return before(*args)

        setattr(handler, name, launch)
    try:
        yield count
    finally:
        for name in names:
            delattr(handler, name)


@case(needs=("handler",))
def compiled_programs_launch_fewer_kernels(chip: Chip) -> None:
    def function(x: rl.Tensor) -> rl.Tensor:
        return ((x * 2 + 1).relu() - x).abs().sqrt() * 3

    x, program = numbers(8, 8).to(chip.device), rl.compile(function)
    program(x), function(x)
    counts = []
    for run in (function, program):
        with counted(chip) as count:
            run(x)
        counts.append(count[0])
    assert counts[1] < counts[0], f"{counts[1]} kernels compiled, {counts[0]} without: nothing was joined"


LONGER = ("broadcast", "views", "joined", "variance", "cumulative")      # left out where it must be quick


def cases(chip: Chip) -> Iterator[Case]:
    """Every function, forward and backward."""
    for name in FUNCTIONS:
        yield from family(compiled_is_what_the_host_computes, {name: (name,)}, quick=name not in LONGER)
    for name in DIFFERENTIABLE:
        yield from family(compiled_gradients_are_those_of_the_host, {name: (name,)}, quick=name not in LONGER)

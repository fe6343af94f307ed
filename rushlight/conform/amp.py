"""Mixed precision: half types that round and overflow as they should, sums in more than that, autocast, scalers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import rushlight as rl

from .case import Case, Chip, Skip, case
from .expect import same
from .family import family

HALVES = ("float16", "bfloat16")


def autocast(chip: Chip, dtype: rl.dtype | None = None) -> AbstractContextManager[Any]:
    """Autocast on the device, where it is taken."""
    wanted = dtype if dtype is not None else half_of(chip)
    try:
        return rl.autocast(chip.name, dtype=wanted)
    except RuntimeError as error:
        raise Skip(f"autocast does not take the device: {error}") from None


def half_of(chip: Chip) -> rl.dtype:
    """The half type that the device is best at."""
    for name in ("bfloat16", "float16"):
        if getattr(rl, name) in chip.dtypes:
            return getattr(rl, name)
    raise Skip("the device has no half type")


def halves_are_rounded_to_the_nearest(chip: Chip, name: str) -> None:
    dtype = getattr(rl, name)
    x = (rl.arange(-4000, 4000, dtype=rl.float32) * 1.000244140625 + 0.37) / 7
    x = rl.cat([x, 1 + rl.arange(64, dtype=rl.float32) / 8192, -2 - rl.arange(64, dtype=rl.float32) / 512])
    same(x.to(chip.device).to(dtype), x.to(dtype), exact=True, what=f"float32 rounded to {name}")
    half = x.to(dtype)
    same(half.to(chip.device) * 1.1, half * 1.1, exact=True, what=f"{name} times 1.1")
    same(half.to(chip.device) + half.flip(0).to(chip.device), half + half.flip(0), exact=True, what=f"a sum of {name}")


def halves_overflow_to_infinity(chip: Chip, name: str) -> None:
    dtype = getattr(rl, name)
    x = rl.tensor([65_503.0, 65_519.0, 65_520.0, 65_536.0, -70_000.0, 3.38e38, 3.4e38, -3.4e38, rl.inf, rl.nan])
    same(x.to(chip.device).to(dtype), x.to(dtype), exact=True, what=f"large numbers as {name}")
    half = rl.full((10,), rl.finfo(dtype).max, dtype=dtype)
    got = (half.to(chip.device) * 2).cpu()
    assert bool(got.isinf().all()), f"twice the largest {name} is {float(got[0])}, not infinite"


def small_halves_are_kept(chip: Chip, name: str) -> None:
    dtype = getattr(rl, name)
    x = (rl.arange(1, 400, dtype=rl.float32) * rl.finfo(dtype).tiny / 64).to(dtype)
    same(x.to(chip.device) * 1, x * 1, exact=True, what=f"{name} below the smallest normal number")
    same(x.to(chip.device).to(rl.float32), x.to(rl.float32), exact=True, what=f"small {name} as float32")


def products_of_halves_add_up_in_more(chip: Chip, name: str) -> None:
    dtype = getattr(rl, name)
    for k in (300, 3000):
        a, b = rl.ones(3, k, dtype=dtype), rl.ones(k, 2, dtype=dtype)
        want = rl.full((3, 2), float(k)).to(dtype)
        same(a.to(chip.device) @ b.to(chip.device), want, exact=True, what=f"a product of {name} over {k} ones")
    x = rl.ones(5, 3000, dtype=dtype)
    same(x.to(chip.device).sum(1), rl.full((5,), 3000.0).to(dtype), exact=True, what=f"a sum of 3000 ones of {name}")
    same(x.to(chip.device).mean(1), rl.ones(5, dtype=dtype), exact=True, what=f"a mean of 3000 ones of {name}")


def layers_of_halves(chip: Chip, name: str) -> None:
    dtype = getattr(rl, name)
    x = (rl.arange(6 * 64, dtype=rl.float32).reshape(6, 64) * 0.37).sin()
    w = (rl.arange(32 * 64, dtype=rl.float32).reshape(32, 64) * 0.11).cos() / 8
    x, w = x.to(dtype), w.to(dtype)
    calls = {
        "linear": lambda x, w: rl.nn.functional.linear(x, w),
        "softmax": lambda x, w: rl.softmax(x, -1),
        "layer_norm": lambda x, w: rl.nn.functional.layer_norm(x, (64,), w[0], w[1]),
        "gelu": lambda x, w: rl.nn.functional.gelu(x),
    }
    for what, call in calls.items():
        same(call(x.to(chip.device), w.to(chip.device)), call(x, w), what=f"{what} of {name}")


# Autocast
# ---------------------------------------------------------------------------------------------------------------------


def autocast_multiplies_in(chip: Chip, name: str) -> None:
    dtype = getattr(rl, name)
    a = (rl.arange(12 * 20, dtype=rl.float32).reshape(12, 20) * 0.7).sin()
    b = (rl.arange(20 * 9, dtype=rl.float32).reshape(20, 9) * 0.3).cos()
    with autocast(chip, dtype):
        got = a.to(chip.device) @ b.to(chip.device)
    assert got.dtype is dtype, f"a product under autocast to {dtype} is of {got.dtype}"
    same(got, a.to(dtype) @ b.to(dtype), what=f"a product under autocast to {name}")


@case()
def autocast_keeps_losses_in_float32(chip: Chip) -> None:
    x, half = rl.linspace(-3, 3, 64).reshape(4, 16), half_of(chip)
    with autocast(chip):
        there = x.to(chip.device)
        product = there @ there.t()
        loss, shares = rl.nn.functional.mse_loss(product, product + 1), rl.softmax(product, -1)
    assert product.dtype is half, f"a product under autocast is of {product.dtype}, not {half}"
    assert loss.dtype is rl.float32, f"mse_loss under autocast is of {loss.dtype}, not float32"
    want = rl.softmax((x.to(half) @ x.to(half).t()).float(), -1)
    same(shares.float(), want, rtol=2e-2, atol=2e-2, what="softmax under autocast")


@case()
def autocast_is_off_where_it_is_turned_off(chip: Chip) -> None:
    x = rl.ones(4, 4, device=chip.device)
    with autocast(chip):
        inside = x @ x
        with rl.autocast(chip.name, enabled=False):
            off = x @ x
        again = x @ x
    outside = x @ x
    types = [t.dtype for t in (inside, off, again, outside)]
    half = half_of(chip)
    assert types == [half, rl.float32, half, rl.float32], f"inside, turned off, inside and outside: {types}"


@case()
def autocast_of_one_device_leaves_the_other(chip: Chip) -> None:
    if chip.name == "cpu":
        raise Skip("the device is the host")
    with autocast(chip):
        there, here = (x @ x for x in (rl.ones(3, 3, device=chip.device), rl.ones(3, 3)))
    assert there.dtype is half_of(chip) and here.dtype is rl.float32, f"there {there.dtype}, on the host {here.dtype}"


@case()
def gradients_under_autocast_are_float32(chip: Chip) -> None:
    def gradients(device: Any, context: AbstractContextManager[Any]) -> list[rl.Tensor]:
        rl.manual_seed(3)
        net = rl.nn.Sequential(rl.nn.Linear(16, 24), rl.nn.GELU(), rl.nn.Linear(24, 4)).to(device)
        x = rl.linspace(-1, 1, 8 * 16).reshape(8, 16).to(device)
        with context:
            loss = net(x).float().square().mean()
        loss.backward()
        return [p.grad for p in net.parameters()]

    got = gradients(chip.device, autocast(chip))
    want = gradients("cpu", rl.autocast("cpu", dtype=half_of(chip)))
    for number, (one, other) in enumerate(zip(got, want, strict=True)):
        assert one.dtype is rl.float32, f"gradient {number} under autocast is of {one.dtype}"
        same(one, other, rtol=5e-2, atol=5e-3, what=f"gradient {number} under autocast")


# Scalers
# ---------------------------------------------------------------------------------------------------------------------


def scaler(chip: Chip, **options: Any) -> Any:
    """A scaler for the device."""
    return rl.amp.GradScaler(chip.name, init_scale=1024.0, growth_interval=2, **options)


@case()
def a_scaler_multiplies_and_divides(chip: Chip) -> None:
    w = rl.ones(5, device=chip.device, requires_grad=True)
    optimizer, scale = rl.optim.SGD([w], lr=0.5), scaler(chip)
    loss = (w * rl.arange(5.0, device=chip.device)).sum()
    same(scale.scale(loss), rl.tensor(10.0 * 1024), exact=True, what="a scaled loss")
    scale.scale(loss).backward()
    same(w.grad, rl.arange(5.0) * 1024, exact=True, what="a scaled gradient")
    scale.unscale_(optimizer)
    same(w.grad, rl.arange(5.0), exact=True, what="a gradient that was unscaled")
    scale.step(optimizer)
    scale.update()
    same(w, 1 - 0.5 * rl.arange(5.0), exact=True, what="weights after a step")


def a_step_that_overflowed_is_left_out(chip: Chip, bad: str) -> None:
    w = rl.ones(700, device=chip.device, requires_grad=True)
    optimizer, scale = rl.optim.SGD([w], lr=0.5), scaler(chip)
    w.grad = rl.ones(700, device=chip.device)
    w.grad[613] = float(bad)
    scale.scale(rl.ones((), device=chip.device))      # the scale is made when it is first used
    scale.step(optimizer)
    scale.update()
    same(w, rl.ones(700), exact=True, what=f"weights after a step whose gradient had {bad} in it")
    assert scale.get_scale() == 512.0, f"the scale is {scale.get_scale()} after an overflow, not 512"
    w.grad = rl.full((700,), 512.0, device=chip.device)
    scale.step(optimizer)
    scale.update()
    same(w, rl.full((700,), 0.5), exact=True, what="weights after the next step")


@case()
def a_scale_grows_after_good_steps(chip: Chip) -> None:
    w = rl.ones(3, device=chip.device, requires_grad=True)
    optimizer, scale = rl.optim.SGD([w], lr=0.0), scaler(chip)
    seen = []
    for _ in range(4):
        optimizer.zero_grad()
        scale.scale(w.sum()).backward()
        scale.step(optimizer)
        scale.update()
        seen.append(scale.get_scale())
    assert seen == [1024.0, 2048.0, 2048.0, 4096.0], f"the scale after each of four good steps: {seen}"


@case()
def an_overflow_in_halves_reaches_the_scaler(chip: Chip) -> None:
    if rl.float16 not in chip.dtypes:
        raise Skip("the device has no float16")
    w = rl.full((4,), 200.0, device=chip.device, requires_grad=True)
    optimizer, scale = rl.optim.SGD([w], lr=1.0), scaler(chip)
    loss = (w.to(rl.float16) * 300).float().sum()      # 60,000: fits, but its gradient times 1024 does not
    scale.scale(loss).backward()
    scale.step(optimizer)
    scale.update()
    same(w, rl.full((4,), 200.0), exact=True, what="weights after a gradient of float16 overflowed")
    assert scale.get_scale() == 512.0, f"the scale is {scale.get_scale()} after an overflow in float16, not 512"


@case()
def a_scaler_comes_back(chip: Chip) -> None:
    first, second = scaler(chip), scaler(chip)
    first.scale(rl.ones((), device=chip.device))
    first.update(new_scale=64.0)
    second.load_state_dict(first.state_dict())
    assert second.get_scale() == 64.0, f"a scale of 64 came back as {second.get_scale()}"


@case()
def a_model_trains_in_mixed_precision(chip: Chip) -> None:
    def losses(device: str, half: rl.dtype) -> list[float]:
        rl.manual_seed(5)
        net = rl.nn.Sequential(rl.nn.Linear(8, 32), rl.nn.ReLU(), rl.nn.Linear(32, 1)).to(device)
        optimizer, scale = rl.optim.Adam(net.parameters(), lr=0.02), rl.amp.GradScaler(device, init_scale=256.0)
        x = rl.linspace(-1, 1, 64 * 8).reshape(64, 8).to(device)
        y, seen = x.sum(1, keepdim=True).sin(), []
        for _ in range(8):
            optimizer.zero_grad()
            with rl.autocast(device, dtype=half):
                loss = rl.nn.functional.mse_loss(net(x).float(), y)
            scale.scale(loss).backward()
            scale.step(optimizer)
            scale.update()
            seen.append(loss.item())
        return seen

    autocast(chip)      # says where it is not taken
    got, want = losses(chip.name, half_of(chip)), losses("cpu", half_of(chip))
    same(rl.tensor(got), rl.tensor(want), rtol=3e-2, atol=1e-3, what="the losses of eight steps in mixed precision")


def cases(chip: Chip) -> Iterator[Case]:
    """Both half types."""
    names = {name: (name,) for name in HALVES if getattr(rl, name) in chip.dtypes}
    for function in (
        halves_are_rounded_to_the_nearest, halves_overflow_to_infinity, small_halves_are_kept,
        products_of_halves_add_up_in_more, layers_of_halves, autocast_multiplies_in,
    ):
        yield from family(function, names)
    yield from family(a_step_that_overflowed_is_left_out, {bad: (bad,) for bad in ("inf", "-inf", "nan")})

"""Valid calls made wrong: one or two arguments of a sample replaced by something a program might pass by mistake.

Enters: positional and keyword arguments of a valid call, and a `random.Random`. Leaves: new arguments and a line that
says what was replaced. Everything is drawn from the generator, so a call is known by its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import rushlight as rl

INTEGERS = (
    0,
    -1,
    1,
    2,
    3,
    -2,
    7,
    63,
    64,
    65,
    255,
    2**15,
    -(2**15),
    2**31 - 1,
    2**31,
    -(2**31),
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
    2**63,
    2**70,
)
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-300, 1e30, -1e30, 1e300, float("inf"), float("-inf"), float("nan"))
OTHERS = (
    None,
    True,
    "mean",
    "",
    "nonsense",
    (),
    [],
    (1,),
    [2, 3],
    (0, 0),
    (-1, 10**9),
    [2**62, 2**62],
    1j,
    {},
    {"a": 1},
    b"x",
    object,
    range(3),
    slice(None),
    Ellipsis,
    [None],
    ["a"],
    [[1], [2]],
    rl.float32,
    rl.int64,
    rl.complex64,
    rl.strided,
)
DTYPES = (
    rl.float32,
    rl.float64,
    rl.float16,
    rl.bfloat16,
    rl.int64,
    rl.int32,
    rl.int16,
    rl.int8,
    rl.uint8,
    rl.bool,
    rl.complex64,
    rl.complex128,
    rl.complex32,
    rl.uint16,
    rl.uint64,
    rl.float8_e4m3fn,
)
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33)


def shape(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice(SIZES) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))))


def fresh(rng: random.Random, like: Any = None) -> Any:
    """A tensor that nobody asked for: any shape, any dtype;
    `like` lends its shape or its dtype half of the time each."""
    sizes = tuple(like.shape) if like is not None and rng.random() < 0.5 else shape(rng)
    dtype = like.dtype if like is not None and rng.random() < 0.5 else rng.choice(DTYPES)
    values = rl.randint(*rng.choice(((0, 2), (-3, 9), (-(2**40), 2**40), (0, 5))), sizes)
    result = values.to(dtype)
    return result.requires_grad_() if (dtype.is_floating_point or dtype.is_complex) and rng.random() < 0.2 else result


def _sized(t: Any, rng: random.Random) -> Any:
    """The same elements with one size wrong."""
    if not t.ndim:
        return t.expand(rng.choice(SIZES))
    dim = rng.randrange(t.ndim)
    size = max(0, t.shape[dim] + rng.choice((-2, -1, 1, 2, 30)))
    return (
        t.narrow(dim, 0, size).detach()
        if size <= t.shape[dim]
        else rl.cat([t] * (size // max(t.shape[dim], 1) + 1), dim).narrow(dim, 0, size).detach()
    )


def _overlapping(t: Any, rng: random.Random) -> Any:
    """Elements that share memory."""
    if t.numel() and rng.random() < 0.5:
        return t.detach().flatten()[:1].expand(t.shape) if t.ndim else t
    return t.detach().as_strided(tuple(t.shape), tuple(rng.choice((0, 1)) for _ in range(t.ndim))) if t.numel() else t


def _extreme(t: Any, rng: random.Random) -> Any:
    """The same shape with elements out of any range."""
    value = (
        rng.choice((float("nan"), float("inf"), -1e30, 1e30))
        if t.is_floating_point() or t.is_complex()
        else rng.choice((-1, -(2**31), 2**31, 2**62, 120))
    )
    made = t.detach().clone()
    if t.dtype is rl.bool or not t.numel():
        return made
    value = value if made.dtype.is_floating_point or made.dtype.is_complex else int(rl.tensor(value).to(made.dtype))
    if rng.random() < 0.5:
        return made.fill_(value)
    made.view(-1)[rng.randrange(made.numel())] = value
    return made


TENSOR_CHANGES: tuple[Callable[[Any, random.Random], Any], ...] = (
    lambda t, rng: fresh(rng, t),
    _sized,
    _overlapping,
    _extreme,
    lambda t, rng: t.detach().to(rng.choice(DTYPES)),
    lambda t, rng: t.detach().transpose(0, -1) if t.ndim > 1 else t.unsqueeze(0),
    lambda t, rng: t.detach().unsqueeze(rng.randrange(t.ndim + 1)),
    lambda t, rng: t.detach().flatten(),
    lambda t, rng: t.detach()[..., ::2] if t.ndim else t.reshape(1),
    lambda t, rng: rl.empty(tuple(t.shape), dtype=t.dtype, device="meta"),
    lambda t, rng: t.detach().new_zeros(0),
    lambda t, rng: t.detach().expand(*rng.choice(((3,), (1000, 2), (1 << 16,), (1 << 8, 1 << 8))), *t.shape),
    lambda t, rng: t.detach().to_sparse() if t.ndim and t.dtype in (rl.float32, rl.float64) else t,
    lambda t, rng: rng.choice(INTEGERS),
    lambda t, rng: rng.choice(FLOATS),
    lambda t, rng: rng.choice(OTHERS),
)


def changed(value: Any, rng: random.Random, others: list[Any]) -> Any:
    """Something else in the place of `value`; now and then another argument of the same call, so that they alias."""
    if others and rng.random() < 0.15:
        return rng.choice(others)
    if isinstance(value, rl.Tensor):
        return rng.choice(TENSOR_CHANGES)(value, rng)
    if isinstance(value, (list, tuple)) and value and rng.random() < 0.7:
        items = list(value)
        at = rng.randrange(len(items))
        choice = rng.randrange(4)
        if choice == 0:
            del items[at]
        elif choice == 1:
            items.insert(at, items[at])
        else:
            items[at] = changed(items[at], rng, others)
        return type(value)(items) if type(value) in (list, tuple) else items
    kinds: list[Callable[[], Any]] = [
        lambda: rng.choice(INTEGERS),
        lambda: rng.choice(FLOATS),
        lambda: rng.choice(OTHERS),
        lambda: fresh(rng),
    ]
    if isinstance(value, int) and not isinstance(value, bool):
        kinds += [lambda: rng.choice(INTEGERS)] * 4 + [lambda: value + rng.choice((-1, 1, 5, 100))]
    elif isinstance(value, float):
        kinds += [lambda: rng.choice(FLOATS)] * 4
    return rng.choice(kinds)()


def short(value: Any) -> str:
    if isinstance(value, rl.Tensor):
        return f"{value.dtype.name}{list(value.shape)}:{value.stride() if value.layout is rl.strided else value.layout}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(short(item) for item in value[:6]) + ")"
    return repr(value)[:60]


def mutate(args: list[Any], kwargs: dict[str, Any], rng: random.Random) -> tuple[list[Any], dict[str, Any], str]:
    """The call with one argument, or two, replaced, dropped, added, or exchanged."""
    args, kwargs = list(args), dict(kwargs)
    for _ in range(rng.choice((1, 1, 2))):
        places: list[Any] = [*range(len(args)), *kwargs]
        act = rng.random()
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, rl.Tensor)]
        if not places or act < 0.04:
            args.append(rng.choice((*INTEGERS, *OTHERS)))
        elif act < 0.07 and tensors:
            kwargs["out"] = changed(rng.choice(tensors).detach(), rng, tensors)
        elif act < 0.10:
            place = rng.choice(places)
            args.pop(place) if isinstance(place, int) else kwargs.pop(place)
        elif act < 0.15 and len(args) > 1:
            a, b = rng.sample(range(len(args)), 2)
            args[a], args[b] = args[b], args[a]
        else:
            place = rng.choice(places)
            held = args if isinstance(place, int) else kwargs
            held[place] = changed(held[place], rng, tensors)
    named = [f"{name}={short(value)}" for name, value in kwargs.items()]
    return args, kwargs, ", ".join([*map(short, args), *named])

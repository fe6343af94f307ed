"""PyTorch's functions, tensors and samples as Rushlight's.

Enters: a function of an op record (a PyTorch function, or a lambda over them) or a tree of arguments. Leaves: the same
thing in Rushlight: functions are found by their public path, lambdas are rebuilt with every PyTorch name they use
replaced, tensors keep elements, strides, offset, aliasing within one sample and `requires_grad`.
Refuses: functions that have no counterpart (`Missing`, with the path looked for).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch

import rushlight as rl


class Missing(Exception):
    """Rushlight has no counterpart of a PyTorch name."""


@cache
def _paths() -> dict[int, str]:
    """Identity of every public PyTorch function -> its path below `torch`."""
    spaces = {"nn.functional": torch.nn.functional, "linalg": torch.linalg, "fft": torch.fft, "special": torch.special,
              "signal.windows": torch.signal.windows, "masked": torch.masked, "sparse": torch.sparse, "": torch,
              "Tensor": torch.Tensor}
    found: dict[int, str] = {}
    for prefix, space in spaces.items():
        for name in sorted(dir(space), key=lambda name: name.startswith("_")):    # `threshold`, not `_threshold`
            thing = getattr(space, name, None)
            if callable(thing) and not isinstance(thing, type):
                found.setdefault(id(thing), f"{prefix}.{name}" if prefix else name)
    return found


def resolve(path: str) -> Any:
    """What Rushlight has at a path below `torch`."""
    thing: Any = rl
    for part in path.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            raise Missing(path) from None
    return thing


def _seeded(op: Callable, *args: Any, **kwargs: Any) -> Any:
    """What PyTorch's test helper `wrapper_set_seed` does: a fixed seed, and the generator as it was afterwards."""
    with rl.random.fork_rng(devices=[]):
        rl.manual_seed(42)
        return op(*args, **kwargs)


HELPERS: dict[str, Callable] = {"wrapper_set_seed": _seeded}    # of PyTorch's test code, written for our names


def function(fn: Any) -> Callable:
    """Rushlight's counterpart of a PyTorch callable."""
    if getattr(fn, "__name__", "") in HELPERS:
        return HELPERS[fn.__name__]
    if isinstance(fn, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return resolve("ops." + str(fn).removeprefix("OpOverload").replace("::", "."))
    path = _paths().get(id(fn))
    if path is not None:
        return resolve(path)
    if isinstance(fn, partial):
        return partial(function(fn.func), *thing(fn.args), **thing(fn.keywords))
    if isinstance(fn, types.FunctionType):
        if fn.__module__.startswith("torch.") and not fn.__module__.startswith("torch.testing"):
            return resolve(_public(fn))
        return _rebuilt(fn)
    name = getattr(fn, "__name__", "")
    if isinstance(fn, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return resolve(f"Tensor.{name}")
    if getattr(fn, "__module__", "") in ("_operator", "operator", "builtins", "math"):
        return fn
    raise Missing(repr(fn))


def _public(fn: types.FunctionType) -> str:
    """The path of a Python function of PyTorch that is not found by identity (wrapped ones)."""
    module = fn.__module__.removeprefix("torch.").removeprefix("_")
    module = {"functional": "", "tensor": "Tensor", "masked._ops": "masked"}.get(module, module)
    return f"{module}.{fn.__name__}" if module else fn.__name__


def _rebuilt(fn: types.FunctionType) -> Callable:
    """The same Python function over Rushlight's names."""
    names = {name: thing(fn.__globals__[name]) for name in _names(fn.__code__) if name in fn.__globals__}
    cells = tuple(types.CellType(thing(cell.cell_contents)) for cell in fn.__closure__ or ())
    made = types.FunctionType(fn.__code__, {"__builtins__": __builtins__, **names}, fn.__name__, fn.__defaults__, cells)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= _names(inner)
    return found


def thing(x: Any, memo: dict[Any, Any] | None = None) -> Any:
    """Anything that occurs in a sample or a lambda, as Rushlight's."""
    memo = {} if memo is None else memo
    if isinstance(x, torch.Tensor):
        return tensor(x, memo)
    if x is torch:
        return rl
    if isinstance(x, types.ModuleType):
        return resolve(x.__name__.removeprefix("torch.")) if x.__name__.startswith("torch.") else x
    if isinstance(x, (torch.dtype, torch.layout, torch.memory_format)):
        return resolve(str(x).removeprefix("torch."))
    if isinstance(x, torch.device):
        return rl.device(str(x))
    if isinstance(x, torch.Size):
        return rl.Size(x)
    if isinstance(x, torch.Generator):
        return rl.Generator().manual_seed(x.initial_seed())
    if type(x) in (list, tuple):
        return type(x)(thing(item, memo) for item in x)
    if isinstance(x, dict):
        return {key: thing(item, memo) for key, item in x.items()}
    if isinstance(x, types.FunctionType) or (callable(x) and id(x) in _paths()):
        return function(x)
    if isinstance(x, torch.nn.PairwiseDistance):
        return lambda a, b: resolve("nn.functional.pairwise_distance")(a, b, x.norm, x.eps, x.keepdim)
    if type(x).__name__ == "LinearCrossEntropyOptions":
        return resolve("nn.LinearCrossEntropyOptions")(**{f: thing(getattr(x, f)) for f in x.__dataclass_fields__})
    return x


def tensor(t: torch.Tensor, memo: dict[Any, Any]) -> Any:
    """The same elements with the same strides, in memory of their own (shared within one sample as in the original)."""
    if id(t) in memo:
        return memo[id(t)]
    if t.layout is not torch.strided:
        result = _sparse(t, memo)
    elif t.device.type == "meta":
        result = rl.empty_strided(
            tuple(t.shape), t.stride(), dtype=resolve(str(t.dtype).removeprefix("torch.")), device="meta"
        )
    else:
        plain = _stored(t.detach())
        key = ("storage", plain.untyped_storage().data_ptr())
        if key not in memo or not key[1]:
            # the original is kept, so that its address stays its own
            memo[key] = plain, rl.from_numpy(_numbers(plain))
        result = memo[key][1].view(resolve(str(t.dtype).removeprefix("torch.")))
        if result.shape != t.shape or result.stride() != plain.stride():
            result = result.as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset())
        result = result.conj() if t.is_conj() else result
        result = (result._neg_view() if t.is_neg() else result).detach()
    if t.requires_grad:
        result.requires_grad_()
    memo[id(t)] = result
    return result


def _stored(t: torch.Tensor) -> torch.Tensor:
    """What the memory holds, of a tensor that shows the conjugates or negatives of that."""
    t = t.conj() if t.is_conj() else t
    return torch._neg_view(t) if t.is_neg() else t


def _numbers(t: torch.Tensor) -> np.ndarray:
    """A copy of the whole storage of a tensor, as a vector of integers or numbers of its width."""
    count = t.untyped_storage().nbytes() // t.element_size()
    whole = torch.as_strided(t, (count,), (1,), 0)
    try:
        return whole.numpy().copy()
    except TypeError:
        return whole.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[t.element_size()]).numpy().copy()


def _sparse(t: torch.Tensor, memo: dict[Any, Any]) -> Any:
    plain = t.detach()
    if t.layout is torch.sparse_coo:
        parts = (plain._indices(), plain._values())
    elif t.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = (plain.crow_indices(), plain.col_indices(), plain.values())
    else:
        parts = (plain.ccol_indices(), plain.row_indices(), plain.values())
    memo["parts", id(t)] = parts   # the memo goes by identity: what it has seen must stay alive
    ours = [tensor(part, memo) for part in parts]
    if t.layout is torch.sparse_coo:
        return rl.sparse_coo_tensor(*ours, tuple(t.shape), is_coalesced=t.is_coalesced())
    return rl.sparse_compressed_tensor(*ours, tuple(t.shape), layout=resolve(str(t.layout).removeprefix("torch.")))


def back(t: Any) -> torch.Tensor:
    """A Rushlight tensor as a PyTorch one (strided, in memory of its own)."""
    t = t.detach()
    if t.layout is not rl.strided:
        t = t.to_dense()
    dtype = getattr(torch, t.dtype.name)
    if not t.numel():
        return torch.empty(tuple(t.shape), dtype=dtype)
    t = t.contiguous().resolve_conj().resolve_neg()
    if t.dtype.name.startswith(("bfloat16", "float8_", "complex32")):
        width = {1: "uint8", 2: "int16", 4: "int32"}[t.dtype.itemsize]
        return torch.from_numpy(t.view(getattr(rl, width)).numpy().copy()).view(dtype)
    return torch.from_numpy(np.array(t.numpy(), copy=True)).reshape(tuple(t.shape))

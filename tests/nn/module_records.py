"""PyTorch's records of its modules (`module_db`) run on both libraries.

Enters: a record. Leaves: a list of differences, in words, of: initial weights for the same seed, forward, backward
(parameters and inputs), names of the state, text, and what deepcopy and pickle give back. Refuses nothing:
what cannot be built is a difference.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db

import rushlight as rl
from tests.parity import convert, records  # noqa: F401  the latter makes seeding cheap

RECORDS = {record.name: record for record in module_db}
PATIENCE = 6  # inputs of one record and mode that are run; records list up to hundreds of settings


def samples(record: Any, training: bool) -> list[Any]:
    """The record's first inputs, needing gradients."""
    try:
        torch.manual_seed(0)
        # The fractional pools' records bring their random numbers as doubles.
        dtype = torch.float64 if "Fractional" in record.name else torch.float32
        found = record.module_inputs_func(record, "cpu", dtype, True, training)
    except NotImplementedError:
        return []
    step = max(1, len(found) // PATIENCE)
    return found[::step][:PATIENCE]


def ours(x: Any, memo: dict[Any, Any]) -> Any:
    """`convert.thing`, and modules: the same class with the same state."""
    if isinstance(x, torch.nn.Module):
        return _module(x)
    if isinstance(x, type) and issubclass(x, torch.nn.Module):
        return getattr(rl.nn, x.__name__)
    if type(x) in (list, tuple):
        return type(x)(ours(item, memo) for item in x)
    if isinstance(x, torch.nn.utils.rnn.PackedSequence):
        return rl.nn.utils.rnn.PackedSequence(*[None if t is None else ours(t, memo) for t in x])
    return convert.thing(x, memo)


def _module(x: torch.nn.Module) -> Any:
    if isinstance(x, torch.nn.TransformerEncoderLayer):
        attention = x.self_attn
        result = rl.nn.TransformerEncoderLayer(attention.embed_dim, attention.num_heads, x.linear1.out_features,
                                             x.dropout.p, convert.thing(x.activation), x.norm1.eps,
                                             attention.batch_first, x.norm_first,
                                             x.linear1.bias is not None)
    elif isinstance(x, torch.nn.LayerNorm):
        result = rl.nn.LayerNorm(x.normalized_shape, x.eps, x.elementwise_affine)
    else:
        raise convert.Missing(type(x).__name__)
    result.load_state_dict({name: convert.tensor(t, {}) for name, t in x.state_dict().items()})
    return result.train(x.training)


def tensors(x: Any, kind: type) -> Iterator[Any]:
    """The tensors in a nest of results, in order."""
    if isinstance(x, kind):
        yield x
    elif isinstance(x, dict):
        for item in x.values():
            yield from tensors(item, kind)
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from tensors(item, kind)


def _compare(what: str, mine: list, theirs: list) -> list[str]:
    if len(mine) != len(theirs):
        return [f"{what}: {len(mine)} tensors, not {len(theirs)}"]
    found = []
    for i, (a, b) in enumerate(zip(mine, theirs)):
        if (a is None) != (b is None):
            found.append(f"{what} {i}: one is None")
        elif a is not None:
            try:
                size = b.detach().abs().nan_to_num(0, 0, 0).max().item() if b.numel() else 0
                torch.testing.assert_close(
                    convert.back(a), b.detach(), rtol=1e-4, atol=2e-5 * max(1, size), equal_nan=True
                )
            except AssertionError as error:
                found.append(f"{what} {i}: {str(error).splitlines()[0]} {str(error).splitlines()[-3:]}")
    return found


def _backward(outputs: Any, kind: type) -> None:
    wanted = [t for t in tensors(outputs, kind) if t.requires_grad]
    if wanted:
        sum((t * t).sum() for t in wanted).backward()


def _build(record: Any, sample: Any, memo: dict[Any, Any]) -> tuple[Any, Any]:
    given = sample.constructor_input
    torch.manual_seed(7)
    theirs = record.module_cls(*given.args, **given.kwargs)
    args, kwargs = ours(given.args, memo), {k: ours(v, memo) for k, v in given.kwargs.items()}
    rl.manual_seed(7)
    return getattr(rl.nn, record.module_cls.__name__)(*args, **kwargs), theirs


def differences(record: Any, sample: Any, training: bool) -> list[str]:
    """Everything in which the two libraries differ on one input of one record."""
    memo: dict[Any, Any] = {}
    mine, theirs = _build(record, sample, memo)
    mine.train(training)
    theirs.train(training)
    found = _compare("initial", [p for p in mine.parameters() if not rl.nn.parameter.is_lazy(p)],
                     [p for p in theirs.parameters() if not torch.nn.parameter.is_lazy(p)])
    given = sample.forward_input
    args = ours(given.args, memo)
    kwargs = {k: ours(v, memo) for k, v in given.kwargs.items()}
    torch.manual_seed(1)
    out_theirs = theirs(*given.args, **given.kwargs)
    rl.manual_seed(1)
    out_mine = mine(*args, **kwargs)
    found += _compare("output", list(tensors(out_mine, rl.Tensor)), list(tensors(out_theirs, torch.Tensor)))
    _backward(out_theirs, torch.Tensor)
    _backward(out_mine, rl.Tensor)
    found += _compare("gradient", [p.grad for p in mine.parameters()], [p.grad for p in theirs.parameters()])
    leaves = [
        (a, b)
        for a, b in zip(tensors((args, kwargs), rl.Tensor), tensors((given.args, given.kwargs), torch.Tensor))
        if b.is_leaf
    ]
    found += _compare("input gradient", [a.grad for a, _ in leaves], [b.grad for _, b in leaves])
    for _, b in leaves:
        b.grad = None
    if list(mine.state_dict()) != list(theirs.state_dict()):
        found.append(f"state: {list(mine.state_dict())}, not {list(theirs.state_dict())}")
    found += _compare("buffer", list(mine.buffers()), list(theirs.buffers()))
    if repr(mine).replace("rushlight", "torch") != repr(theirs):
        found.append(f"text: {mine!r}, not {theirs!r}")
    return found + copies(mine)


def copies(module: Any) -> list[str]:
    """What deepcopy and pickle do not give back."""
    found = []
    for how, make in (("deepcopy", copy.deepcopy), ("pickle", lambda m: pickle.loads(pickle.dumps(m)))):
        try:
            other = make(module)
        except (AttributeError, pickle.PicklingError, TypeError) as error:
            if "local" not in str(error) and "lambda" not in str(error):  # functions of the record itself
                found.append(f"{how}: {error}")
            continue
        same = all(rl.equal(a, b) for a, b in zip(module.state_dict().values(), other.state_dict().values()))
        if repr(other) != repr(module) or list(other.state_dict()) != list(module.state_dict()) or not same:
            found.append(f"{how}: another module came back")
    return found


def check(record: Any) -> list[str]:
    """All differences of a record, in both modes where they differ."""
    found: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for training in (True, False) if record.train_and_eval_differ else (True,):
            for sample in samples(record, training):
                label = f"{record.name}({sample.desc or sample.constructor_input.args}, training={training})"
                try:
                    found += [f"{label} {text}" for text in differences(record, sample, training)]
                except Exception as error:
                    found.append(f"{label} raised {type(error).__name__}: {error}")
    return found


if __name__ == "__main__":
    import sys
    import time

    names = sys.argv[1:] or list(RECORDS)
    for name in names:
        start = time.perf_counter()
        problems = check(RECORDS[name])
        print(f"{name}: {len(problems)} ({time.perf_counter() - start:.1f} s)", flush=True)
        for problem in problems[:3]:
            print("   ", problem[:400])

"""The checks one op record goes through. Each raises with a reason, or returns.

Enters: an `OpInfo` of PyTorch. Every check makes the record's samples, runs PyTorch and Rushlight on the same elements
from the same seed, and compares values, dtypes and shapes. A sample PyTorch itself refuses is passed over.

    forward          float32 (else the first dtype the record lists)
    gradient         float64, every input that requires one
    second           gradients of gradients, float64
    variants         method, in-place, operator and out= forms
    noncontiguous    inputs with gaps between their elements
    dtypes           every other dtype the record lists for the CPU
    meta             shape, dtype and strides without data equal those with data
    errors           the exception class of `error_inputs`, and a message about the same thing
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import torch

import rushlight as rl
from tests.parity.convert import Missing, back, function, thing

SAMPLES = {"forward": 12, "gradient": 6, "second": 2, "variants": 4, "noncontiguous": 4, "dtypes": 1, "meta": 3}
RELATIVE = {torch.float32: 3e-5, torch.float64: 1e-9, torch.bfloat16: 2**-6, torch.float16: 2**-8, torch.complex64: 5e-5, torch.complex32: 2**-8,
            torch.complex128: 1e-9}
# Which of several equal elements is named is not promised (and differs between PyTorch's own devices): the element counts.
TIES = {"sort": 0, "argsort": 0, "median": 0, "nanmedian": 0, "mode": 0, "topk": 1, "kthvalue": 1}   # name: the place of `dim`
UNDEFINED = re.compile(r"^(new_)?empty(_like|_strided|_permuted)?$|^resize_(as_)?$")  # elements nobody promised


class NotApplicable(Exception):
    """The record has nothing this check could look at."""


class Different(AssertionError):
    """The two libraries disagree."""


def spread(items: Iterable[Any], limit: int) -> list[Any]:
    """At most `limit` items, first and last included, evenly taken."""
    items = list(items)
    if limit == 1:
        return items[len(items) // 2 : len(items) // 2 + 1]
    if len(items) <= limit:
        return items
    return [items[round(i * (len(items) - 1) / (limit - 1))] for i in range(limit)]


def seeded(fn: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call with both generators at the same place."""
    torch.manual_seed(11)
    rl.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fn(*args, **kwargs)


def samples(record: Any, dtype: torch.dtype, check: str, requires_grad: bool = False) -> list[Any]:
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return spread(record.sample_inputs("cpu", dtype, requires_grad=requires_grad), SAMPLES[check])


def describe(sample: Any) -> str:
    def short(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
        if isinstance(x, (list, tuple)):
            return "(" + ", ".join(map(short, x)) + ")"
        return repr(x)[:60]

    named = [f"{key}={short(value)}" for key, value in sample.kwargs.items()]
    return ", ".join([short(sample.input), *map(short, sample.args), *named])


def leaves(x: Any) -> list[Any]:
    """Results or arguments as a flat list."""
    if isinstance(x, (list, tuple)):
        return [part for item in x for part in leaves(item)]
    if isinstance(x, dict):
        return [part for item in x.values() for part in leaves(item)]
    return [x]


def compare(want: Any, got: Any, where: str, values: bool = True, slack: float = 1.0) -> None:
    """Raise `Different` unless both results are the same."""
    wants, gots = leaves(want), leaves(got)
    if len(wants) != len(gots):
        raise Different(f"{where}: {len(wants)} results wanted, got {len(gots)}")
    for w, g in zip(wants, gots, strict=True):
        if isinstance(w, torch.Tensor):
            _compare_tensors(w, g, where, values, slack)
        elif isinstance(w, (torch.dtype, torch.layout, torch.device)):
            if str(w).removeprefix("torch.") != str(g).removeprefix("rushlight.").removeprefix("torch."):
                raise Different(f"{where}: {w} wanted, got {g}")
        elif isinstance(w, (bool, int, float, complex)) and not (w == g or (w != w and g != g)):
            if not (isinstance(g, (float, complex)) and abs(w - g) <= 1e-5 * max(abs(w), 1e-30)):
                raise Different(f"{where}: {w} wanted, got {g}")


def _compare_tensors(w: torch.Tensor, g: Any, where: str, values: bool, slack: float) -> None:
    if not isinstance(g, rl.Tensor):
        raise Different(f"{where}: a tensor wanted, got {type(g).__name__}")
    if str(w.dtype).removeprefix("torch.") != g.dtype.name:
        raise Different(f"{where}: dtype {w.dtype} wanted, got {g.dtype}")
    if tuple(w.shape) != tuple(g.shape):
        raise Different(f"{where}: shape {tuple(w.shape)} wanted, got {tuple(g.shape)}")
    if not values:
        return
    if str(w.layout) != f"torch.{str(g.layout).split('.')[-1]}":
        raise Different(f"{where}: layout {w.layout} wanted, got {g.layout}")
    w = w.detach().to_dense() if w.layout is not torch.strided else w.detach().resolve_conj().resolve_neg()
    bound = RELATIVE.get(w.dtype, 0) * slack
    found = back(g)
    if (w.dtype.itemsize == 1 and w.dtype.is_floating_point) or w.dtype is torch.complex32:
        wide = torch.complex64 if w.is_complex() else torch.float32
        w, found = w.to(wide), found.to(wide)
    finite = w[w.isfinite()] if bound else None
    scale = float(finite.abs().max()) if finite is not None and finite.numel() else 1.0
    try:
        torch.testing.assert_close(found, w, rtol=bound, atol=bound * max(scale, 0.01), equal_nan=True)
    except AssertionError as error:
        raise Different(f"{where}: " + " ".join(str(error).split())[:200]) from None


class Pair:
    """One function of both libraries, and how to run a sample on each."""

    def __init__(self, fn: Callable, values: bool = True, ties: int | None = None) -> None:
        self.theirs, self.values, self.ties = fn, values, ties

    @cached_property
    def ours(self) -> Callable:
        """Rushlight's counterpart, looked for once PyTorch has shown that it runs here at all."""
        return function(self.theirs)

    def oracle(self, sample: Any) -> Any:
        """PyTorch's result, or None with `refused` set."""
        try:
            result = seeded(self.theirs, sample.input, *sample.args, **sample.kwargs)
        except Exception:   # noqa: BLE001  whatever PyTorch refuses here is not this check's business
            return None, True
        return sample.output_process_fn_grad(result) if result is not NotImplemented else None, result is NotImplemented

    def run(self, sample: Any, extra: dict | None = None) -> tuple[Any, list[Any]]:
        """Our result, and our inputs."""
        memo: dict[int, Any] = {}
        first, args, kwargs = thing((sample.input, list(sample.args), dict(sample.kwargs)), memo)
        result = seeded(self.ours, first, *args, **kwargs, **(extra or {}))
        return thing(sample.output_process_fn_grad)(result), [first, args, kwargs]

    def check(self, sample: Any, where: str, slack: float = 1.0) -> bool:
        """Compare on one sample; False where PyTorch refused it. The inputs are copied first: some ops change them."""
        memo: dict[int, Any] = {}
        given = thing((sample.input, list(sample.args), dict(sample.kwargs)), memo)
        want, refused = self.oracle(sample)
        if refused:
            return False
        got = _guarded(lambda: seeded(self.ours, given[0], *given[1], **given[2]), where)
        got = thing(sample.output_process_fn_grad)(got)
        if self.ties is not None:
            want, got = (_pointed_at(result, sample, self.ties) for result in (want, got))
        compare(want, got, where, self.values, slack)
        return True


def _pointed_at(result: Any, sample: Any, place: int) -> Any:
    """The result of an op that tells positions, with each position replaced by the element there."""
    dim = next((d for d in (sample.kwargs.get("dim"), *sample.args[place : place + 1]) if type(d) is int and sample.input.ndim), -1)

    def element(t: Any) -> Any:
        index = back(t) if isinstance(t, rl.Tensor) else t
        if index.dtype is not torch.int64 or not sample.input.ndim:
            return t
        kept = index.ndim == sample.input.ndim
        found = sample.input.detach().take_along_dim(index if kept else index.unsqueeze(dim), dim)
        return thing(found) if isinstance(t, rl.Tensor) else found

    parts = leaves(result)
    if len(parts) == 1 and parts[0].ndim != sample.input.ndim:
        return result       # the median of all elements: a value, with no position to go with it
    return [part if k + 1 < len(parts) else element(part) for k, part in enumerate(parts)]


def _guarded(call: Callable, where: str) -> Any:
    try:
        return call()
    except Missing:
        raise
    except Exception as error:   # noqa: BLE001  any failure is the finding
        raise Different(f"{where}: {type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def _pair(record: Any, form: Callable | None = None) -> Pair:
    return Pair(form or record.op, not UNDEFINED.match(record.name), TIES.get(record.name))


def _slack(record: Any) -> float:
    """Decompositions and long sums lose digits in both libraries."""
    return 30.0 if record.name.startswith(("linalg.", "fft.", "svd", "pca", "lu", "chol", "pinv", "matrix_exp")) else 1.0


def main_dtype(record: Any) -> torch.dtype:
    if torch.float32 in record.dtypes:
        return torch.float32
    if not record.dtypes:
        raise NotApplicable("not on the CPU")
    return sorted(record.dtypes, key=str)[0]


def forward(record: Any) -> None:
    pair = _pair(record)
    checked = [pair.check(s, describe(s), _slack(record)) for s in samples(record, main_dtype(record), "forward")]
    if not any(checked):
        raise NotApplicable("no sample runs on the CPU")


def noncontiguous(record: Any) -> None:
    pair = _pair(record)
    dtype = main_dtype(record)
    seen = False
    for sample in samples(record, dtype, "noncontiguous"):
        try:
            gapped = sample.noncontiguous()
        except Exception:   # noqa: BLE001  PyTorch's helper cannot space these inputs out
            continue
        seen |= pair.check(gapped, describe(sample), _slack(record))
    if not seen:
        raise NotApplicable("no sample can be spaced out")


def dtypes(record: Any) -> None:
    """Every dtype; all the failing ones are named."""
    pair = _pair(record)
    failed: dict[str, str] = {}
    seen = False
    for dtype in sorted(record.dtypes - {main_dtype(record)}, key=str):   # that one is `forward`'s
        try:
            for sample in samples(record, dtype, "dtypes"):
                seen |= pair.check(sample, describe(sample), _slack(record))
        except Different as error:
            failed[str(dtype).removeprefix("torch.")] = str(error)
    if not seen and not failed:
        raise NotApplicable("no sample runs on the CPU")
    if failed:
        raise Different("; ".join(f"[{name}] {reason}" for name, reason in failed.items()))


def _weights(outs: list[Any]) -> list[torch.Tensor]:
    """Fixed, uneven output gradients, so that no term can hide."""
    made = []
    for out in outs:
        ramp = torch.linspace(0.5, 1.5, max(out.numel(), 1), dtype=torch.float64)[: out.numel()].reshape(out.shape)
        made.append(ramp.to(out.dtype))
    return made


def _differentiable(outs: Any, tensor: type) -> list[Any]:
    return [out for out in leaves(outs) if isinstance(out, tensor) and out.requires_grad]


def _gradients(sample: Any, pair: Pair, order: int) -> tuple[list[Any], list[Any]] | None:
    """(PyTorch's, ours) of the sample, or None where PyTorch has none."""
    memo: dict[int, Any] = {}
    given = thing((sample.input, list(sample.args), dict(sample.kwargs)), memo)
    want, refused = pair.oracle(sample)
    outs = [] if refused else _differentiable(want, torch.Tensor)
    inputs = [t for t in leaves((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outs or not inputs:
        return None
    weights = _weights(outs)
    if order > 1:   # linear ops have a graph of gradients through these alone
        weights = [w.requires_grad_() for w in weights]
    try:
        wanted = torch.autograd.grad(outs, inputs, weights, allow_unused=True, create_graph=order > 1)
        if order > 1:
            firsts = _differentiable(wanted, torch.Tensor)
            if not firsts:
                return None
            heads = _weights(firsts)
            wanted = torch.autograd.grad(firsts, [*inputs, *weights], heads, allow_unused=True)
    except RuntimeError:
        return None
    got = thing(sample.output_process_fn_grad)(seeded(pair.ours, given[0], *given[1], **given[2]))
    ours = _differentiable(got, rl.Tensor)
    if len(ours) != len(outs):
        raise Different(f"{len(outs)} results with a gradient wanted, got {len(ours)}")
    mine = [memo[id(t)] for t in inputs]
    given = thing(weights)
    found = rl.autograd.grad(ours, mine, given, allow_unused=True, create_graph=order > 1)
    if order > 1:
        firsts = _differentiable(found, rl.Tensor)
        if len(firsts) != len(heads):
            raise Different(f"{len(heads)} first gradients with a graph wanted, got {len(firsts)}")
        found = rl.autograd.grad(firsts, [*mine, *given], thing(heads), allow_unused=True)
    return list(wanted), list(found)


def _compare_gradients(record: Any, check: str, order: int) -> None:
    if not record.supports_autograd or torch.float64 not in record.dtypes:
        raise NotApplicable("PyTorch has no gradient")
    pair = Pair(record.op)
    seen = 0
    for sample in samples(record, torch.float64, check, requires_grad=True):
        both = _guarded(lambda: _gradients(sample, pair, order), describe(sample))  # noqa: B023  called at once
        if both is None:
            continue
        seen += 1
        for index, (want, got) in enumerate(zip(*both, strict=True)):
            where = f"{describe(sample)}: gradient {index}"
            if want is None or got is None:
                zero = got if want is None else want
                if zero is not None and bool((zero.detach() != 0).any()):
                    raise Different(f"{where}: {'none' if want is None else 'some'} wanted")
                continue
            compare(want, got, where, slack=100 * _slack(record))
    if not seen:
        raise NotApplicable("no sample has a gradient")


def gradient(record: Any) -> None:
    _compare_gradients(record, "gradient", 1)


def second(record: Any) -> None:
    if not record.supports_gradgrad:
        raise NotApplicable("PyTorch has no second gradient")
    _compare_gradients(record, "second", 2)


def variants(record: Any) -> None:
    dtype = main_dtype(record)
    chosen = samples(record, dtype, "variants")
    forms = {"method": record.get_method(), "in-place": record.get_inplace(), "operator": record.operator_variant}
    seen = False
    for name, form in forms.items():
        if form is None or not callable(form):
            continue
        seen = True
        pair = _pair(record, form)
        for sample in chosen:
            if name == "in-place" and sample.broadcasts_input:
                continue
            pair.check(_copied(sample), f"{name}: {describe(sample)}", _slack(record))
    if record.supports_out:
        seen = True
        for sample in chosen:
            _out(record, sample)
    if not seen:
        raise NotApplicable("a function only")


def _copied(sample: Any) -> Any:
    """A sample whose input may be changed."""
    return sample.transform(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t)


def _out(record: Any, sample: Any) -> None:
    """`out=` of the right shape, and of none: both must hold the result and be what is returned."""
    where = f"out=: {describe(sample)}"
    pair = _pair(record)
    want, refused = Pair.oracle(pair, sample)
    plain = None if refused else seeded(record.op, sample.input, *sample.args, **sample.kwargs)
    if plain is None or not all(isinstance(part, torch.Tensor) for part in leaves(plain)):
        return
    if isinstance(plain, (tuple, list)) and not all(isinstance(part, torch.Tensor) for part in plain):
        return   # histogramdd: a nested `out`, which PyTorch's own parser refuses too
    if any(part.layout is not torch.strided for part in leaves(plain)):
        return   # an empty sparse `out` cannot be resized; tests/sparse has the others
    for resize in (False, True):
        outs = [rl.empty((0,) if resize else tuple(w.shape), dtype=thing(w.dtype)) for w in leaves(plain)]
        out = outs[0] if isinstance(plain, torch.Tensor) else type(plain)(outs) if type(plain) in (list, tuple) else tuple(outs)
        got, _ = _guarded(lambda: pair.run(sample, {"out": out}), where)  # noqa: B023  called at once
        raw = outs[0] if isinstance(plain, torch.Tensor) else outs
        compare(want, thing(sample.output_process_fn_grad)(raw if not isinstance(raw, list) else tuple(raw)), where, pair.values, _slack(record))
        del got


def meta(record: Any) -> None:
    """Shapes without data: the same call on the `meta` device."""
    pair = Pair(record.op)
    seen = False
    for sample in samples(record, main_dtype(record), "meta"):
        memo: dict[int, Any] = {}
        given = thing((sample.input, list(sample.args), dict(sample.kwargs)), memo)
        bare = _to_meta(thing((sample.input, list(sample.args), dict(sample.kwargs)), {}))
        if not any(isinstance(t, rl.Tensor) for t in leaves(bare)):
            continue
        if pair.oracle(_copied(sample))[1]:
            continue
        want = _guarded(lambda: seeded(pair.ours, given[0], *given[1], **given[2]), describe(sample))  # noqa: B023
        try:
            got = seeded(pair.ours, bare[0], *bare[1], **bare[2])
        except Exception as error:   # noqa: BLE001  any failure is the finding, unless the elements decide the shape
            if "meta" in str(error) and _decided_by_elements(pair, sample):
                continue
            raise Different(f"{describe(sample)}: {type(error).__name__}: {str(error)[:200]}") from error
        seen = True
        for w, g in zip(leaves(want), leaves(got), strict=True):
            if isinstance(w, rl.Tensor) and _form(w) != _form(g):
                raise Different(f"{describe(sample)}: {_form(w)} with data, {_form(g)} without")
    if not seen:
        raise NotApplicable("no tensor arguments")


def _decided_by_elements(pair: Pair, sample: Any) -> bool:
    """Whether PyTorch refuses the same call without data."""
    bare = sample.transform(lambda t: t.detach().to("meta") if isinstance(t, torch.Tensor) else t)
    return pair.oracle(bare)[1]


def _form(t: Any) -> tuple:
    """What a tensor without data has in common with one that has some."""
    return tuple(t.shape), t.dtype, t.stride() if t.layout is rl.strided else t.layout


def _to_meta(x: Any) -> Any:
    if isinstance(x, rl.Tensor):
        if x.layout is not rl.strided or not x.ndim:
            return x.detach().to("meta")
        whole = rl.empty(x.untyped_storage().nbytes() // x.element_size(), dtype=x.dtype, device="meta")
        return whole.as_strided(x.shape, x.stride(), x.storage_offset())
    if type(x) in (list, tuple):
        return type(x)(_to_meta(item) for item in x)
    if isinstance(x, dict):
        return {key: _to_meta(item) for key, item in x.items()}
    return x


def errors(record: Any) -> None:
    if record.error_inputs_func is None:
        raise NotApplicable("no error inputs")
    pair = Pair(record.op)
    if all(pair.oracle(s)[1] for s in samples(record, main_dtype(record), "meta")):
        raise NotApplicable("no sample runs on the CPU")
    failed = []
    torch.manual_seed(5)
    for given in record.error_inputs("cpu"):
        sample = given.sample_input
        arguments = _attempt(lambda: thing((sample.input, list(sample.args), dict(sample.kwargs)), {}))  # noqa: B023  called at once
        wanted = _attempt(lambda: seeded(record.op, sample.input, *sample.args, **sample.kwargs))  # noqa: B023
        if not isinstance(wanted, Exception):
            continue            # PyTorch accepts it here
        try:
            if isinstance(arguments, Exception):
                raise arguments
            seeded(pair.ours, arguments[0], *arguments[1], **arguments[2])
        except Exception as error:   # noqa: BLE001
            problem = _mismatch(wanted, error)
        else:
            problem = "no error"
        if problem:
            failed.append(f"{describe(sample)}: {problem}; PyTorch: {type(wanted).__name__}: {str(wanted)[:120]}")
    if failed:
        raise Different(" | ".join(failed))


def _attempt(call: Callable) -> Any:
    """The result, or the exception as a value."""
    try:
        return call()
    except Missing:
        raise
    except Exception as error:   # noqa: BLE001  its class is what is compared
        return error


def _mismatch(wanted: Exception, found: Exception) -> str:
    """What is wrong with our exception: another class, or a message that shares no word or number with PyTorch's."""
    classes = {kind.__name__ for kind in type(found).__mro__}
    if type(wanted).__name__ not in classes:
        return f"{type(found).__name__}: {str(found)[:120]}"

    def words(text: str) -> set[str]:
        return {w.lower().rstrip("s") for w in re.findall(r"[A-Za-z]{4,}|\d+", text)} - {"expected", "tensor", "input", "with", "that", "must"}

    if str(found) and (not words(str(wanted)) or words(str(wanted)) & words(str(found))):
        return ""
    return f"message about something else: {str(found)[:120]}"


CHECKS: dict[str, Callable[[Any], None]] = {
    "forward": forward, "gradient": gradient, "second": second, "variants": variants, "noncontiguous": noncontiguous,
    "dtypes": dtypes, "meta": meta, "errors": errors,
}

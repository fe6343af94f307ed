"""The checks one op record goes through. Each raises with a reason, or returns.

Enters: an `OpInfo` of PyTorch. Every check makes the record's samples, runs PyTorch and Rushlight on the same elements
from the same seed, and compares what compare.py says. Whatever PyTorch did to the arguments is compared too: those it
wrote into hold the same elements here, those it left alone are untouched to the bit, a result that is one of the
arguments is that very object, and one that shares memory with an argument does so here.
A sample PyTorch itself refuses is passed over.

    forward          float32 (else the first dtype the record lists)
    gradient         float64, every input that requires one
    second           gradients of gradients, float64
    variants         method, in-place, operator and out= forms
    noncontiguous    inputs with gaps between their elements
    dtypes           every other dtype the record lists for the CPU
    strides          where PyTorch puts the elements of its results
    meta             shape, dtype and strides without data equal those with data
    errors           the exception class of `error_inputs`, and a message that names the same specifics
                     (`same_complaint`)
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import torch

import rushlight as rl
from tests.parity.compare import (
    ILL_CONDITIONED,
    Different,
    bits,
    compare,
    compare_strides,
    compare_unchanged,
    dense,
    kind_of,
    leaves,
)
from tests.parity.convert import Missing, back, function, thing
from tests.parity.records import seed_cpu

SAMPLES = {
    "forward": 12,
    "gradient": 6,
    "second": 2,
    "variants": 4,
    "noncontiguous": 4,
    "dtypes": 1,
    "strides": 6,
    "meta": 3,
}
# Which of several equal elements is named is not promised (and differs between PyTorch's own devices):
# the element counts.
# name: the place of `dim`
TIES = {"sort": 0, "argsort": 0, "median": 0, "nanmedian": 0, "mode": 0, "topk": 1, "kthvalue": 1}
# Several uses of an element are added up in its gradient, so even an op that only moves elements has sums there; and a
# second gradient is a sum of terms that may cancel, whatever the op.
GRADIENT_KIND = {1: {"moved": "accumulated"}, 2: {"moved": "accumulated", "pointwise": "accumulated"}}
GRADIENT_SLACK = 100.0
UNDEFINED = re.compile(r"^(new_)?empty(_like|_strided|_permuted)?$|^resize_(as_)?$")  # elements nobody promised


class NotApplicable(Exception):
    """The record has nothing this check could look at."""


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
    seed_cpu(11)
    rl.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fn(*args, **kwargs)


def samples(record: Any, dtype: torch.dtype, check: str, requires_grad: bool = False) -> list[Any]:
    seed_cpu(5)
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


class Pair:
    """One function of both libraries, and how to run a sample on each."""

    def __init__(
        self, fn: Callable, kind: str = "accumulated", values: bool = True, ties: int | None = None, slack: float = 1.0
    ) -> None:
        self.theirs, self.kind, self.values, self.ties, self.slack = fn, kind, values, ties, slack

    @cached_property
    def ours(self) -> Callable:
        """Rushlight's counterpart, looked for once PyTorch has shown that it runs here at all."""
        return function(self.theirs)

    def oracle(self, sample: Any, **extra: Any) -> tuple[Any, bool]:
        """PyTorch's result as it is, and whether it refused the sample."""
        try:
            result = seeded(self.theirs, sample.input, *sample.args, **sample.kwargs, **extra)
        except Exception:   # noqa: BLE001  whatever PyTorch refuses here is not this check's business
            return None, True
        return result, result is NotImplemented

    def check(self, sample: Any, where: str, right: Any = None, **outs: Any) -> bool:
        """Compare on one sample, with `out=` if given; False where PyTorch refused it,
        or wrote something else than `right` into its out."""
        arguments = Arguments(sample, outs)
        result, refused = self.oracle(sample, **outs)
        if refused or (outs and self.values and not _agree(leaves(outs), leaves(right))):
            return False
        first, args, kwargs = arguments.ours
        found = _guarded(lambda: seeded(self.ours, first, *args, **kwargs), where)
        arguments.check_identity(result, found, where)
        want, got = (
            fn(x)
            for fn, x in zip((sample.output_process_fn_grad, thing(sample.output_process_fn_grad)), (result, found))
        )
        if self.ties is not None:
            want, got = (_pointed_at(x, sample, self.ties) for x in (want, got))
        compare(want, got, where, self.kind, self.values, self.slack)
        if self.values:
            arguments.check_contents(result, where, self.kind, self.ties is None, self.slack)
        return True


def _agree(outs: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    """Whether PyTorch's out= form did what its plain form does; some ignore the strides of what they are given."""
    def close(out: torch.Tensor, w: torch.Tensor) -> bool:
        if out.dtype.itemsize == 1 and out.dtype.is_floating_point:
            out, w = out.float(), w.float()
        return out.shape == w.shape and torch.allclose(out.detach(), w.detach(), rtol=1e-3, equal_nan=True)

    return all(map(close, outs, right))


class Arguments:
    """A sample's arguments in both libraries, and what PyTorch did to its own. To be made before the call."""

    def __init__(self, sample: Any, extra: dict[str, Any]) -> None:
        everything = (sample.input, list(sample.args), {**sample.kwargs, **extra})
        self.memo: dict[Any, Any] = {}
        self.ours = thing(everything, self.memo)
        # beside the elements of an `out=` with gaps
        gaps = [out._base[..., 0] for out in leaves(extra) if out._base is not None]
        thing(gaps, self.memo)
        found = {
            id(t): t for t in (*leaves(everything), *gaps) if isinstance(t, torch.Tensor) and t.device.type == "cpu"
        }
        self.tensors = [t for t in found.values() if id(t) in self.memo]
        self.before = [dense(t).clone() for t in self.tensors]

    def check_identity(self, result: Any, found: Any, where: str) -> None:
        """Results that are arguments, or share memory with one, in PyTorch: the same ones here, and no others."""
        results, founds = leaves(result), leaves(found)
        if len(results) != len(founds):
            raise Different(f"{where}: {len(results)} results wanted, got {len(founds)}")
        for number, (theirs, ours) in enumerate(zip(results, founds)):
            if not isinstance(theirs, torch.Tensor) or not isinstance(ours, rl.Tensor):
                continue
            for t in self.tensors:
                mine = self.memo[id(t)]
                if (theirs is t) != (ours is mine):
                    raise Different(
                        f"{where}: result {number} {'is' if theirs is t else 'is not'} the argument in PyTorch, not so"
                        " here"
                    )
                if _shares(theirs, t) != _shares(ours, mine):
                    raise Different(
                        f"{where}: result {number} {'shares' if _shares(theirs, t) else 'does not share'} an argument's"
                        " memory in PyTorch, not so here"
                    )

    def check_contents(self, result: Any, where: str, kind: str, values: bool, slack: float) -> None:
        """What PyTorch wrote into is written here, what it left alone is untouched.
        Arguments that are results were compared as such."""
        results = {id(part) for part in leaves(result)}
        for t, before in zip(self.tensors, self.before):
            if id(t) in results:
                continue
            after = dense(t)
            untouched = after.shape == before.shape and torch.equal(bits(after), bits(before))
            if untouched:
                compare_unchanged(before, self.memo[id(t)], f"{where}: an argument of shape {tuple(before.shape)}")
            else:
                compare(t, self.memo[id(t)], f"{where}: the argument written into", kind, values, slack)


def _shares(a: Any, b: Any) -> bool:
    """Whether two tensors have elements in the same memory."""
    strided = torch.strided if isinstance(a, torch.Tensor) else rl.strided
    if a.layout is not strided or b.layout is not strided or not a.numel() or not b.numel():
        return False
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _pointed_at(result: Any, sample: Any, place: int) -> Any:
    """The result of an op that tells positions, with each position replaced by the element there."""
    dim = next(
        (
            d
            for d in (sample.kwargs.get("dim"), *sample.args[place : place + 1])
            if type(d) is int and sample.input.ndim
        ),
        -1,
    )

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
    return Pair(
        form or record.op,
        kind_of(record),
        not UNDEFINED.match(record.name),
        TIES.get(record.name),
        ILL_CONDITIONED.get(record.name, 1.0),
    )


def main_dtype(record: Any) -> torch.dtype:
    if torch.float32 in record.dtypes:
        return torch.float32
    if not record.dtypes:
        raise NotApplicable("not on the CPU")
    return sorted(record.dtypes, key=str)[0]


def forward(record: Any) -> None:
    pair = _pair(record)
    checked = [pair.check(s, describe(s)) for s in samples(record, main_dtype(record), "forward")]
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
        seen |= pair.check(gapped, describe(sample))
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
                seen |= pair.check(sample, describe(sample))
        except Different as error:
            failed[str(dtype).removeprefix("torch.")] = str(error)
    if not seen and not failed:
        raise NotApplicable("no sample runs on the CPU")
    if failed:
        error = Different("; ".join(f"[{name}] {reason}" for name, reason in failed.items()))
        error.failed = failed
        raise error


def _weights(outs: list[Any]) -> list[torch.Tensor]:
    """Fixed, uneven output gradients, so that no term can hide."""
    result = []
    for out in outs:
        ramp = torch.linspace(0.5, 1.5, max(out.numel(), 1), dtype=torch.float64)[: out.numel()].reshape(out.shape)
        result.append(ramp.to(out.dtype))
    return result


def _differentiable(outs: Any, tensor: type) -> list[Any]:
    return [out for out in leaves(outs) if isinstance(out, tensor) and out.requires_grad]


def _gradients(sample: Any, pair: Pair, order: int) -> tuple[list[Any], list[Any]] | None:
    """(PyTorch's, ours) of the sample, or None where PyTorch has none."""
    memo: dict[int, Any] = {}
    given = thing((sample.input, list(sample.args), dict(sample.kwargs)), memo)
    result, refused = pair.oracle(sample)
    outs = [] if refused else _differentiable(sample.output_process_fn_grad(result), torch.Tensor)
    inputs = [
        t for t in leaves((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad
    ]
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
    pair = _pair(record)
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
            compare(want, got, where, GRADIENT_KIND[order].get(pair.kind, pair.kind), slack=GRADIENT_SLACK * pair.slack)
    if not seen:
        raise NotApplicable("no sample has a gradient")


def gradient(record: Any) -> None:
    _compare_gradients(record, "gradient", 1)


def second(record: Any) -> None:
    if not record.supports_gradgrad:
        raise NotApplicable("PyTorch has no second gradient")
    _compare_gradients(record, "second", 2)


def variants(record: Any) -> None:
    chosen = samples(record, main_dtype(record), "variants")
    seen = False
    for name, form in forms(record).items():
        pair = _pair(record, form)
        for sample in chosen:
            if name.startswith("in-place") and sample.broadcasts_input:
                continue
            seen |= pair.check(_copied(sample), f"{name}: {describe(sample)}")
    if record.supports_out:
        for sample in chosen:
            seen |= _out(record, sample)
    if not seen:
        raise NotApplicable("no form takes a sample")


def forms(record: Any) -> dict[str, Callable]:
    """The other ways to call a record's function, `out=` aside."""
    named = {"method": record.get_method(), "in-place": record.get_inplace(), "operator": record.operator_variant,
             "in-place operator": record.inplace_operator_variant}
    return {name: form for name, form in named.items() if callable(form)}


def _copied(sample: Any) -> Any:
    """A sample whose input may be changed."""
    return sample.transform(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t)


def _out(record: Any, sample: Any) -> bool:
    """`out=` of the right shape, of none, and with gaps that must stay as they are. It must hold the result,
    and be returned as PyTorch returns it."""
    pair = _pair(record)
    plain, refused = pair.oracle(_copied(sample))
    if refused or not _takes_plain_outs(plain):
        return False
    seen = False
    for how, make in OUTS.items():
        outs = [make(w) for w in leaves(plain)]
        out = (
            outs[0]
            if isinstance(plain, torch.Tensor)
            else type(plain)(outs) if type(plain) in (list, tuple) else tuple(outs)
        )
        seen |= pair.check(_copied(sample), f"out= {how}: {describe(sample)}", plain, out=out)
    return seen


def _takes_plain_outs(result: Any) -> bool:
    """Whether `out=` can be one strided tensor, or a flat sequence of them."""
    # histogramdd: nested, which PyTorch's own parser refuses too
    parts = list(result) if isinstance(result, (tuple, list)) else [result]
    # An empty sparse `out` cannot be resized; tests/sparse has the others.
    return all(isinstance(part, torch.Tensor) and part.layout is torch.strided for part in parts)


def _spaced(w: torch.Tensor) -> torch.Tensor:
    return torch.ones((*w.shape, 2), dtype=torch.float32).to(w.dtype)[..., 1]


OUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "of the right shape": lambda w: torch.ones(w.shape, dtype=torch.float32).to(w.dtype),
    "to be resized": lambda w: torch.empty(0, dtype=w.dtype),
    "with gaps": _spaced,
}


def strides(record: Any) -> None:
    """The same places in memory, for contiguous inputs and for those with gaps."""
    pair = _pair(record)
    seen = False
    for sample in samples(record, main_dtype(record), "strides"):
        for given in (_copied(sample), _attempt(sample.noncontiguous)):
            if isinstance(given, Exception):
                continue   # PyTorch's helper cannot space these inputs out
            first, args, kwargs = thing((given.input, list(given.args), dict(given.kwargs)), {})
            want, refused = pair.oracle(given)
            if not refused:
                called = functools.partial(seeded, pair.ours, first, *args, **kwargs)
                got = _guarded(called, describe(sample))
                compare_strides(want, got, describe(given))
                seen = True
    if not seen:
        raise NotApplicable("no sample runs on the CPU")


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
    seed_cpu(5)
    for given in record.error_inputs("cpu"):
        sample = given.sample_input
        # Both are called at once.
        arguments = _attempt(lambda: thing((sample.input, list(sample.args), dict(sample.kwargs)), {}))  # noqa: B023
        wanted = _attempt(lambda: seeded(record.op, sample.input, *sample.args, **sample.kwargs))  # noqa: B023
        if not isinstance(wanted, Exception):
            continue            # PyTorch accepts it here
        try:
            if isinstance(arguments, Exception):
                raise arguments
            seeded(pair.ours, arguments[0], *arguments[1], **arguments[2])
        except Exception as error:   # noqa: BLE001
            problem = same_complaint(wanted, error)
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


def same_complaint(wanted: Exception, found: Exception) -> str:
    """What is wrong with our exception, or nothing.

    It must be of PyTorch's class. Its message must share the specifics of PyTorch's: what PyTorch's names of numbers,
    shapes, dtypes and identifiers (`dim`, `out`, `num_classes`), at least one of them, or else three plain words; a
    message without specifics shares two of its plain words, or its only one.
    """
    if type(wanted).__name__ not in {kind.__name__ for kind in type(found).__mro__}:
        return f"{type(found).__name__}: {str(found)[:120]}"
    # behind that PyTorch lists every signature it has
    theirs, ours = str(wanted).partition("but expected one of")[0], str(found)
    specific = specifics(theirs)
    if specific:
        shared = specific & (specifics(ours) | {w.lower() for w in re.findall(r"\w+", ours)})
        return (
            ""
            if shared or len(plain_words(theirs) & plain_words(ours)) >= 3
            else f"none of {sorted(specific)[:6]} in: {ours[:120]}"
        )
    words = plain_words(theirs)
    if len(words & plain_words(ours)) >= min(2, len(words)):
        return ""
    return f"message about something else: {ours[:120]}"


def specifics(message: str) -> set[str]:
    """Numbers, dtypes, types and identifiers of a message."""
    for theirs, ours in CPP_WORDS.items():
        message = message.replace(theirs, ours)
    words = r"\b(dim|out|dtype|size|index|shape|stride|step|padding|weight|mask)s?\b"
    named = re.findall(rf"['\"`](\w+)['\"`]|\b([a-z]+_\w+)\b|\b(\w+)=|{words}", message)
    return (
        {w.lower() for found in named for w in found if w}
        | set(re.findall(r"\d+", message))
        | {
            DTYPE_WORDS.get(w, w).lower()
            for w in re.findall(
                r"\b(?:Float|Double|Half|Long|Int|Short|Bool|Byte|Char|(?:u?int|float|bfloat|complex)\d+)\b", message
            )
        }
        | set(re.findall(r"\b(?:int|float|str|list|tuple|NoneType)\b", message))
    )


CPP_WORDS = {
    "c10::complex<double>": "complex128",
    "c10::complex<float>": "complex64",
    "long int": "int64",
    "double": "float64",
}
DTYPE_WORDS = {"Float": "float32", "Double": "float64", "Half": "float16", "Long": "int64", "Int": "int32",
               "Short": "int16", "Byte": "uint8", "Char": "int8"}


def plain_words(message: str) -> set[str]:
    usual = {
        "expected",
        "tensor",
        "input",
        "with",
        "that",
        "must",
        "should",
        "have",
        "same",
        "from",
        "this",
        "torch",
        "rushlight",
        "argument",
    }
    return {w.lower().rstrip("s") for w in re.findall(r"[A-Za-z]{3,}", message)} - usual


CHECKS: dict[str, Callable[[Any], None]] = {
    "forward": forward, "gradient": gradient, "second": second, "variants": variants, "noncontiguous": noncontiguous,
    "dtypes": dtypes, "strides": strides, "meta": meta, "errors": errors,
}

"""Op records with arguments that show the conjugates, or the negatives, of what their memory holds.

Enters: an `OpInfo` of PyTorch. Every tensor of a sample becomes one with the bit set and the same elements: complex
ones the conjugate of their conjugate, others the negative of their negative. Results, in-place forms, `out=` (with the
bit as well) and gradients are compared as checks.py does it, and of every result and every argument whether it has a
bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import rushlight as rl
from tests.parity import checks
from tests.parity.checks import NotApplicable, Pair
from tests.parity.compare import Different, compare, leaves

DTYPES = {"conjugated": (torch.complex64, torch.complex128), "negated": (torch.float32, torch.float64)}
checks.SAMPLES["bits"] = 2


def with_bit(t: Any, requires_grad: bool = False) -> Any:
    """The same elements behind a bit."""
    if not isinstance(t, torch.Tensor) or t.layout is not torch.strided or t.device.type != "cpu":
        return t
    plain = t.detach()
    if plain.is_complex():
        plain = plain.conj_physical().conj()
    elif plain.is_floating_point():
        plain = torch._neg_view(plain.neg())
    return plain.detach().requires_grad_(requires_grad and t.requires_grad)


def same_bits(want: Any, got: Any, where: str) -> None:
    """Raise `Different` unless the results have the same bits."""
    for number, (w, g) in enumerate(zip(leaves(want), leaves(got), strict=True)):
        if not isinstance(w, torch.Tensor) or not isinstance(g, rl.Tensor) or w.layout is not torch.strided:
            continue
        if (w.is_conj(), w.is_neg()) != (g.is_conj(), g.is_neg()):
            raise Different(
                f"{where}: result {number}: is_conj, is_neg {w.is_conj()}, {w.is_neg()} wanted,"
                f" got {g.is_conj()}, {g.is_neg()}"
            )


class BitPair(Pair):
    """A pair whose results are compared for their bits too."""

    def oracle(self, sample: Any, **extra: Any) -> tuple[Any, bool]:
        self.last = super().oracle(sample, **extra)
        return self.last

    def check(self, sample: Any, where: str, right: Any = None, **outs: Any) -> bool:
        call, found = self.ours, []

        def remembered(*args: Any, **kwargs: Any) -> Any:
            found.append(call(*args, **kwargs))
            return found[-1]

        self.__dict__["ours"] = remembered
        try:
            seen = super().check(sample, where, right, **outs)
        finally:
            self.__dict__["ours"] = call
        if seen:
            same_bits(self.last[0], found[0], where)
        return seen


def _pair(record: Any, form: Callable | None = None) -> BitPair:
    plain = checks._pair(record, form)
    return BitPair(plain.theirs, plain.kind, plain.values, plain.ties, plain.slack)


def _samples(record: Any, which: str, requires_grad: bool = False) -> list[Any]:
    dtype = DTYPES[which][requires_grad]
    if dtype not in (record.dtypes if not requires_grad else record.dtypes & torch_gradients(record)):
        raise NotApplicable(f"no {dtype}")
    return checks.samples(record, dtype, "bits", requires_grad)


def torch_gradients(record: Any) -> set[torch.dtype]:
    """The dtypes that PyTorch differentiates an op for."""
    return set(record.supported_backward_dtypes("cpu")) if record.supports_autograd else set()


def forward(record: Any, which: str) -> None:
    """Results of the plain form."""
    pair = _pair(record)
    checked = [pair.check(s.transform(with_bit), checks.describe(s)) for s in _samples(record, which)]
    if not any(checked):
        raise NotApplicable("no sample runs")


def written(record: Any, which: str) -> None:
    """In-place forms and `out=`, through the bit."""
    form, seen = record.get_inplace(), False
    for sample in _samples(record, which):
        if callable(form) and not sample.broadcasts_input:
            seen |= _pair(record, form).check(sample.transform(with_bit), f"in place: {checks.describe(sample)}")
        if record.supports_out:
            seen |= _out(record, sample.transform(with_bit))
    if not seen:
        raise NotApplicable("no form takes a sample")


def _out(record: Any, sample: Any) -> bool:
    pair = _pair(record)
    plain, refused = pair.oracle(checks._copied(sample))
    if refused or not checks._takes_plain_outs(plain):
        return False
    outs = [with_bit(torch.ones(w.shape, dtype=torch.float32).to(w.dtype)) for w in leaves(plain)]
    out = outs[0] if isinstance(plain, torch.Tensor) else tuple(outs)
    return pair.check(sample, f"out=: {checks.describe(sample)}", plain, out=out)


def gradient(record: Any, which: str) -> None:
    """Gradients for arguments with bits."""
    pair = _pair(record)
    seen = False
    for sample in _samples(record, which, True)[:1]:
        given = sample.transform(lambda t: with_bit(t, True))
        both = checks._guarded(lambda: checks._gradients(given, pair, 1), checks.describe(sample))  # noqa: B023
        if both is None:
            continue
        seen = True
        for index, (want, got) in enumerate(zip(*both, strict=True)):
            where = f"{checks.describe(sample)}: gradient {index}"
            if want is None or got is None:
                continue
            kind = checks.GRADIENT_KIND[1].get(pair.kind, pair.kind)
            compare(want, got, where, kind, slack=checks.GRADIENT_SLACK * pair.slack)
    if not seen:
        raise NotApplicable("no sample has a gradient")


BIT_CHECKS = {"forward": forward, "written": written, "gradient": gradient}

_CANCELS = "digits that cancel, without the bit as well"
_FLAG = "PyTorch leaves the conjugation of this result to whoever reads it; the elements are the same"
_IGNORED = "PyTorch's kernel reads or writes the memory and ignores the bit; ours are the elements that are shown"
_CUDA = "a kernel that PyTorch compiles for GPUs"
# record -> why it differs; of records that differ without bits too, tests/parity/left_out.py has more
DIFFERENT = {
    "dot": _FLAG, "matmul": _FLAG, "__rmatmul__": _FLAG, "inner": _FLAG, "fft.ifft": _FLAG, "linalg.lu_solve": _FLAG,
    "repeat_interleave": _FLAG,
    "native_batch_norm": _IGNORED, "nn.functional.batch_norm": _IGNORED, "nn.functional.max_pool1d": _IGNORED,
    "histogramdd": "the edges that come back are copies where they had the bit",
    "jiterator_unary": _CUDA, "jiterator_binary": _CUDA, "jiterator_4inputs_with_extra_args": _CUDA,
    "jiterator_binary_return_by_ref": _CUDA, "jiterator_2inputs_2outputs": _CUDA,
    "tan": _CANCELS, "tanh": _CANCELS, "nn.functional.hardsigmoid": _CANCELS, "special.ndtr": _CANCELS,
    "cholesky": "the gradient of the other triangle, without the bit as well",
    "linalg.cholesky": "the gradient of the other triangle, without the bit as well",
    "linalg.cholesky_ex": "the gradient of the other triangle, without the bit as well",
    "as_strided_scatter": "see left_out.py", "nn.functional.rms_norm": "complex gradients, without the bit as well",
    "logcumsumexp": "complex gradients, without the bit as well",
}

"""PyTorch's op records as ONNX models: `python -m tests.onnx.record_outcomes [NAMES]` says what becomes of each.

Enters: a record. Leaves: its outcome: `right` (for all of three samples ONNX Runtime gives what eager mode gives),
`random`, `empty` (a sample without elements on which the runtime stops), `refused: why`, or `wrong: what`, which none
may be. Every tensor of a sample is an input of the model.
"""

from __future__ import annotations

import collections
import re
import sys
import time
import warnings
from typing import Any

import rushlight as rl
from rushlight.onnx.errors import OnnxExporterError
from rushlight.utils import _pytree as pytree
from tests.export.models import Call
from tests.parity.checks import UNDEFINED, _pair, describe, main_dtype, seed_cpu, seeded, spread
from tests.parity.convert import thing
from tests.parity.records import RECORDS, namespace

ELSEWHERE = ("linalg", "fft", "special", "sparse", "signal", "masked", "ops")
# Not those that need a GPU.
COUNTED = [name for name, record in RECORDS.items() if namespace(record).split(".")[0] not in ELSEWHERE
           and not name.startswith("jiterator") and name != "nn.functional.batch_norm.without_cudnn"]
SAMPLES = 3
SIGNLESS = ("svd", "linalg.svd", "linalg.eigh", "svd_lowrank", "pca_lowrank")      # vectors that may point either way
# They draw numbers: the runtime draws others.
RANDOM = re.compile(
    r"^(bernoulli|cauchy|exponential|geometric|log_normal|multinomial|normal(\.\w+)?|rand\w*(_like)?|uniform|"
    r"nn\.functional\.(alpha_dropout|dropout[23]?d?|dropout|feature_alpha_dropout\.with_train|"
    r"fractional_max_pool[23]d|rrelu|multi_head_attention_forward|scaled_dot_product_attention)|svd_lowrank|pca_lowrank)$")



class _Free:
    """A function of the tensors of a sample alone."""

    def __init__(self, function: Any, leaves: list[Any], spec: Any) -> None:
        self.function, self.spec = function, spec
        self.fixed = [None if isinstance(x, rl.Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, rl.Tensor)]

    def __call__(self, *tensors: Any) -> Any:
        leaves = list(self.fixed)
        for i, t in zip(self.places, tensors, strict=True):
            leaves[i] = t
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(first, *args, **kwargs)


def samples(name: str, number: int = SAMPLES) -> list[Any]:
    """Samples of a record, with PyTorch's tensors."""
    seed_cpu(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return spread(RECORDS[name].sample_inputs("cpu", main_dtype(RECORDS[name])), number)


def outcome(name: str, number: int = SAMPLES, **options: Any) -> str:
    """What becomes of a record."""
    function = _pair(RECORDS[name]).ours
    found = "right"
    for sample in samples(name, number):
        one = _of_sample(name, function, sample, options)
        if one != "right":
            said = f"{one} [{describe(sample)}]"
            if one.startswith("wrong"):
                return said
            found = said if found == "right" else found
    return found


def _of_sample(name: str, function: Any, sample: Any, options: dict[str, Any]) -> str:
    given = thing((sample.input, list(sample.args), dict(sample.kwargs)), {})
    leaves, spec = pytree.tree_flatten((given[0], tuple(given[1]), given[2]))
    free = _Free(function, leaves, spec)
    tensors = tuple(leaves[i] for i in free.places)
    try:
        with rl.no_grad():
            expected = [x for x in pytree.tree_leaves(seeded(free, *[t.clone() for t in tensors]))
                        if isinstance(x, rl.Tensor)]
    except Exception as error:  # noqa: BLE001 - eager mode does not have it: nothing to export
        return f"refused: eager mode: {error}".split("\n")[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = seeded(rl.onnx.export, Call(free), tensors, **options)
    except (OnnxExporterError, NotImplementedError) as error:
        return f"refused: {error}".replace("\n", " ")[:300]
    except Exception as error:  # noqa: BLE001 - whatever is not converted counts as refused, and is shown
        return f"refused: {type(error).__name__}: {error}".replace("\n", " ")[:300]
    try:
        found = program(*tensors)
    except Exception as error:  # noqa: BLE001 - the runtime's own types
        has_none = any(t.numel() == 0 for t in (*tensors, *expected))
        return f"{'empty' if has_none else 'wrong'}: the runtime says {error}".replace("\n", " ")[:400]
    if RANDOM.match(name) and not _same(found, expected, name):
        return "random" if [f.shape for f in found] == [e.shape for e in expected] else "wrong: shapes of draws"
    said = _same(found, expected, name, True)
    return "right" if not said else f"wrong: {said}"[:400]


def _same(found: list[Any], expected: list[Any], name: str, says: bool = False) -> Any:
    problem = ""
    if len(found) != len(expected):
        problem = f"{len(found)} results, not {len(expected)}"
    for a, b in zip(found, expected, strict=False):
        b = rl.view_as_real(b.resolve_conj().resolve_neg()) if b.is_complex() else b
        if UNDEFINED.match(name):
            problem = problem or ("" if (a.shape, a.dtype) == (b.shape, b.dtype) else "the shape or type")
            continue
        if b.dtype.is_floating_point and b.dtype.itemsize == 1:
            a, b = a.float(), b.float()
        if name in SIGNLESS:
            a, b = a.abs(), b.abs()
        try:
            size = float(b.abs().nan_to_num(0, 0, 0).max()) if b.is_floating_point() and b.numel() else 1.0
            rl.testing.assert_close(a, b, equal_nan=True, check_stride=False, rtol=2e-4, atol=2e-5 * max(1.0, size))
        except (AssertionError, RuntimeError) as error:
            problem = problem or str(error).replace("\n", " ")
    return problem if says else not problem


def main(names: list[str]) -> None:
    counts: collections.Counter[str] = collections.Counter()
    for name in names or COUNTED:
        start = time.process_time()
        try:
            said = outcome(name)
        except Exception as error:  # noqa: BLE001 - a sweep goes on
            said = f"broken: {type(error).__name__}: {error}".replace("\n", " ")[:300]
        counts[said.partition(":")[0].partition(" ")[0]] += 1
        print(f"{name}\t{said}\t{time.process_time() - start:.1f}", flush=True)
    print(sum(counts.values()), dict(counts))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Tensors of different devices in one call: an error with a name, never an address that is not the kernel's.

A tensor on the meta device has no memory at all, so a call that misses the difference reads address 0 and dies.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl

F = rl.nn.functional
CALLS = {
    "nll_loss": lambda x, t: F.nll_loss(x, t),
    "cross_entropy": lambda x, t: F.cross_entropy(x, t),
    "gather": lambda x, t: x.gather(0, t.unsqueeze(1)),
    "index_select": lambda x, t: x.index_select(0, t),
    "embedding": lambda x, t: F.embedding(t, x),
    "index_add": lambda x, t: x.index_add(0, t, x),
    "layer_norm": lambda x, t: F.layer_norm(x, (8,), t.float()),
    "batch_norm": lambda x, t: F.batch_norm(x, t.float(), t.float()),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_argument_elsewhere_is_an_error(name: str) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        CALLS[name](rl.randn(8, 8), rl.zeros(8, dtype=rl.int64, device="meta"))


SWEEP = """
import sys, warnings
warnings.simplefilter("ignore")
import torch, rushlight as rl
from tests.fuzz.worker import forms, samples
from tests.parity.convert import Missing, thing

tried = 0
for name in sys.argv[1:]:
    for sample in (samples(name, torch.float32) or samples(name, torch.int64))[:2]:
        for k in range(1 + len(sample.args)):
            try:
                args, kwargs = [thing(sample.input, {}), *thing(list(sample.args), {})], thing(dict(sample.kwargs), {})
            except (Missing, RuntimeError):
                continue
            if not forms(name) or not isinstance(args[k], rl.Tensor) or args[k].layout is not rl.strided:
                continue
            args[k] = args[k].detach().to("meta")
            print(name, k, file=sys.stderr, flush=True)
            tried += 1
            try:
                forms(name)[0](*args, **kwargs)
            except Exception:
                pass
print(tried)
"""


@pytest.mark.slow
def test_every_record_with_each_argument_elsewhere_survives(share: Callable[[Any, int], list[str]]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's op records need it")
    from tests.parity.records import RECORDS  # noqa: PLC0415 - they need PyTorch

    names = share(sorted(RECORDS), 3)
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", SWEEP, *names], cwd=root, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, f"died of {done.stderr.splitlines()[-1:]}"
    assert int(done.stdout.split()[-1]) > 1.4 * len(names)


@pytest.mark.parametrize("write", [
    lambda x, v: x.add_(v), lambda x, v: x.fill_(v), lambda x, v: x.masked_fill_(rl.tensor(True), v),
    lambda x, v: x.index_fill_(0, rl.tensor(0), v), lambda x, v: x.copy_(v),
], ids=["add_", "fill_", "masked_fill_", "index_fill_", "copy_"])
def test_a_number_on_the_host_is_not_written_from_elsewhere(write) -> None:
    x = rl.ones(())
    with pytest.raises((RuntimeError, NotImplementedError)):
        write(x, rl.ones((), device="meta"))
    assert x.item() == 1

"""torchaudio with its own library: recurrences against loops, alignments and the transducer loss against sums."""

from __future__ import annotations

import sys

if sys.argv[1]:
    sys.path.insert(0, sys.argv[1])

from reporting import run_all

from rushlight import compat

compat.install()
import torch
import torchaudio
import torchaudio.functional as F


def check_filters():
    assert torchaudio._extension._IS_TORCHAUDIO_EXT_AVAILABLE
    torch.manual_seed(0)
    x, a = torch.randn(2, 50).double(), torch.tensor([1.0, -0.5, 0.2]).double()
    b = torch.tensor([0.3, 0.2, 0.1]).double()
    wanted = torch.zeros(2, 50).double()
    for n in range(50):
        wanted[:, n] = sum(b[k] * x[:, n - k] for k in range(3) if n >= k)
        wanted[:, n] -= sum(a[k] * wanted[:, n - k] for k in (1, 2) if n >= k)
    torch.testing.assert_close(F.lfilter(x, a, b, clamp=False), wanted)
    assert torch.autograd.gradcheck(lambda a: F.lfilter(x[:, :8], a, b, clamp=False), (a.requires_grad_(),))
    assert F.overdrive(x.float().clamp(-1, 1)).isfinite().all()


def check_alignment():
    torch.manual_seed(0)
    scores = torch.randn(1, 12, 4).log_softmax(-1)
    path, of_path = F.forced_align(scores, torch.tensor([[1, 2, 2]], dtype=torch.int32))
    merged = [v for k, v in enumerate(path[0].tolist()) if v and (k == 0 or path[0, k - 1] != v)]
    assert merged == [1, 2, 2]
    torch.testing.assert_close(of_path[0], scores[0].gather(1, path[0].long()[:, None])[:, 0])


def check_transducer():
    torch.manual_seed(0)
    logits = torch.randn(1, 2, 2, 3, requires_grad=True)
    loss = F.rnnt_loss(logits, torch.tensor([[1]], dtype=torch.int32), torch.tensor([2], dtype=torch.int32),
                       torch.tensor([1], dtype=torch.int32), blank=0)
    loss.backward()
    p = logits.detach().log_softmax(-1)[0]
    ways = torch.stack((p[0, 0, 1] + p[0, 1, 0] + p[1, 1, 0], p[0, 0, 0] + p[1, 0, 1] + p[1, 1, 0]))
    torch.testing.assert_close(loss.detach(), -ways.logsumexp(0))
    assert logits.grad.abs().sum() > 0


run_all(dict(globals()))

"""Losses in graphs: reductions and weights, scripted and traced."""

import pytest

import rushlight as torch
import rushlight.nn.functional as F


def _sum_hinge(a, b):
    return F.hinge_embedding_loss(a, b, reduction="sum")


def _none_bce(a, b):
    return F.binary_cross_entropy_with_logits(a, b, reduction="none")


def _sum_ranking(a, b):
    return F.margin_ranking_loss(a, b, b, reduction="sum")


def _weighted_l1(a, b):
    return F.l1_loss(a, b, weight=a.abs())


def _weighted_huber(a, b):
    return F.huber_loss(a, b, weight=a.abs())


@pytest.mark.parametrize("loss", [_sum_hinge, _none_bce, _sum_ranking, _weighted_l1, _weighted_huber])
def test_losses_reduce_and_weigh_as_eager_ones(loss) -> None:
    a, b = torch.randn(3, 4), torch.ones(3, 4)
    for compiled in (torch.jit.script(loss), torch.jit.trace(loss, (a, b))):
        torch.testing.assert_close(compiled(a, b), loss(a, b))

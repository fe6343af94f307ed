"""Losses as scripts."""

# ruff: noqa: UP007, UP045 - annotations as the language reads them
from __future__ import annotations

import math
from typing import Optional

from ..._C import Tensor
from .language import torch


def _word(reduction: str, size_average: Optional[bool], reduce: Optional[bool]) -> str:
    """The reduction that is meant: the old flags win where one is given, and the other is then True."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def _code(word: str) -> int:
    """The ops' number of a reduction."""
    if word == "sum":
        return 2
    if word == "mean" or word == "elementwise_mean":
        return 1
    if word != "none":
        raise ValueError(f"reduction: {word} is not a valid value for reduction; expected 'none', 'mean' or 'sum'")
    return 0


def _check_word(name: str, word: str) -> None:
    if word != "none" and word != "mean" and word != "sum":
        raise ValueError(f"{name}: {word} is not a valid value for reduction; expected 'none', 'mean' or 'sum'")


def _combined(losses: Tensor, word: str) -> Tensor:
    if word == "sum":
        return losses.sum()
    return losses.mean() if word == "mean" else losses


def _weighted(name: str, losses: Tensor, weight: Tensor, word: str) -> Tensor:
    """Losses times weights; their mean is by the sum of weights."""
    products = losses * weight
    _check_word(name, word)
    if word == "none":
        return products
    total = torch.sum(products)
    return total / torch.sum(weight) if word == "mean" else total


def _check_weight(name: str, weight: Tensor, input: Tensor) -> None:
    if weight.size() != input.size():
        raise ValueError(f"{name}: weight must have the input's size {input.size()}, got {weight.size()}")


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0,
             reduction: str = "mean", zero_infinity: bool = False) -> Tensor:
    code = _code(reduction)
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, code, zero_infinity)


def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None,
             ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    code = _code(_word(reduction, size_average, reduce))
    return torch.nll_loss_nd(input, target, weight, code, ignore_index)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: Optional[bool] = None, eps: float = 1e-8, reduce: Optional[bool] = None,
                     reduction: str = "mean") -> Tensor:
    word = _word(reduction, size_average, reduce)
    _check_word("poisson_nll_loss", word)
    return torch.poisson_nll_loss(input, target, log_input, full, eps, _code(word))


def _fitted_variance(input: Tensor, var: Tensor) -> Tensor:
    """A variance with a dim for every dim of the input that it is one for. Refuses other sizes, and negative ones."""
    sizes, own = input.size(), var.size()
    if own != sizes:
        if own == sizes[:-1]:
            var = torch.unsqueeze(var, -1)
        elif len(own) > 0 and len(sizes) > 0:
            is_per_row = own[-1] == 1 and own[:-1] == sizes[:-1]
            if not is_per_row and own != sizes[1:]:
                raise ValueError(f"gaussian_nll_loss: var of size {own} does not go with an input of size {sizes}")
    if bool((var < 0).any()):
        raise ValueError("gaussian_nll_loss: var must not be negative, and some elements are")
    return var


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:
    _check_word("gaussian_nll_loss", reduction)
    spread = _fitted_variance(input, var).clone()
    torch.clamp_(spread.detach(), min=eps)
    losses = 0.5 * (torch.log(spread) + (input - target) ** 2 / spread)
    if full:
        losses += 0.5 * math.log(2 * math.pi)
    return _combined(losses, reduction)


def kl_div(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
           reduction: str = "mean", log_target: bool = False) -> Tensor:
    by_batch = reduction == "batchmean"
    code = _code(_word("sum" if by_batch else reduction, size_average, reduce))
    reduced = torch.kl_div(input, target, code, log_target=log_target)
    return reduced / input.size(0) if by_batch and input.dim() != 0 else reduced


def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None,
                  ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    code = _code(_word(reduction, size_average, reduce))
    return torch.cross_entropy_loss(input, target, weight, code, ignore_index, label_smoothing)


def _check_target(name: str, target: Tensor, input: Tensor) -> None:
    if target.size() != input.size():
        raise ValueError(f"{name}: target must have the input's size {input.size()}, got {target.size()}")


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
                         size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                         reduction: str = "mean") -> Tensor:
    code = _code(_word(reduction, size_average, reduce))
    _check_target("binary_cross_entropy", target, input)
    if weight is not None:
        weight = weight.expand(target.size() if weight.dim() <= target.dim() else weight.size())
    return torch.binary_cross_entropy(input, target, weight, code)


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
                                     size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                                     reduction: str = "mean", pos_weight: Optional[Tensor] = None) -> Tensor:
    code = _code(_word(reduction, size_average, reduce))
    _check_target("binary_cross_entropy_with_logits", target, input)
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, code)


def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:
    code = _code(_word(reduction, size_average, reduce))
    a, b = torch.broadcast_tensors([input, target])
    return torch.l1_loss(a, b, code) if beta == 0.0 else torch.smooth_l1_loss(a, b, code, beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Optional[Tensor] = None) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    if weight is None:
        return torch.huber_loss(a, b, _code(reduction), delta)
    _check_weight("huber_loss", weight, input)
    losses = torch.huber_loss(a, b, 0, delta)
    if reduction == "mean":          # by their number, where the others' is by the sum of weights
        return torch.mean(losses * weight)
    return _weighted("huber_loss", losses, weight, reduction)


def l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
            reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    word = _word(reduction, size_average, reduce)
    a, b = torch.broadcast_tensors([input, target])
    if weight is None:
        return torch.l1_loss(a, b, _code(word))
    _check_weight("l1_loss", weight, input)
    return _weighted("l1_loss", torch.abs(a - b), weight, word)


def mse_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
             reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    word = _word(reduction, size_average, reduce)
    a, b = torch.broadcast_tensors([input, target])
    if weight is None:
        return torch.mse_loss(a, b, _code(word))
    _check_weight("mse_loss", weight, input)
    return _weighted("mse_loss", torch.pow(a - b, 2), weight, word)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                        size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                        reduction: str = "mean") -> Tensor:
    code = _code(_word(reduction, size_average, reduce))
    for other in [input2, target]:
        if other.dim() != input1.dim():
            raise RuntimeError("margin_ranking_loss: input1, input2 and target must have as many dims, got sizes"
                               f" {input1.size()}, {input2.size()} and {target.size()}")
    return torch.margin_ranking_loss(input1, input2, target, margin, code)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: Optional[bool] = None,
                         reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.hinge_embedding_loss(input, target, margin, _code(_word(reduction, size_average, reduce)))


def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None,
                           reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.multilabel_margin_loss(input, target, _code(_word(reduction, size_average, reduce)))


def soft_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None,
                     reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.soft_margin_loss(input, target, _code(_word(reduction, size_average, reduce)))


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
                                size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                                reduction: str = "mean") -> Tensor:
    word = _word(reduction, size_average, reduce)
    losses = -(target * torch.log_sigmoid(input) + (1 - target) * torch.log_sigmoid(-input))
    if weight is not None:
        losses = losses * weight
    classes = input.dim() - 1
    per_sample = losses.sum(dim=classes) / input.size(classes)
    _check_word("multilabel_soft_margin_loss", word)
    return _combined(per_sample, word)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                          size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                          reduction: str = "mean") -> Tensor:
    return torch.cosine_embedding_loss(input1, input2, target, margin, _code(_word(reduction, size_average, reduce)))


def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0,
                      weight: Optional[Tensor] = None, size_average: Optional[bool] = None,
                      reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    code = _code(_word(reduction, size_average, reduce))
    if p < 1 or p > 2:
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    if weight is not None:
        if weight.dim() != 1:
            raise ValueError(f"multi_margin_loss: weight must have one dim, got {weight.dim()}")
    return torch.multi_margin_loss(input, target, p, margin, weight, code)


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
                        eps: float = 1e-6, swap: bool = False, size_average: Optional[bool] = None,
                        reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    code = _code(_word(reduction, size_average, reduce))
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be positive, got {margin}")
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, code)

"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes, cheap for the frequent ones.

Enters: hidden vectors and class numbers, classes sorted by falling frequency. Leaves: log-probabilities and their mean
loss. Refuses: cutoffs that do not rise, class numbers out of range.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..._C import Tensor
from .. import functional as F
from .container import ModuleList, Sequential
from .descriptions import describe_layers
from .linear import Linear
from .module import Module

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """A head over the frequent classes and the clusters, and a small network per cluster of rare ones.

    Arguments:
        n_classes: number of classes
        cutoffs: first classes of the rarer groups, in order
        div_value: how much smaller the rows of each rarer group are
        head_bias: whether the group of frequent classes has an offset

    Shape:
        input (N, in_features), target (N,); output (N,) and the loss

    Example:
        >>> layer = rl.nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5])
        >>> tuple(layer(rl.ones(2, 4), rl.tensor([1, 7])).output.shape)
        (2,)
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs: expected a sequence with at least one number")
        rising = all(a < b for a, b in pairwise(cutoffs))
        if not rising or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1 or any(int(c) != c for c in cutoffs):
            raise ValueError(f"cutoffs: expected different integers in increasing order, "
                             f"each from 1 to n_classes - 1, got {cutoffs}")
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **options), Linear(hidden, size, bias=False, **options)
                )
            )

    def reset_parameters(self) -> None:
        """Every layer anew."""
        for layer in (self.head, *(layer for cluster in self.tail for layer in cluster)):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """(log-probability of every target, minus their mean)."""
        alone = self._check(input_, target_)
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if alone else (input_, target_)
        if target.numel() and not (0 <= target.min().item() and target.max().item() < self.n_classes):
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                               f"[{target.min().item()}, {target.max().item()}] were found. ")
        head = F.log_softmax(self.head(input), 1)
        column = target.clone()  # the place in the head's output: the class, or that of its cluster
        output = head.new_zeros(target.shape[0])
        for i in range(self.n_clusters):
            rows = ((target >= self.cutoffs[i]) & (target < self.cutoffs[i + 1])).nonzero().squeeze(-1)
            if rows.numel():
                inner = F.log_softmax(self.tail[i](input.index_select(0, rows)), 1)
                place = (target[rows] - self.cutoffs[i]).unsqueeze(1)
                output = output.index_copy(0, rows, inner.gather(1, place).squeeze(1).to(output.dtype))
                column = column.index_fill(0, rows, self.shortlist_size + i)
        output = output + head.gather(1, column.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if alone else output, loss)

    def _check(self, input: Tensor, target: Tensor) -> bool:
        """Whether this is one vector without a batch."""
        if target.dim() not in (0, 1):
            raise RuntimeError("target must have 0 or 1 dims: one class for each row")
        if input.dim() != target.dim() + 1:
            raise RuntimeError(
                f"A {target.dim()}D target tensor expects"
                f" {'a 2D input with the batch first' if target.dim() else 'a 1D input'}, but found inputs with sizes"
                f" {tuple(input.shape)}."
            )
        if target.dim() and input.size(0) != target.size(0):
            raise RuntimeError("input and target must agree in the size of the batch.")
        return target.dim() == 0

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        out = input.new_empty((head_output.size(0), self.n_classes))
        head = F.log_softmax(head_output, 1)
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i, (start, stop) in enumerate(pairwise(self.cutoffs)):
            cluster = F.log_softmax(self.tail[i](input), 1)
            out[:, start:stop] = cluster + head[:, self.shortlist_size + i].unsqueeze(1)
        return out

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes, [N, n_classes]."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of every vector, computing clusters only where the head chose one."""
        head = self.head(input)
        best = head.argmax(1)
        rare = best >= self.shortlist_size
        if not rare.any():
            return best
        if rare.all():
            return self._get_full_log_prob(input, head).argmax(1)
        best[rare] = self._get_full_log_prob(input[rare], head[rare]).argmax(1)
        return best


describe_layers(globals())

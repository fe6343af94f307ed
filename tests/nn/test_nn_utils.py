"""nn.utils against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def both(program):
    result = []
    for t in (torch, rl):
        t.manual_seed(5)
        result.append([x.detach().numpy() for x in program(t)])
    for a, b in zip(*result, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def trained(t):
    m = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 2))
    (m(t.randn(5, 3)) * 100).square().sum().backward()
    return m


@pytest.mark.parametrize("norm_type", [1, 2.0, float("inf")])
@pytest.mark.parametrize("foreach", [None, False])
def test_clipping_by_norm(norm_type, foreach):
    def program(t):
        m = trained(t)
        total = t.nn.utils.clip_grad_norm_(m.parameters(), 1.5, norm_type, foreach=foreach)
        return [
            total,
            *(p.grad for p in m.parameters()),
            t.nn.utils.get_total_norm([p.grad for p in m.parameters()], norm_type),
        ]

    both(program)


def test_clipping_by_value_and_flat_parameters():
    def program(t):
        m = trained(t)
        t.nn.utils.clip_grad_value_(m.parameters(), 0.5)
        flat = t.nn.utils.parameters_to_vector(m.parameters())
        t.nn.utils.vector_to_parameters(flat.detach() * 2, m.parameters())
        return [flat, *m.parameters(), *(p.grad for p in m.parameters())]

    both(program)


def test_not_finite_norms_are_refused():
    for t in (torch, rl):
        p = t.nn.Parameter(t.ones(2))
        p.grad = t.full((2,), float("nan"))
        with pytest.raises(RuntimeError, match="non-finite"):
            t.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


def test_fusion_and_skipped_initial_values():
    def program(t):
        conv, bn, x = t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.randn(2, 3, 6, 6)
        bn(conv(x))
        linear, bn1 = t.nn.Linear(3, 4), t.nn.BatchNorm1d(4)
        bn1(linear(t.randn(5, 3)))
        fused = t.nn.utils.fuse_conv_bn_eval(conv.eval(), bn.eval())
        return [fused(x), bn(conv(x)), t.nn.utils.fuse_linear_bn_eval(linear.eval(), bn1.eval())(t.ones(2, 3))]

    both(program)
    result = rl.nn.utils.skip_init(rl.nn.Linear, 3, 4)
    assert result.weight.shape == (4, 3) and not result.weight.is_meta


def test_layers_without_records():
    """What module_db leaves out, run with the same seed."""

    def program(t):
        nn = t.nn
        x = t.randn(4, 8)
        adaptive = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10])
        out, loss = adaptive(x, t.tensor([1, 5, 19, 12]))
        loss.backward()
        img = t.randn(2, 4, 6, 6)
        pooled, where = nn.MaxPool2d(2, return_indices=True)(img)
        bag = nn.EmbeddingBag(7, 3, mode="sum", padding_idx=1)
        return [out, adaptive.head.weight.grad, adaptive.tail[1][0].weight.grad, adaptive.log_prob(x),
                adaptive.predict(x), nn.CrossMapLRN2d(3)(img), nn.CrossMapLRN2d(4, k=2)(img), nn.PixelShuffle(2)(img),
                nn.PixelUnshuffle(3)(img), nn.ChannelShuffle(2)(img),
                nn.Fold((6, 6), 2, stride=2)(nn.Unfold(2, stride=2)(img)), nn.MaxUnpool2d(2)(pooled, where),
                nn.Flatten()(img), nn.Unflatten(1, (2, 2))(img), nn.Upsample(scale_factor=2, mode="bilinear")(img),
                nn.UpsamplingBilinear2d(scale_factor=2)(img), nn.CosineSimilarity()(x, x + 1),
                nn.PairwiseDistance()(x, x + 1), bag(t.tensor([[1, 2], [3, 4]])), nn.Dropout(0.3)(x),
                nn.AlphaDropout(0.3)(x), nn.Dropout2d(0.5)(img), nn.RReLU()(x), nn.Hardsigmoid()(x),
                nn.TripletMarginLoss()(x, x + 1, x - 1),
                nn.TripletMarginWithDistanceLoss(distance_function=nn.CosineSimilarity())(x, x + 1, x - 1),
                nn.LazyLinear(3)(x), nn.LazyBatchNorm2d()(img), nn.LazyInstanceNorm2d()(img),
                nn.Embedding.from_pretrained(x)(t.tensor([0, 3]))]

    both(program)


def test_their_text():
    cases = [("Embedding", (5, 3), {"padding_idx": 1, "max_norm": 2.0, "sparse": True}),
             ("EmbeddingBag", (5, 3), {"mode": "sum"}), ("Upsample", (), {"scale_factor": 2}),
             ("Flatten", (), {}), ("Unflatten", (1, (2, 2)), {}), ("Fold", (4, 2), {}), ("Unfold", (3,), {}),
             ("PixelShuffle", (2,), {}), ("Hardsigmoid", (), {}), ("Softmax2d", (), {}), ("LazyLinear", (3,), {}),
             ("RReLU", (), {}), ("MaxUnpool2d", (2,), {}), ("CrossMapLRN2d", (3,), {}), ("AlphaDropout", (), {}),
             ("Conv2d", (2, 4, 3), {"padding": "same", "groups": 2, "bias": False, "padding_mode": "reflect"}),
             ("AdaptiveLogSoftmaxWithLoss", (8, 20, [4]), {}),
             ("ConvTranspose2d", (2, 4, 3), {"stride": 2, "output_padding": 1}),
             ("LSTM", (3, 4, 2), {"batch_first": True}), ("SyncBatchNorm", (3,), {})]
    for name, args, kwargs in cases:
        ours, theirs = (repr(getattr(t.nn, name)(*args, **kwargs)) for t in (rl, torch))
        assert ours == theirs

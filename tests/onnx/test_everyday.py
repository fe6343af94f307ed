"""Everyday programs: each of these that PyTorch 2.13 exports (`torch.onnx.export(dynamo=True)`) is exported here.

PyTorch 2.13 with onnxscript 0.7 refuses `HERE_ALONE`, and exports the others.
"""

import pytest

import rushlight as torch

nn, F, Linear, Dim = torch.nn, torch.nn.functional, torch.nn.Linear, torch.export.Dim
HERE_ALONE = ("cumsum cumprod", "linalg", "nested in", "searchsorted", "cdist", "special", "argsort kth")


class M(nn.Module):
    """A function with layers."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def R(*shape):  # noqa: N802 - short, since it is everywhere
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def assigned(x):
    y = x.clone()
    y[:, 1:3] = 0
    y[0] += 1
    return y


# By name: how to make a module, arguments, keyword arguments, options of the export.
PROGRAMS = {
    "mlp": lambda: (nn.Sequential(Linear(8, 16), nn.ReLU(), Linear(16, 2)), (R(3, 8),)),
    "cnn bn": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), Linear(8, 4)), (R(2, 3, 8, 8),)),
    "lstm": lambda: (M(lambda s, x: s.l(x), l=nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True)), (R(2, 5, 4),)),
    "gru": lambda: (M(lambda s, x: s.l(x), l=nn.GRU(4, 6)), (R(5, 2, 4),)),
    "rnn": lambda: (M(lambda s, x: s.l(x), l=nn.RNN(4, 6)), (R(5, 2, 4),)),
    "encoder layer": lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (R(2, 4, 8),)),
    "decoder layer": lambda: (nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), (R(2, 4, 8), R(2, 5, 8))),
    "transformer": lambda: (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (R(2, 4, 8), R(2, 5, 8))),
    "mha mask": lambda: (M(lambda s, x, m: s.a(x, x, x, attn_mask=m)[0], a=nn.MultiheadAttention(8, 2,
        batch_first=True)), (R(2, 4, 8), torch.zeros(4, 4))),
    "sdpa causal": lambda: (M(lambda s, q: F.scaled_dot_product_attention(q, q, q, is_causal=True)), (R(1, 2, 4,
        8),)),
    "embedding bag": lambda: (M(lambda s, x: s.e(x), e=nn.EmbeddingBag(10, 4)), (torch.tensor([[1, 2], [3, 4]]),)),
    "embedding": lambda: (M(lambda s, x: s.e(x), e=nn.Embedding(10, 4)), (torch.tensor([[1, 2], [3, 4]]),)),
    "convtranspose": lambda: (nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), (R(1, 4, 5, 5),)),
    "conv3d": lambda: (nn.Conv3d(2, 3, 3), (R(1, 2, 5, 5, 5),)),
    "depthwise": lambda: (nn.Conv1d(6, 6, 3, groups=6, dilation=2), (R(1, 6, 9),)),
    "group norm silu": lambda: (nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU()), (R(2, 4, 5),)),
    "instance norm": lambda: (nn.InstanceNorm2d(3, affine=True), (R(2, 3, 5, 5),)),
    "rms norm": lambda: (nn.RMSNorm(8), (R(2, 8),)),
    "pixel shuffle": lambda: (nn.PixelShuffle(2), (R(1, 8, 3, 3),)),
    "upsample bilinear": lambda: (nn.Upsample(scale_factor=2, mode="bilinear"), (R(1, 3, 4, 4),)),
    "upsample bicubic": lambda: (M(lambda s, x: F.interpolate(x, size=(7, 9), mode="bicubic", align_corners=True)),
        (R(1, 3, 4, 4),)),
    "grid sample": lambda: (M(lambda s, x, g: F.grid_sample(x, g, align_corners=False)), (R(1, 3, 4, 4), torch.rand(1,
        5, 5, 2))),
    "unfold fold": lambda: (M(lambda s, x: F.fold(F.unfold(x, 2), (4, 4), 2)), (R(1, 3, 4, 4),)),
    "einsum": lambda: (M(lambda s, a, b: torch.einsum("bij,bjk->bik", a, b)), (R(2, 3, 4), R(2, 4, 5))),
    "topk sort": lambda: (M(lambda s, x: (x.topk(2)[0], x.sort(descending=True)[1], x.argmax(1))), (R(3, 5),)),
    "gather scatter": lambda: (M(lambda s, x, i: x.scatter(1, i, 1.0)+x.gather(1, i).sum()), (R(3, 5),
        torch.tensor([[0, 1], [2, 3], [4, 0]]))),
    "index put": lambda: (M(lambda s, x, i: x.index_put((i,), torch.zeros(2, 5), accumulate=True)), (R(3, 5),
        torch.tensor([0, 2]))),
    "masked fill where": lambda: (M(lambda s, x: torch.where(x>0, x.masked_fill(x>1, 0.), x.abs())), (R(3, 5),)),
    "slice assign": lambda: (M(lambda s, x: assigned(x)), (R(3, 5),)),
    "boolean index": lambda: (M(lambda s, x: x[x>0]), (R(3, 5),)),
    "nonzero": lambda: (M(lambda s, x: x.nonzero()), (R(3, 5),)),
    "cumsum cumprod": lambda: (M(lambda s, x: (x.cumsum(1), x.cumprod(0))), (R(3, 5),)),
    "logsumexp var": lambda: (M(lambda s, x: (x.logsumexp(1), x.var(0), x.std(1, unbiased=False), x.norm(dim=1))),
        (R(3, 5),)),
    "roll flip rot": lambda: (M(lambda s, x: (x.roll(1, 0), x.flip(1), torch.rot90(x))), (R(3, 5),)),
    "meshgrid linspace": lambda: (M(lambda s, x: torch.meshgrid(torch.linspace(0, 1, 3), x[0], indexing="ij")), (R(3,
        5),)),
    "tril triu": lambda: (M(lambda s, x: (x.tril(), x.triu(1))), (R(4, 4),)),
    "stack unbind chunk": lambda: (M(lambda s, x: torch.stack([t*2 for t in x.unbind(0)]).chunk(2, 1)), (R(3, 4),)),
    "pad modes": lambda: (M(lambda s, x: (F.pad(x, (1, 2)), F.pad(x, (1, 1), mode="reflect"), F.pad(x, (1, 1),
        mode="replicate"))), (R(1, 3, 5),)),
    "activations": lambda: (M(lambda s, x: (F.gelu(x), F.elu(x), F.hardswish(x), F.mish(x), F.selu(x), F.celu(x),
        F.softplus(x), F.hardsigmoid(x), F.leaky_relu(x), F.glu(x, 1))), (R(3, 6),)),
    "losses": lambda: (M(lambda s, x, t: (F.cross_entropy(x, t), F.mse_loss(x, x*2), F.smooth_l1_loss(x, x*2),
        F.binary_cross_entropy_with_logits(x, x.sigmoid()))), (R(3, 5), torch.tensor([1, 0, 3]))),
    "stft": lambda: (M(lambda s, x: torch.stft(x, 16, return_complex=True, window=torch.hann_window(16)).abs()), (R(2,
        64),)),
    "fft": lambda: (M(lambda s, x: torch.fft.fft(x).abs()), (R(2, 8),)),
    "complex mul": lambda: (M(lambda s, x: torch.view_as_real(torch.view_as_complex(x)*2)), (R(3, 4, 2),)),
    "linalg": lambda: (M(lambda s, x: (torch.linalg.inv(x), torch.linalg.det(x))), (R(3, 3)+3*torch.eye(3),)),
    "bitwise shifts": lambda: (M(lambda s, x: (x&3, x|1, x^2, x<<1, x>>1)), (torch.arange(6),)),
    "int div mod": lambda: (M(lambda s, x: (x//3, x%3, torch.div(x, 2, rounding_mode="trunc"))), (torch.arange(-5,
        6),)),
    "casts": lambda: (M(lambda s, x: (x.half(), x.long(), x.bool(), x.double())), (R(3, 5),)),
    "half model": lambda: (nn.Sequential(Linear(4, 3), nn.ReLU()).half(), (R(2, 4).half(),)),
    "kwargs dict out": lambda: (M(lambda s, x, *, b=None: {"y": x+b, "z": [x]}), (R(2, 4),), {"b": R(2, 4)}),
    "nested in": lambda: (M(lambda s, d: d["a"]+d["b"][0]), ({"a": R(2, 3), "b": [R(2, 3)]},)),
    "int arg": lambda: (M(lambda s, x, n: x*n), (R(2, 3), 3)),
    "dynamic batch": lambda: (nn.Sequential(Linear(8, 16), nn.ReLU(), Linear(16, 2)), (R(3, 8),), {},
        {"dynamic_shapes": ({0: Dim("b")},)}),
    "dynamic seq attn": lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (R(2, 4, 8),), {},
        {"dynamic_shapes": ({0: Dim("b"), 1: Dim("t")},)}),
    "dynamic cnn": lambda: (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (R(2,
        3, 9, 9),), {}, {"dynamic_shapes": ({0: Dim("b"), 2: Dim("h"), 3: Dim("w")},)}),
    "cond": lambda: (M(lambda s, x: torch.cond(x.sum()>0, lambda v: v+1, lambda v: v*2, (x,))), (R(2, 3),)),
    "one hot": lambda: (M(lambda s, x: F.one_hot(x, 5)), (torch.tensor([1, 2]),)),
    "bincount-like": lambda: (M(lambda s, x: torch.zeros(5, dtype=torch.long).scatter_add(0, x, torch.ones_like(x))),
        (torch.tensor([1, 2, 2]),)),
    "repeat interleave": lambda: (M(lambda s, x: x.repeat_interleave(2, 1)), (R(3, 5),)),
    "searchsorted": lambda: (M(lambda s, x: torch.searchsorted(torch.arange(5.), x)), (torch.rand(4),)),
    "bucketize": lambda: (M(lambda s, x: torch.bucketize(x, torch.arange(3.))), (R(4),)),
    "cdist": lambda: (M(lambda s, x, y: torch.cdist(x, y)), (R(3, 4), R(5, 4))),
    "cosine sim": lambda: (M(lambda s, x, y: F.cosine_similarity(x, y)), (R(3, 4), R(3, 4))),
    "clamp lerp": lambda: (M(lambda s, x, y: (x.clamp(-1, 1), torch.lerp(x, y, .3), torch.addcmul(x, y, y),
        x.clip(min=y))), (R(3, 4), R(3, 4))),
    "special": lambda: (M(lambda s, x: (torch.erf(x), torch.special.erfinv(x), torch.lgamma(x.abs()+1),
        torch.special.logit(x.sigmoid()))), (torch.rand(4)*.5,)),
    "trig": lambda: (M(lambda s, x: (x.sin(), x.acos(), x.atan2(x+1), x.sinh(), x.expm1(), x.log1p(), x.rsqrt())),
        (torch.rand(4),)),
    "isnan": lambda: (M(lambda s, x: (x.isnan(), x.isinf(), x.nan_to_num())), (torch.tensor([1., float("nan"),
        float("inf")]),)),
    "lru pool": lambda: (M(lambda s, x: (F.avg_pool2d(x, 2), F.max_pool2d(x, 2, return_indices=True),
        F.adaptive_max_pool2d(x, 2), F.lp_pool2d(x, 2, 2))), (R(1, 2, 4, 4),)),
    "weight norm": lambda: (nn.utils.parametrizations.weight_norm(Linear(3, 4)), (R(2, 3),)),
    "prelu": lambda: (nn.PReLU(3), (R(2, 3, 4),)),
    "layer norm no affine": lambda: (nn.LayerNorm(4, elementwise_affine=False), (R(2, 4),)),
    "dropout eval": lambda: (nn.Sequential(nn.Dropout(.5), Linear(4, 2)), (R(2, 4),)),
    "bilinear layer": lambda: (nn.Bilinear(3, 4, 2), (R(5, 3), R(5, 4))),
    "unique": lambda: (M(lambda s, x: torch.unique(x)), (torch.tensor([1, 2, 2, 5]),)),
    "buffer mutate": lambda: (nn.BatchNorm1d(4), (R(3, 4),)),
    "diag": lambda: (M(lambda s, x: (torch.diag(x), torch.diagonal(x, 1), torch.diag_embed(x), x.trace())), (R(3,
        3),)),
    "expand view": lambda: (M(lambda s, x: x[: , None].expand(-1, 4, -1).permute(2, 0, 1).contiguous().view(-1)),
        (R(2, 3),)),
    "movedim tile": lambda: (M(lambda s, x: (x.movedim(0, -1), x.tile(2, 1), x.T)), (R(2, 3),)),
    "take_along": lambda: (M(lambda s, x, i: (torch.take_along_dim(x, i, 1), x.index_select(0, i[0]))), (R(3, 3),
        torch.tensor([[0, 1, 2]]))),
    "argsort kth": lambda: (M(lambda s, x: (x.argsort(), x.kthvalue(2)[0], x.median(1)[0])), (R(3, 4),)),
    "max min dims": lambda: (M(lambda s, x: (x.max(1), x.min(0), x.amax((0, 1)), x.aminmax(dim=1))), (R(3, 4),)),
    "any all prod": lambda: (M(lambda s, x: ((x>0).any(1), (x>0).all(), x.prod(1), x.count_nonzero())), (R(3, 4),)),
    "logical": lambda: (M(lambda s, x: (~(x>0), (x>0)&(x<1), torch.logical_xor(x>0, x<1))), (R(3, 4),)),
}


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return [] if value is None else [value]


@pytest.mark.share(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_runtime_gives_what_the_program_gives(name):
    pytest.importorskip("onnxruntime")
    module, args, *rest = PROGRAMS[name]()
    kwargs, options = (*rest, {}, {})[:2]
    module = module.eval()
    program = torch.onnx.export(module, args, kwargs=kwargs, **options)
    expected = leaves(module(*args, **kwargs))
    found = program(*args, **kwargs)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        near = 1e-2 if b.dtype is torch.half else 1e-4
        torch.testing.assert_close(a, b, rtol=10 * near, atol=near)

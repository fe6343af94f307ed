"""What the sweep draws from: sizes, operands and expressions over them, by family.

A size is a capital letter: what it is when nothing is drawn, the least, the most. `T` is a float type, `laid` and
`pictured` put a matrix or an image into memory in a drawn layout. To add a case, add it to a family's text, or a method
to a table of operands and methods; a new operand is an entry of OPERANDS.
"""

from __future__ import annotations

# Rows, columns, a line; a cube; a batch of images, their channels, those of results; windows and strides; points of so
# many coordinates; square matrices, many small ones; steps and units of what recurs; heads of attention; words of a
# vocabulary; few columns; sides of what is tiny; channels of a group.
SIZES = {
    "R": (512, 1, 4096), "C": (512, 1, 4096), "N": (262144, 1, 1 << 20),
    "A": (64, 1, 256), "B": (64, 1, 256), "D": (64, 1, 256),
    "E": (8, 1, 16), "G": (4, 1, 32), "O": (32, 1, 256), "H": (32, 4, 160), "W": (32, 4, 160),
    "V": (3, 1, 7), "S": (1, 1, 2), "P": (512, 2, 2048), "K": (64, 1, 256),
    "M": (128, 1, 256), "J": (64, 1, 1024), "I": (16, 1, 24),
    "Q": (20, 1, 128), "U": (64, 8, 512), "Z": (4, 1, 8), "X": (5000, 10, 30000), "Y": (8, 1, 64), "L": (4, 1, 8),
}
# No product of these sizes is larger: operands stay under a few megabytes.
LIMITS = {"RC": 1 << 20, "ABD": 1 << 20, "EGHW": 1 << 17, "EOHW": 1 << 21, "JII": 1 << 17, "RY": 1 << 18,
          "QEU": 1 << 17, "EGOHWVV": 1 << 26, "QEUU": 1 << 25, "XK": 1 << 21, "PK": 1 << 17, "PKK": 1 << 22,
          "QQEZ": 1 << 20}

# Of about a quarter of a million elements where nothing is drawn. Made for the cases that name them.
OPERANDS = {
    "x": "laid(torch.randn(R, C).to(T))", "y": "laid(torch.randn(R, C).to(T))", "x1": "torch.randn(N).to(T)",
    "p": "laid((torch.rand(R, C) + 0.1).to(T))", "unit": "laid((torch.rand(R, C) * 0.98 + 0.01).to(T))",
    "turned": "torch.randn(C, R).t()", "strided": "torch.randn(R, 2 * C)[:, ::2]", "cube": "torch.randn(A, B, D).to(T)",
    "rows": "torch.randn(8 * R, Y).to(T)", "threes": "torch.randn(N // 4 + 1, 3).to(T)",
    "column": "torch.randn(R, 1).to(T)", "row": "torch.randn(C).to(T)",
    "flags": "laid(torch.randn(R, C) > 0)", "flags2": "laid(torch.randn(R, C) > 1)",
    "d": "laid(torch.randn(R, C, dtype=torch.float64))", "h": "laid(torch.randn(R, C).half())",
    "b": "laid(torch.randn(R, C).bfloat16())", "i": "laid(torch.randint(1, 1000, (R, C)))",
    "i2": "laid(torch.randint(1, 60, (R, C)))", "j": "laid(torch.randint(1, 1000, (R, C), dtype=torch.int32))",
    "j2": "laid(torch.randint(1, 30, (R, C), dtype=torch.int32))",
    "s": "laid(torch.randint(1, 100, (R, C), dtype=torch.int16))",
    "bytes": "laid(torch.randint(1, 100, (R, C), dtype=torch.uint8))",
    "c": "laid(torch.randn(R, C, dtype=torch.complex64))", "c2": "laid(torch.randn(R, C, dtype=torch.complex64))",
    "z": "torch.randn(R // 2 + 1, C // 2 + 1, dtype=torch.complex128)", "pairs": "torch.randn(R, C, 2)",
    "picks": "torch.randint(0, min(R, C), (R,))", "picks2": "torch.randint(0, min(R, C), (C,))",
    "places": "torch.randint(0, min(R, C), (R, C))", "tokens": "torch.randint(0, X, (R // 8 + 1, C // 4 + 1))",
    "table": "torch.randn(X, K).to(T)", "ascending": "torch.arange(float(N)) / N", "few": "torch.randint(0, 50, (N,))",
    "image": "pictured(torch.randn(E, 8 * G, H, W).to(T))",
    "nhwc": "torch.randn(E, 8 * G, H, W).to(T).contiguous(memory_format=torch.channels_last)",
    "signal": "torch.randn(E, 8 * G, H * W).to(T)", "volume": "torch.randn(2, 4 * G, 2 * L, H // 2, W).to(T)",
    "w32": "torch.randn(8 * G).to(T)", "v32": "(torch.rand(8 * G) + 0.5).to(T)", "labels": "torch.randint(0, C, (R,))",
    "plane": "torch.randint(0, 8 * G, (E, H, W))", "row2": "torch.rand(C).to(T)",
    "signs": "torch.randn(R, C).sign().to(T)", "points": "torch.randn(P, K).to(T)", "m": "torch.randn(M, M).to(T)",
    "ms": "torch.randn(J, I, I).to(T)", "spd": "(torch.eye(I) * 2 * I + torch.ones(J, I, I)).to(T)",
    "spd1": "(torch.eye(M) * 2 * M + torch.ones(M, M)).to(T)", "flow": "(torch.rand(E, H, W, 2) * 2 - 1).to(T)",
    "out": "torch.empty(R, C).to(T)", "leaf": "torch.randn(R, C).to(T).requires_grad_()",
    "dots": "torch.randn(P // 4 + 1, K).to(T).requires_grad_()", "inputs": "torch.randn(P, K).to(T)",
    "photo": "torch.randn(E, 3, 2 * H, 2 * W).to(T)",
    "tiny": "torch.randn(Z, L).to(T)", "tiny2": "torch.ones(Z, L).to(T)",
    "steps": "torch.randn(Q, E, U).to(T)", "state": "torch.randn(E, U).to(T)",
    "words": "torch.randn(E, Q, U).to(T)", "heads": "torch.randn(E, Z, Q * 4, 64).to(T)",
    # Layers: forward alone with `infer`, forward and all gradients with `train`.
    "linear": "torch.nn.Linear(K, O).to(T)", "bilinear": "torch.nn.Bilinear(K, K, Y).to(T)",
    "conv": "torch.nn.Conv2d(8 * G, O, V, S, V // 2).to(T)", "single": "torch.nn.Conv2d(8 * G, O, 1).to(T)",
    "deep": "torch.nn.Conv2d(8 * G, 8 * G, V, S, V // 2, groups=8 * G).to(T)",
    "stem": "torch.nn.Conv2d(3, O, 7, 2, 3, bias=False).to(T)", "conv1": "torch.nn.Conv1d(8 * G, O, V, S).to(T)",
    "conv3": "torch.nn.Conv3d(4 * G, O // 4 + 1, V, S, V // 2).to(T)",
    "upward": "torch.nn.ConvTranspose2d(8 * G, O, 2, 2).to(T)",
    "upward1": "torch.nn.ConvTranspose1d(8 * G, O, 4, 2).to(T)",
    "lstm": "torch.nn.LSTM(U, U, 2).to(T)", "gru": "torch.nn.GRU(U, U).to(T)", "rnn": "torch.nn.RNN(U, U).to(T)",
    "bilstm": "torch.nn.LSTM(U, U, bidirectional=True).to(T)", "lstm_out": "torch.nn.LSTM(U, U, proj_size=4).to(T)",
    "lstm_cell": "torch.nn.LSTMCell(U, U).to(T)", "gru_cell": "torch.nn.GRUCell(U, U).to(T)",
    "norm1": "torch.nn.LayerNorm(K).to(T)", "norm2": "torch.nn.BatchNorm2d(8 * G).to(T)",
    "norm3": "torch.nn.GroupNorm(8, 8 * G).to(T)", "norm4": "torch.nn.InstanceNorm2d(8 * G, affine=True).to(T)",
    "norm5": "torch.nn.RMSNorm(K).to(T)", "norm6": "torch.nn.BatchNorm1d(K).to(T)",
    "lookup": "torch.nn.Embedding(X, K).to(T)", "bag": "torch.nn.EmbeddingBag(X, K).to(T)",
    "mlp": "torch.nn.Sequential(torch.nn.Linear(K, O), torch.nn.GELU(), torch.nn.Linear(O, K)).to(T)",
    "attention": "torch.nn.MultiheadAttention(U, 1, batch_first=True).to(T)",
    "encoder": "torch.nn.TransformerEncoderLayer(U, 1, 4 * U, 0.0, batch_first=True).to(T)",
    "decoder": "torch.nn.TransformerDecoderLayer(U, 1, 4 * U, 0.0, batch_first=True).to(T)",
}

# Operands (or pairs of them), then methods that run on each.
TABLES = {
    "unary": """
x: abs neg sign square exp expm1 exp2 sin cos tan sinh cosh tanh asinh atan sigmoid floor ceil round trunc frac sgn sinc
x: reciprocal relu isnan isfinite isinf isposinf signbit logical_not deg2rad rad2deg nan_to_num positive clone isreal
p: log log2 log10 log1p sqrt rsqrt
unit: asin acos atanh logit erf erfc erfinv lgamma digamma i0
d: abs neg exp log1p sin tanh sigmoid floor sqrt square erf reciprocal
h, b: abs neg exp sin tanh sigmoid sqrt square floor relu
i: abs neg sign square float sqrt bitwise_not sin
j, s, bytes: sign square float double long bool bitwise_not
flags: logical_not float long int bitwise_not nonzero
c: abs neg angle conj_physical exp log sin sqrt tanh square reciprocal sgn
z: abs exp sqrt angle
turned, strided: exp abs contiguous clone
""",
    "binary": """
x y: add sub mul div maximum minimum atan2 hypot fmod remainder pow copysign fmax fmin eq lt ge ne logical_and dist
x y: logaddexp logaddexp2 nextafter isclose equal allclose floor_divide
x column, x row, x turned, turned turned, strided strided, rows rows, s s, bytes bytes, x d, x h, i x: add mul maximum
d d: add mul div atan2 hypot pow
h h, b b: add mul div maximum
i i2: add mul div floor_divide remainder fmod gcd lcm maximum eq bitwise_and bitwise_xor pow
j j2: add mul div floor_divide remainder gcd maximum lt bitwise_or bitwise_left_shift
flags flags2: logical_and logical_or logical_xor bitwise_and eq
c c2, z z: add mul div eq
x 2, x 0.5: pow add mul div remainder lt
p 2.5, p -0.5: pow
i 3: remainder floor_divide add pow __rshift__
""",
    "folds": """
x: sum mean amax max argmax argmin var std norm logsumexp prod all any nansum median count_nonzero aminmax nanmean
d, h, b: sum mean amax argmax norm var logsumexp
i, j: sum amax argmax prod
bytes, turned: sum amax
flags: sum any all
c: sum mean prod
""",
    "rows": """
rows: sum mean amax max argmax var logsumexp prod median norm any count_nonzero cumsum cummax sort argsort
x: cumsum cumprod cummax cummin logcumsumexp sort argsort
i: cumsum cumprod sort argsort
h, d, j, bytes: cumsum sort
""",
    "functions": """
F x: relu gelu silu elu selu celu leaky_relu hardtanh hardswish hardsigmoid softplus mish logsigmoid softsign relu6
F x: tanhshrink softshrink hardshrink
F x unit: mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss soft_margin_loss
torch.special unit: entr erfcx i0e i1 i1e ndtr ndtri log_ndtr bessel_j0 bessel_j1 spherical_bessel_j0 airy_ai
torch.special p unit: xlog1py zeta
""",
}

# Statements, parted by semicolons.
STATEMENTS = {
    "norms": """
F.softmax(x, 1); F.softmax(x, 0); F.log_softmax(x, 1); F.softmax(cube, 1); F.softmax(rows, 1); F.log_softmax(rows, 1)
F.softmin(x, 1); F.softmax(h, 1); F.normalize(x); F.normalize(rows); cube.softmax(0)
torch.linalg.vector_norm(x, 3, 1); torch.linalg.vector_norm(x, float('inf'), 0); x.renorm(2, 0, 1.0)
F.layer_norm(x, (C,)); F.layer_norm(x, (C,), row, row2); F.layer_norm(rows, (Y,)); F.rms_norm(x, (C,))
F.batch_norm(image, w32, v32); F.batch_norm(nhwc, w32, v32); F.batch_norm(image, None, None, w32, v32, training=True)
F.batch_norm(nhwc, None, None, w32, v32, training=True); F.group_norm(image, 8, w32, v32); F.group_norm(nhwc, 8)
F.instance_norm(image); F.instance_norm(nhwc); F.local_response_norm(image, 5)
F.batch_norm(x, None, None, training=True); F.layer_norm(h, (C,)); F.layer_norm(b, (C,))
""",
    "pointwise": """
F.gelu(x, approximate='tanh'); F.glu(x); F.prelu(x, row2); F.threshold(x, 0.1, 2.0); x.where(flags, y)
torch.where(flags, x, 0.0); x.clamp(-1, 1); x.clamp_min(0); x.clamp(y - 1, y); x.lerp(y, 0.3); torch.lerp(x, y, unit)
x.addcmul(x, y); x.addcdiv(x, p); torch.heaviside(x, y); x.xlogy(p); x.ldexp(j2); x.frexp(); torch.polar(p, x)
torch.complex(x, y); torch.view_as_real(c) + 1; x.float_power(2); x.relu_(); out.copy_(x); out.fill_(1.0); out.zero_()
torch.add(x, y, out=out); x.to(torch.float64); x.half(); x.bfloat16(); x.int(); x.long(); x.bool(); h.float()
b.float(); d.float(); x.to(torch.uint8); c.conj() * c2; c.abs().square(); torch.view_as_complex(pairs).abs()
torch.bitwise_left_shift(j, 2); i.bitwise_and(7); j.bitwise_not(); bytes.bitwise_xor(3); x.heaviside(y)
x.nan_to_num(0.0, 1.0, -1.0); torch.clamp(i, 5, 500); torch.clamp(h, -1, 1); torch.where(flags, i, 0)
torch.where(flags, h, h)
""",
    "random": """
F.rrelu(x); F.dropout(x); torch.rand(R, C); torch.randn(R, C); torch.randint(0, 10, (R, C)); torch.randperm(N)
torch.bernoulli(unit); out.uniform_(); out.normal_(); out.exponential_(); out.log_normal_(); out.cauchy_()
out.geometric_(0.3); out.bernoulli_(0.3); torch.poisson(p); torch.normal(x, p); torch.multinomial(unit, 8)
torch.multinomial(row2, R, replacement=True); out.random_(); torch.rand(R, C, dtype=torch.float64)
torch.randn(R, C, dtype=torch.float16); torch.rand_like(b); torch.distributions.Gamma(p, p).sample()
""",
    "indexing": """
x.masked_fill(flags, 0.0); x[picks]; x[:, picks]; x[picks, picks]; x[flags]; x[places, places]
x.index_select(0, picks); x.index_select(1, picks); x.gather(1, places); x.gather(0, places); x.take(places)
x.take_along_dim(places, 1); x.masked_select(flags); x.scatter(1, places, y); x.scatter(1, places, 1.0)
x.scatter_add(1, places, y); x.scatter_add(0, places, y); x.scatter_reduce(1, places, y, 'amax')
x.index_add(0, picks, y); x.index_add(1, picks2, y); x.index_copy(0, picks, y); x.index_fill(0, picks, 1.0)
x.index_put((picks,), y); x.index_put((picks2, picks2), row, accumulate=True); x.masked_scatter(flags, y)
x.put(places, y); h[picks]; i[picks]; x[flags].sum(); x[::2, 1::3] + 1; rows[picks]; out.__setitem__(flags, 0.0)
out.__setitem__(picks, y); out.__setitem__((slice(None), 3), row); out.__setitem__(slice(2, -1), 1.0)
F.embedding(tokens, table); F.embedding_bag(tokens, table); F.one_hot(labels, C); F.one_hot(few, 50)
torch.cat([row] * R); x.split(8, 1)[1].contiguous(); torch._foreach_add([x, y], 1.0)
torch._foreach_mul([x, y], [x, y]); torch.nn.utils.parameters_to_vector([x, y])
""",
    "moves": """
c.real.clone(); cube.flip(1); x.diagonal().clone(); x.diag(); row.diag(); torch.diag_embed(points); torch.cat((x, y))
torch.cat((x, y), 1); torch.cat((h, h), 1); torch.cat((rows, rows), 1); torch.stack((x, y)); torch.stack((x, y), 1)
torch.stack((x, y), 2); torch.hstack((x, y)); torch.dstack((x, y)); x.repeat(2, 2); x.tile(3)
row.expand(R, C).contiguous(); x.repeat_interleave(2, 1); x.repeat_interleave(2, 0); x.roll(3, 1); x.roll(5, 0)
x.roll(1); x.flip(0); x.flip(1); x.fliplr(); x.rot90(); x.tril(); x.triu(1); cube.permute(2, 0, 1).contiguous()
cube.transpose(1, 2).contiguous(); cube.permute(1, 0, 2).clone(); image.contiguous(memory_format=torch.channels_last)
nhwc.contiguous(); image.permute(0, 2, 3, 1).reshape(-1); h.t().contiguous(); d.t().contiguous()
bytes.t().contiguous(); c.t().contiguous(); x.unfold(1, 8, 4).contiguous(); torch.block_diag(x, y)
torch.cartesian_prod(row, row2); torch.combinations(row); x.unflatten(1, (-1, 8)).transpose(1, 2).reshape(R, C)
torch.broadcast_to(column, (R, C)).clone(); F.pad(x, (3, 3)); F.pad(image, (1, 1, 1, 1))
F.pad(image, (1, 1, 1, 1), 'reflect'); F.pad(image, (2, 2, 2, 2), 'replicate'); F.pad(signal, (2, 2), 'circular')
x.contiguous().as_strided((R // 2, C // 2), (2 * C, 2)).clone(); torch.vander(row, 64); torch.tril_indices(R, C)
torch.meshgrid(row, row, indexing='ij')[0].clone(); image.clone(); torch.cat((image, image), 1)
torch.cat((nhwc, nhwc), 1)
""",
    "order": """
torch.bucketize(x, row2.sort()[0]); cube.median(1); cube.sort(1); cube.kthvalue(5, 1); cube.topk(4, 1)
cube.nanmedian(-1); threes.sort(1); x.quantile(0.3, 1); x.nanquantile(0.3, 1); x.mode(1); x.topk(10); x.topk(10, 0)
x.kthvalue(17); i.topk(5); x1.sort(); x1.topk(100); x1.argsort(); x1.median(); few.sort(); few.mode(); few.unique()
few.unique(return_inverse=True); few.unique(return_counts=True); few.bincount(); x1.histc(100); x1.histogram(50)
x1.unique(); few.unique_consecutive(); torch.searchsorted(ascending, x1); torch.bucketize(x1, ascending)
torch.isin(few, few[:20]); x.argwhere(); flags2.argwhere(); torch.count_nonzero(flags, 1)
""",
    "folds": """
cube.sum(1); cube.mean((0, 2)); cube.var(1); cube.argmax(1); cube.logsumexp(1); cube.amax(1); cube.norm(dim=1)
cube.prod(1); cube.std((0, 1)); cube.max(1); cube.any(1); threes.sum(1); threes.amax(1); threes.norm(dim=1)
threes.argmax(1); threes.mean(1); threes.max(1); threes.sum(0); x.norm(1); x.allclose(x); row.tolist(); x.sum().item()
bool(x.isnan().any())
""",
    "scans": """
cube.cumsum(1); cube.cummax(1); threes.cumsum(1); x.diff(); x.diff(dim=0); torch.gradient(x); torch.trapezoid(x)
torch.cumulative_trapezoid(x); x1.cumsum(0); x1.cumprod(0); x.cumsum(0); x.logcumsumexp(0)
""",
    "products": """
x1.cov(); x.cov(); x.corrcoef(); m @ m; ms @ ms; x.mv(row); x.t() @ row; row.dot(row2); row.outer(row2)
torch.einsum('bij,bjk->bik', ms, ms); torch.einsum('ij,ij->i', x, y); torch.baddbmm(ms, ms, ms); torch.kron(ms[0], m)
torch.cross(threes, threes, dim=1); torch.linalg.matrix_power(m, 5); torch.trace(x); torch.tensordot(cube, cube[0], 1)
torch.linalg.multi_dot((m, m, m)); torch.addr(x, row, row2); i @ i2.t(); torch.vmap(torch.dot)(x, y)
torch.addmm(m, m, m); x @ x.t(); x @ y.t(); x.t() @ y; cube @ cube[0].t(); m @ x[:M]; torch.bmm(ms, ms)
cube @ cube.transpose(1, 2)
""",
    "resampling": """
F.pixel_shuffle(image, 2); F.pixel_unshuffle(image, 2); F.channel_shuffle(image, 4); F.unfold(image, 3)
F.fold(F.unfold(image, 3), (H, W), 3); F.interpolate(image, scale_factor=2)
F.interpolate(image, scale_factor=2, mode='bilinear'); F.interpolate(nhwc, scale_factor=2, mode='bilinear')
F.interpolate(image, size=16, mode='area'); F.interpolate(image, scale_factor=2, mode='bicubic')
F.interpolate(signal, scale_factor=2, mode='linear')
F.interpolate(image, scale_factor=0.5, mode='bilinear', antialias=True)
F.grid_sample(image, flow, align_corners=False); F.grid_sample(image, flow, 'nearest', align_corners=False)
F.affine_grid(torch.eye(2, 3).repeat(E, 1, 1), (E, 3, H, W), align_corners=False); F.interpolate(nhwc, scale_factor=2)
F.interpolate(image, size=(H + 3, W + 5), mode='bilinear'); F.interpolate(nhwc, scale_factor=2, mode='bicubic')
F.interpolate(image, scale_factor=0.5)
F.interpolate(image, size=(H // 2, W // 2), mode='bilinear', align_corners=True)
F.interpolate(volume, scale_factor=2, mode='trilinear'); F.interpolate(signal, scale_factor=2)
F.interpolate(nhwc, scale_factor=0.5, mode='area'); F.grid_sample(nhwc, flow, align_corners=True)
F.grid_sample(image, flow, 'bicubic', align_corners=False)
F.grid_sample(image, flow, padding_mode='border', align_corners=False)
F.affine_grid(torch.eye(3, 4).repeat(E, 1, 1), (E, 3, 4, H, W), align_corners=True)
""",
    "pools": """
F.max_pool2d(image, 2); F.max_pool2d(nhwc, 2); F.max_pool2d(image, 3, 2, 1)
F.max_pool2d(image, 2, return_indices=True); F.avg_pool2d(image, 2); F.avg_pool2d(nhwc, 2)
F.avg_pool2d(image, 3, 1, 1); F.max_pool1d(signal, 2); F.avg_pool1d(signal, 3); F.max_pool3d(volume, 2)
F.avg_pool3d(volume, 2); F.adaptive_avg_pool2d(image, 1); F.adaptive_avg_pool2d(image, 7)
F.adaptive_max_pool2d(image, 4); F.adaptive_avg_pool2d(nhwc, 1); F.adaptive_avg_pool1d(signal, 16)
F.lp_pool2d(image, 2, 2); F.fractional_max_pool2d(image, 2, output_size=16)
""",
    "losses": """
torch.cdist(points, points); torch.pdist(points); torch.cdist(points, points, 1.0); F.cosine_similarity(x, y)
F.cosine_similarity(rows, rows); F.pairwise_distance(x, y); F.cross_entropy(x, labels); F.cross_entropy(image, plane)
F.cross_entropy(x, unit); F.cross_entropy(x, labels, label_smoothing=0.1); F.nll_loss(x, labels)
F.nll_loss(image, plane); F.binary_cross_entropy(unit, p / 1.2); F.binary_cross_entropy_with_logits(x, unit)
F.hinge_embedding_loss(x, signs); F.margin_ranking_loss(x, y, signs); F.triplet_margin_loss(x, y, p)
F.cosine_embedding_loss(points, points, torch.ones(P)); F.gaussian_nll_loss(x, y, p); F.multi_margin_loss(x, labels)
F.mse_loss(x, y, reduction='none'); F.cross_entropy(h, labels); F.cross_entropy(x, labels, reduction='none')
torch.cdist(points, inputs); F.l1_loss(x, y); F.smooth_l1_loss(x, y)
""",
    "factors": """
torch.linalg.inv(ms); torch.linalg.solve(spd, ms); torch.linalg.cholesky(spd); torch.linalg.qr(ms)
torch.linalg.svd(ms); torch.linalg.eigh(spd); torch.linalg.det(ms); torch.linalg.cholesky(spd1)
torch.linalg.inv(spd1); torch.linalg.solve(spd1, m); torch.linalg.qr(m); torch.linalg.svdvals(m)
torch.linalg.eigh(spd1); torch.linalg.det(m); torch.linalg.matrix_exp(ms); torch.linalg.lstsq(ms, ms)
torch.linalg.pinv(ms)
""",
    "creation": """
torch.zeros(R, C); torch.ones(R, C); torch.full((R, C), 3); torch.empty(R, C); torch.arange(N)
torch.arange(0, 1, 1 / N); torch.linspace(0, 1, N); torch.logspace(0, 1, N); torch.eye(R); torch.zeros_like(x)
torch.ones_like(h); torch.full_like(x, 2.0); torch.hann_window(N); torch.hamming_window(N); torch.kaiser_window(N)
torch.tensor(list(range(R)))
""",
    "fourier": """
torch.fft.fft(c); torch.fft.rfft(x); torch.fft.ifft(c); torch.fft.fft2(x); torch.fft.fftshift(x); torch.fft.irfft(c)
torch.stft(x1, C, window=row, return_complex=True); torch.fft.fft(x, dim=0); torch.fft.ifft2(c); torch.fft.rfft2(x)
torch.fft.irfft2(c); torch.fft.fft(z); torch.fft.rfft(d); torch.fft.fft(rows); torch.fft.rfft(rows)
torch.fft.fftn(cube); torch.fft.fft(x1); torch.fft.rfft(x1); torch.fft.hfft(c); torch.fft.fftfreq(N)
""",
    "gradients": """
leaf.exp().sum().backward(); (leaf * x).sum().backward(); leaf.sigmoid().mean().backward()
F.softmax(leaf, 1).sum().backward(); leaf.cumsum(1).sum().backward(); leaf.amax(1).sum().backward()
leaf.sort(1)[0].sum().backward(); leaf[picks].sum().backward(); leaf.gather(1, places).sum().backward()
leaf.norm().backward(); leaf.var(1).sum().backward(); F.gelu(leaf).sum().backward(); leaf.prod(1).sum().backward()
leaf.max(1)[0].sum().backward(); F.layer_norm(leaf, (C,)).sum().backward(); torch.cat((leaf, x), 1).sum().backward()
leaf.roll(3, 1).sum().backward(); leaf.logsumexp(1).sum().backward(); torch.cdist(dots, dots).sum().backward()
torch.pdist(dots).sum().backward(); F.embedding_bag(tokens, table.requires_grad_()).sum().backward()
leaf.std(0).sum().backward(); F.log_softmax(leaf, 1).sum().backward(); F.cross_entropy(leaf, labels).backward()
(leaf @ leaf.t()).sum().backward(); leaf.cumprod(1).sum().backward(); F.silu(leaf).sum().backward()
leaf.index_select(0, picks).sum().backward(); leaf.t().contiguous().sum().backward()
torch.stack((leaf, x)).sum().backward(); leaf.clamp(-1, 1).sum().backward(); leaf.pow(3).sum().backward()
leaf.abs().sqrt().sum().backward(); torch.where(flags, leaf, x).sum().backward()
""",
    "small": """
tiny + tiny2; tiny.mul_(tiny2); tiny.relu(); tiny.sum(); tiny.softmax(1); tiny @ tiny2.t(); tiny.view(-1); tiny[1:]
tiny.transpose(0, 1); torch.cat((tiny, tiny2)); tiny.to(torch.float64); tiny.clone(); torch.zeros(Z, L); tiny.shape
torch.randn(Z, L); torch.ones(Z, L); torch.empty(Z, L); tiny.size(0); tiny.dtype; tiny[0]; tiny.reshape(L, Z); tiny.t()
tiny.contiguous(); tiny.numel(); tiny.unsqueeze(0); tiny.mean(0); tiny.amax(1); tiny.permute(1, 0)
torch.stack((tiny, tiny2)); tiny.detach(); torch.arange(Z); torch.rand(Z, L); tiny.tolist(); tiny.sum().item()
torch.tensor([1.0, 2.0]); tiny.expand(2, Z, L); tiny.chunk(2); tiny.argmax(); tiny == tiny2
torch.where(tiny > 0, tiny, tiny2)
""",
    "convolutions": """
infer(conv, image); train(conv, image); infer(single, image); train(single, image); infer(deep, image)
train(deep, image); infer(stem, photo); train(stem, photo); infer(conv1, signal); train(conv1, signal)
infer(conv3, volume); train(conv3, volume); infer(upward, image); train(upward, image); infer(upward1, signal)
train(upward1, signal); infer(conv, nhwc); infer(single, nhwc); train(single, nhwc); infer(deep, nhwc)
""",
    "recurrence": """
infer(lstm, steps); train(lstm, steps); infer(gru, steps); train(gru, steps); infer(rnn, steps); train(rnn, steps)
infer(bilstm, steps); train(bilstm, steps); infer(lstm_out, steps); infer(lstm_cell, state); train(lstm_cell, state)
infer(gru_cell, state); train(gru_cell, state); infer(lstm, steps[:, :1]); infer(gru, steps[:, :1])
infer(rnn, steps[:, :1]); infer(lstm_cell, state[:1])
""",
    "layers": """
infer(linear, inputs); train(linear, inputs); infer(bilinear, inputs, inputs); train(bilinear, inputs, inputs)
infer(norm1, inputs); train(norm1, inputs); infer(norm5, inputs); train(norm5, inputs); infer(norm6, inputs)
train(norm6, inputs); infer(norm2, image); train(norm2, image); infer(norm3, image); train(norm3, image)
infer(norm4, image); train(norm4, image); infer(lookup, tokens); train(lookup, tokens); infer(bag, tokens)
train(bag, tokens); infer(mlp, inputs); train(mlp, inputs); infer(attention, words, words, words)
train(attention, words, words, words); infer(encoder, words); train(encoder, words); infer(decoder, words, words)
train(decoder, words, words); F.scaled_dot_product_attention(heads, heads, heads)
F.scaled_dot_product_attention(heads, heads, heads, is_causal=True); infer(linear, inputs[:1]); infer(mlp, inputs[:1])
""",
}

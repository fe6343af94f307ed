"""The networks of the `models` group, written once over plain `nn`.

Enters: `torch`, which is either library. Leaves: a module with fresh weights (the same for the same seed on both
sides). Nothing here imports torch or rushlight, so the two columns of the report run the same source.
"""

from __future__ import annotations

from typing import Any


def mlp(torch: Any) -> Any:
    """16-32-1 with a ReLU."""
    nn = torch.nn
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))


def lstm_language_model(torch: Any, vocabulary: int = 1000, width: int = 256) -> Any:
    """Embedding, two LSTM layers, and a projection to the vocabulary; [steps, batch] of tokens to logits."""
    nn = torch.nn

    class LanguageModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.lstm = nn.LSTM(width, width, 2)
            self.head = nn.Linear(width, vocabulary)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.lstm(self.embedding(tokens))[0])

    return LanguageModel()


def _shortcut(nn: Any, inside: int, outside: int, stride: int) -> Any:
    """What a residual block adds its result to: its input, projected where the shapes differ."""
    if stride == 1 and inside == outside:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))


def resnet18(torch: Any, classes: int = 10, large: bool = False) -> Any:
    """ResNet-18 as it is used on CIFAR: a 3x3 stem without pooling, four stages of two basic blocks; or for `large`
    images, with a 7x7 stem and pooling."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = _shortcut(nn, inside, outside, stride)

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            y += self.shortcut(x)
            return self.relu(y)

    stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False) if large else nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    blocks = [stem, nn.BatchNorm2d(64), nn.ReLU(inplace=True), *([nn.MaxPool2d(3, 2, 1)] if large else [])]
    inside = 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(inside, outside, stride), Block(outside, outside, 1)]
        inside = outside
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


# MobileNetV3-small: channels, expanded, results, kernel, whether channels are weighed, activation, stride
MOBILE = (
    (16, 16, 16, 3, True, "ReLU", 2), (16, 72, 24, 3, False, "ReLU", 2), (24, 88, 24, 3, False, "ReLU", 1),
    (24, 96, 40, 5, True, "Hardswish", 2), (40, 240, 40, 5, True, "Hardswish", 1),
    (40, 240, 40, 5, True, "Hardswish", 1), (40, 120, 48, 5, True, "Hardswish", 1),
    (48, 144, 48, 5, True, "Hardswish", 1), (48, 288, 96, 5, True, "Hardswish", 2),
    (96, 576, 96, 5, True, "Hardswish", 1), (96, 576, 96, 5, True, "Hardswish", 1),
)


def mobilenet(torch: Any, classes: int = 1000) -> Any:
    """MobileNetV3-small: convolutions of single channels between ones of single pixels, with channels weighed by what
    the image holds of them."""
    nn = torch.nn

    def layer(inside: int, outside: int, kernel: int, stride: int, groups: int, activation: str | None) -> Any:
        conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outside), *([getattr(nn, activation)()] if activation else []))

    class Weigh(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            few = max(8, (channels // 4 + 4) // 8 * 8)
            self.weights = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, few, 1), nn.ReLU(),
                                         nn.Conv2d(few, channels, 1), nn.Hardsigmoid())

        def forward(self, x: Any) -> Any:
            return x * self.weights(x)

    class Block(nn.Module):
        def __init__(self, inside, wide, outside, kernel, weighs, activation, stride) -> None:
            super().__init__()
            parts = [] if wide == inside else [layer(inside, wide, 1, 1, 1, activation)]
            parts += [layer(wide, wide, kernel, stride, wide, activation), *([Weigh(wide)] if weighs else [])]
            self.parts = nn.Sequential(*parts, layer(wide, outside, 1, 1, 1, None))
            self.adds = stride == 1 and inside == outside

        def forward(self, x: Any) -> Any:
            return x + self.parts(x) if self.adds else self.parts(x)

    return nn.Sequential(
        layer(3, 16, 3, 2, 1, "Hardswish"), *[Block(*sizes) for sizes in MOBILE], layer(96, 576, 1, 1, 1, "Hardswish"),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, classes),
    )


def unet(torch: Any, width: int = 16, classes: int = 2) -> Any:
    """Three levels down by max-pooling, three up by transposed convolution, with the skips concatenated."""
    nn = torch.nn

    def double(inside: int, outside: int) -> Any:
        layers = []
        for wide in (inside, outside):
            layers += [nn.Conv2d(wide, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [width, 2 * width, 4 * width, 8 * width]
            self.pool = nn.MaxPool2d(2)
            self.down = nn.ModuleList([double(before, after) for before, after in zip([3, *widths], widths)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(2 * wide, wide, 2, stride=2) for wide in widths[-2::-1]])
            self.merge = nn.ModuleList([double(2 * wide, wide) for wide in widths[-2::-1]])
            self.head = nn.Conv2d(width, classes, 1)

        def forward(self, x: Any) -> Any:
            skips = []
            for level in self.down[:-1]:
                x = level(x)
                skips.append(x)
                x = self.pool(x)
            x = self.down[-1](x)
            for up, merge in zip(self.up, self.merge):
                x = merge(torch.cat([skips.pop(), up(x)], 1))
            return self.head(x)

    return UNet()


def gpt(
    torch: Any,
    layers: int = 6,
    width: int = 384,
    heads: int = 6,
    context: int = 256,
    vocabulary: int = 65,
    dropout: float = 0.0,
) -> Any:
    """A character-level GPT: learned positions, pre-norm blocks, causal attention, GELU,
    the head tied to the embedding."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.drop = nn.Dropout(dropout)

        def attend(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                t.view(batch, length, heads, width // heads).transpose(1, 2) for t in self.qkv(x).split(width, 2)
            )
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout if self.training else 0.0, is_causal=True)
            return self.drop(self.proj(y.transpose(1, 2).reshape(batch, length, width)))

        def forward(self, x: Any) -> Any:
            x = x + self.attend(self.norm1(x))
            return x + self.drop(self.out(F.gelu(self.fc(self.norm2(x)))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.drop = nn.Dropout(dropout)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens: Any) -> Any:
            x = self.drop(self.tokens(tokens) + self.places(torch.arange(tokens.shape[1])))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def bert(torch: Any, layers: int = 4, width: int = 256, heads: int = 4, vocabulary: int = 30522) -> Any:
    """BERT-mini from nn's own encoder layers, with the pooler; [batch, length] of tokens to (states, pooled)."""
    nn = torch.nn

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places, self.kinds = (
                nn.Embedding(vocabulary, width),
                nn.Embedding(512, width),
                nn.Embedding(2, width),
            )
            self.norm = nn.LayerNorm(width, eps=1e-12)
            layer = nn.TransformerEncoderLayer(
                width, heads, 4 * width, activation="gelu", layer_norm_eps=1e-12, batch_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.pooler = nn.Linear(width, width)

        def forward(self, tokens: Any) -> Any:
            places = torch.arange(tokens.shape[1])
            x = self.tokens(tokens) + self.places(places) + self.kinds(torch.zeros_like(tokens))
            states = self.encoder(self.norm(x))
            return states, torch.tanh(self.pooler(states[:, 0]))

    return Bert()


def vit(torch: Any, layers: int = 12, width: int = 192, heads: int = 3, classes: int = 1000) -> Any:
    """ViT-tiny with 16x16 patches of 224x224 pixels, written out block by block."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                self.qkv(self.norm1(x))
                .reshape(batch, length, 3, heads, width // heads)
                .permute(2, 0, 3, 1, 4)
                .unbind(0)
            )
            attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
            x = x + self.proj(attended)
            return x + self.mlp(self.norm2(x))

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.token = nn.Parameter(torch.zeros(1, 1, width))
            self.places = nn.Parameter(torch.randn(1, 197, width) * 0.02)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.head = nn.Linear(width, classes)

        def forward(self, images: Any) -> Any:
            x = self.patches(images).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return ViT()


def gpt2(
    torch: Any, vocabulary: int = 50257, length: int = 1024, width: int = 768, depth: int = 12, turned: bool = False,
    chunk: int = 0,
) -> Any:
    """GPT-2 of 124M parameters: learned positions, pre-norm blocks, causal attention, the head tied to the embedding;
    (tokens, targets) to the loss. `turned`: query, key and value are taken apart by `permute`, not by `split`. `chunk`:
    scores are held of so many words at a time."""
    nn, functional = torch.nn, torch.nn.functional
    heads = width // 64

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.inside, self.outside = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, steps = x.shape[:2]
            joined = self.attend(self.ln1(x))
            if turned:
                q, k, v = joined.view(batch, steps, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            else:
                q, k, v = joined.split(width, dim=2)
                q, k, v = (t.view(batch, steps, heads, width // heads).transpose(1, 2) for t in (q, k, v))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(batch, steps, width))
            return x + self.outside(functional.gelu(self.inside(self.ln2(x)), approximate="tanh"))

    class GPT2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(depth)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens: Any, targets: Any) -> Any:
            x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            if chunk:
                options = nn.LinearCrossEntropyOptions(batch_chunk_size=chunk, chunking_method=None,
                                                       acc_policy="compact")
                return functional.linear_cross_entropy(
                    self.norm(x).view(-1, width), self.head.weight, targets.view(-1), options=options)
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))

    return GPT2()


def decoder(torch: Any, width: int = 2048, depth: int = 16, most: int = 1024, vocabulary: int = 32000) -> Any:
    """A language model of 0.88 billion parameters that says one word at a time: (word [1, 1], place [1]) to the next
    word, keys and values kept in memory for `most` words. Query heads share those of keys, two each."""
    nn, functional = torch.nn, torch.nn.functional
    heads, own, inside = width // 128, width // 256, width * 11 // 4

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
            self.attend = nn.Linear(width, (heads + 2 * own) * 128, bias=False)
            self.project = nn.Linear(width, width, bias=False)
            self.gate, self.up = nn.Linear(width, inside, bias=False), nn.Linear(width, inside, bias=False)
            self.down = nn.Linear(inside, width, bias=False)
            self.register_buffer("keys", torch.zeros(1, own, most, 128))
            self.register_buffer("values", torch.zeros(1, own, most, 128))

        def forward(self, x: Any, place: Any, seen: Any, cosine: Any, sine: Any) -> Any:
            joined = self.attend(self.first(x)).view(1, 1, heads + 2 * own, 128).transpose(1, 2)
            q, k, v = joined.split((heads, own, own), dim=1)
            q, k = (t * cosine + torch.cat((-t[..., 64:], t[..., :64]), -1) * sine for t in (q, k))
            self.keys.index_copy_(2, place, k)
            self.values.index_copy_(2, place, v)
            y = functional.scaled_dot_product_attention(
                q, self.keys, self.values, attn_mask=seen, enable_gqa=True
            )
            x = x + self.project(y.transpose(1, 2).reshape(1, 1, width))
            y = self.second(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.blocks = nn.Embedding(vocabulary, width), nn.ModuleList([Block() for _ in range(depth)])
            self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
            angles = torch.arange(most)[:, None] * 10000.0 ** (-torch.arange(64) / 64.0)
            self.register_buffer("cosine", angles.cos().repeat(1, 2))
            self.register_buffer("sine", angles.sin().repeat(1, 2))

        def forward(self, word: Any, place: Any) -> Any:
            x, seen = self.words(word), (torch.arange(most, device=word.device) <= place).view(1, 1, 1, most)
            cosine, sine = self.cosine[place], self.sine[place]
            for block in self.blocks:
                x = block(x, place, seen, cosine, sine)
            return self.head(self.norm(x)).argmax(-1)

    return Decoder()


def resnet50(torch: Any, classes: int = 1000) -> Any:
    """ResNet-50 for 224x224 images: four stages of bottleneck blocks."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inside: int, middle: int, stride: int) -> None:
            super().__init__()
            outside = 4 * middle
            self.conv1, self.bn1 = nn.Conv2d(inside, middle, 1, bias=False), nn.BatchNorm2d(middle)
            self.conv2 = nn.Conv2d(middle, middle, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(middle)
            self.conv3, self.bn3 = nn.Conv2d(middle, outside, 1, bias=False), nn.BatchNorm2d(outside)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = _shortcut(nn, inside, outside, stride)

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            y += self.shortcut(x)
            return self.relu(y)

    blocks: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    blocks.append(nn.MaxPool2d(3, 2, 1))
    inside = 64
    for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            blocks.append(Block(inside, middle, stride if i == 0 else 1))
            inside = 4 * middle
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))

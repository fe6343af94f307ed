"""An LSTM language model, a transformer fine-tuned with frozen layers, and attention written out."""

import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class State(NamedTuple):
    hidden: Tensor
    cell: Tensor


class CharLSTM(nn.Module):
    def __init__(self, vocabulary: int, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=layers, batch_first=True, dropout=0.1)
        self.out = nn.Linear(width, vocabulary)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        embedded = self.embed(tokens)
        output, (hidden, cell) = self.lstm(embedded, state)
        return self.out(output), State(hidden, cell)

    def init_state(self, batch: int) -> State:
        weight = next(self.parameters())
        shape = (self.lstm.num_layers, batch, self.lstm.hidden_size)
        return State(weight.new_zeros(shape), weight.new_zeros(shape))

    @torch.no_grad()
    def sample(self, start: int, length: int, temperature: float = 1.0) -> list[int]:
        self.eval()
        tokens = [start]
        state: State | None = None
        for _ in range(length):
            logits, state = self(torch.tensor([[tokens[-1]]]), state)
            probabilities = F.softmax(logits[0, -1] / temperature, dim=-1)
            tokens.append(int(torch.multinomial(probabilities, num_samples=1).item()))
        return tokens


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.size()
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (part.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for part in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = F.softmax(scores.masked_fill(torch.ones(time, time).triu(1).bool(), float("-inf")), dim=-1)
        y = (scores @ v).transpose(1, 2).contiguous().view(batch, time, width)
        return self.project(y)


class Classifier(nn.Module):
    def __init__(self, width: int = 16, classes: int = 2) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            d_model=width, nhead=2, dim_feedforward=32, batch_first=True, activation="gelu"
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.own = Attention(width, 2)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        padding = torch.arange(x.size(1))[None, :] >= lengths[:, None]
        x = self.encoder(x, src_key_padding_mask=padding)
        attended, _ = self.attention(x, x, x, need_weights=True)
        x = x + self.own(attended)
        return self.head(x[:, 0])


def fine_tune() -> float:
    model = Classifier()
    for parameter in model.encoder.parameters():
        parameter.requires_grad_(False)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=5e-4)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    x, lengths, y = torch.randn(4, 6, 16), torch.tensor([6, 5, 3, 2]), torch.tensor([0, 1, 0, 1])
    loss = torch.zeros(())
    for step in range(3):
        optimizer.zero_grad()
        with torch.amp.autocast("cpu", enabled=False):
            loss = F.cross_entropy(model(x, lengths), y, reduction="mean")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_value_(trainable, 0.5)
        scaler.step(optimizer)
        scaler.update()
    return loss.item()


def packed() -> Tensor:
    rows = [torch.randn(n, 4) for n in (5, 3, 2)]
    batch = pad_sequence(rows, batch_first=True)
    gru = nn.GRU(4, 8, batch_first=True, bidirectional=True)
    output, hidden = gru(pack_padded_sequence(batch, [5, 3, 2], batch_first=True))
    unpacked, lengths = pad_packed_sequence(output, batch_first=True)
    return unpacked.sum() + hidden.sum() + lengths.sum()


if __name__ == "__main__":
    model = CharLSTM(20)
    logits, state = model(torch.randint(1, 20, (2, 5)), model.init_state(2))
    print(logits.shape, state.hidden.shape, model.sample(1, 5), fine_tune(), packed().item())

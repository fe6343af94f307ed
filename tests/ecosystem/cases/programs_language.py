"""Programs in the manner of the tutorials, on text: a character GPT, a classifier over packed sequences, translation,
a policy."""

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

NEEDS = ""
TEXT = "the quick brown fox jumps over the lazy dog and runs through the night until the morning light comes. " * 4


class CausalSelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).view(1, 1, context, context))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.size()
        q, k, v = (part.view(B, T, self.heads, C // self.heads).transpose(1, 2) for part in self.qkv(x).split(C, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = self.drop(F.softmax(scores, dim=-1)) @ v
        return self.out(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CausalSelfAttention(width, heads, context)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int, width: int = 32, heads: int = 4, layers: int = 2, context: int = 16) -> None:
        super().__init__()
        self.context = context
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads, context) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.tokens.weight = self.head.weight
        self.apply(self.initialise)

    def initialise(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor | None = None) -> tuple:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return logits, None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, ids: torch.Tensor, count: int, top_k: int) -> torch.Tensor:
        for _ in range(count):
            logits = self(ids[:, -self.context:])[0][:, -1, :] / 0.8
            kept, _ = torch.topk(logits, top_k)
            logits[logits < kept[:, [-1]]] = -float("inf")
            ids = torch.cat((ids, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return ids


def case_character_gpt() -> dict:
    letters = sorted(set(TEXT))
    number = {letter: i for i, letter in enumerate(letters)}
    data = torch.tensor([number[letter] for letter in TEXT], dtype=torch.long)
    model = GPT(len(letters))
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=3e-3, betas=(0.9, 0.95)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 5) * 0.5 * (1 + math.cos(math.pi * step / 40))
    )
    losses, norms = [], []
    for _ in range(20):
        at = torch.randint(len(data) - model.context, (8,))
        x = torch.stack([data[i:i + model.context] for i in at])
        y = torch.stack([data[i + 1:i + 1 + model.context] for i in at])
        optimizer.zero_grad(set_to_none=True)
        _, loss = model(x, y)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    written = model.generate(torch.zeros(1, 1, dtype=torch.long), 30, 5)
    return {
        "losses": losses,
        "norms": norms,
        "rate": schedule.get_last_lr(),
        "text": "".join(letters[i] for i in written[0].tolist()),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


class Classifier(nn.Module):
    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 12, padding_idx=0)
        self.lstm = nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.head = nn.Linear(32, classes)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> tuple:
        packed = pack_padded_sequence(self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, (hidden, _) = self.lstm(packed)
        padded, counts = pad_packed_sequence(out, batch_first=True)
        return self.head(torch.cat([hidden[-2], hidden[-1]], dim=1)), padded, counts


def case_packed_lstm_classifier() -> dict:
    sentences = [torch.randint(1, 30, (length,)) for length in (7, 3, 9, 1, 5, 4)]
    labels = torch.tensor([0, 1, 2, 1, 0, 2])
    ids, lengths = pad_sequence(sentences, batch_first=True), torch.tensor([len(s) for s in sentences])
    model = Classifier(30, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        scores, padded, counts = model(ids, lengths)
        loss = nn.CrossEntropyLoss(label_smoothing=0.1)(scores, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {
        "losses": losses,
        "padded": padded,
        "counts": counts,
        "padding": model.embedding.weight[0],
        "accuracy": (scores.argmax(1) == labels).float().mean(),
    }


class Seq2Seq(nn.Module):
    """A GRU encoder and an attending GRU decoder."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRUCell(2 * width, width)
        self.query, self.key, self.energy = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)
        self.out = nn.Linear(width, words)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, hidden = self.encoder(self.source(source))
        hidden, scores = hidden[0], []
        for t in range(target.size(1)):
            weights = F.softmax(
                self.energy(torch.tanh(self.query(hidden).unsqueeze(1) + self.key(memory))).squeeze(-1), dim=-1
            )
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            hidden = self.decoder(torch.cat([self.target(target[:, t]), context], dim=-1), hidden)
            scores.append(F.log_softmax(self.out(hidden), dim=-1))
        return torch.stack(scores, dim=1)


def case_attention_translation() -> dict:
    model = Seq2Seq(11, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    source, target, losses = torch.randint(11, (4, 6)), torch.randint(11, (4, 5)), []
    for _ in range(8):
        optimizer.zero_grad()
        scores = model(source, target)
        loss = F.nll_loss(scores.flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "best": scores.topk(1).indices, "grads": [p.grad for p in model.parameters()]}


def case_transformer_translation() -> dict:
    model = nn.Transformer(
        d_model=16,
        nhead=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dim_feedforward=32,
        dropout=0.1,
        batch_first=True,
    )
    embed, head = nn.Embedding(13, 16), nn.Linear(16, 13)
    everything = nn.ModuleList([model, embed, head])
    optimizer = torch.optim.Adam(everything.parameters(), lr=1e-2, betas=(0.9, 0.98), eps=1e-9)
    source, target = torch.randint(1, 13, (4, 7)), torch.randint(1, 13, (4, 6))
    source[:, -2:] = 0
    mask, losses = nn.Transformer.generate_square_subsequent_mask(5), []
    for _ in range(6):
        optimizer.zero_grad()
        out = model(
            embed(source),
            embed(target[:, :-1]),
            tgt_mask=mask,
            src_key_padding_mask=source == 0,
            memory_key_padding_mask=source == 0,
        )
        loss = F.cross_entropy(head(out).reshape(-1, 13), target[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    everything.eval()
    with torch.inference_mode():
        encoded = model.encoder(embed(source), src_key_padding_mask=source == 0)
    return {"losses": losses, "encoded": encoded, "mask": mask}


class Walk:
    """A corridor: reward at the right end, a small cost for every step."""

    def reset(self) -> torch.Tensor:
        self.at, self.steps = 2, 0
        return self.view()

    def view(self) -> torch.Tensor:
        return F.one_hot(torch.tensor(self.at), 6).float()

    def step(self, action: int) -> tuple[torch.Tensor, float, bool]:
        self.at, self.steps = min(5, max(0, self.at + (1 if action else -1))), self.steps + 1
        return self.view(), 1.0 if self.at == 5 else -0.05, self.at == 5 or self.steps == 12


def case_reinforce_and_critic() -> dict:
    policy, critic = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)), nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)
    )
    optimizer = torch.optim.RMSprop([*policy.parameters(), *critic.parameters()], lr=5e-3)
    env, returns_seen, losses = Walk(), [], []
    for _ in range(12):
        state, done, log_probs, values, rewards, entropies = env.reset(), False, [], [], [], []
        while not done:
            chance = Categorical(logits=policy(state))
            action = chance.sample()
            log_probs.append(chance.log_prob(action))
            entropies.append(chance.entropy())
            values.append(critic(state).squeeze())
            state, reward, done = env.step(action.item())
            rewards.append(reward)
        total, returns = 0.0, []
        for reward in reversed(rewards):
            total = reward + 0.95 * total
            returns.insert(0, total)
        returns, values = torch.tensor(returns), torch.stack(values)
        advantage = returns - values.detach()
        loss = (
            -(torch.stack(log_probs) * advantage).sum()
            + F.smooth_l1_loss(values, returns)
            - 0.01 * torch.stack(entropies).sum()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        returns_seen.append(sum(rewards))
        losses.append(loss.item())
    return {"returns": returns_seen, "losses": losses}


def case_word_vectors() -> dict:
    words = TEXT.split()[:60]
    number = {word: i for i, word in enumerate(dict.fromkeys(words))}
    inputs, outputs = nn.Embedding(len(number), 8, sparse=True), nn.Embedding(len(number), 8, sparse=True)
    optimizer = torch.optim.SparseAdam([*inputs.parameters(), *outputs.parameters()], lr=0.05)
    losses = []
    for _ in range(3):
        pairs = [
            (number[words[i]], number[words[j]])
            for i in range(len(words))
            for j in (i - 1, i + 1)
            if 0 <= j < len(words)
        ]
        centre, context = torch.tensor(pairs).T
        noise = torch.multinomial(torch.bincount(context).float().pow(0.75), 4 * len(pairs), replacement=True).view(
            len(pairs), 4
        )
        optimizer.zero_grad()
        near = F.logsigmoid((inputs(centre) * outputs(context)).sum(-1))
        far = F.logsigmoid(-torch.einsum("bd,bnd->bn", inputs(centre), outputs(noise))).sum(-1)
        loss = -(near + far).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    bag = nn.EmbeddingBag.from_pretrained(inputs.weight.detach(), mode="mean")
    return {"losses": losses, "bags": bag(torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 3])),
            "near": F.cosine_similarity(inputs.weight[:1], inputs.weight).argsort(descending=True)}

"""Programs in the manner of the tutorials, on other problems: a CRF, equations of physics, Q-learning, distillation,
decompositions."""

from __future__ import annotations

import copy
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

NEEDS = ""
TOLERANCE = 1e-3   # second derivatives and chosen actions magnify rounding


class Tagger(nn.Module):
    """A bidirectional LSTM with a conditional random field on top."""

    def __init__(self, words: int, tags: int) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = (
            nn.Embedding(words, 6),
            nn.LSTM(6, 4, bidirectional=True),
            nn.Linear(8, tags),
        )
        self.moves = nn.Parameter(torch.randn(tags, tags))

    def scores(self, sentence: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(sentence).view(len(sentence), 1, -1))[0].view(len(sentence), -1))

    def loss(self, sentence: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        scores = self.scores(sentence)
        total = scores[0]
        for step in scores[1:]:
            total = torch.logsumexp(total.unsqueeze(1) + self.moves, dim=0) + step
        gold = scores.gather(1, tags.unsqueeze(1)).sum() + self.moves[tags[:-1], tags[1:]].sum()
        return torch.logsumexp(total, 0) - gold

    @torch.no_grad()
    def decode(self, sentence: torch.Tensor) -> list[int]:
        best, back = None, []
        for step in self.scores(sentence):
            if best is None:
                best = step
                continue
            value, at = (best.unsqueeze(1) + self.moves).max(dim=0)
            best = value + step
            back.append(at)
        path = [int(best.argmax())]
        for at in reversed(back):
            path.append(int(at[path[-1]]))
        return path[::-1]


def case_tagger_with_crf() -> dict:
    model, sentence, tags = Tagger(12, 4), torch.tensor([1, 5, 3, 3, 8, 2]), torch.tensor([0, 1, 2, 2, 3, 0])
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4), []
    for _ in range(8):
        model.zero_grad()
        loss = model.loss(sentence, tags)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "path": model.decode(sentence)}


def case_physics_informed() -> dict:
    """u'' = -sin(x) with u(0) = u(pi) = 0, by the derivatives of the network."""
    network = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    optimizer, losses = torch.optim.Adam(network.parameters(), lr=1e-2), []
    for _ in range(15):
        x = (torch.rand(32, 1, dtype=torch.float64) * torch.pi).requires_grad_()
        u = network(x)
        first, = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
        second, = torch.autograd.grad(first, x, torch.ones_like(first), create_graph=True)
        loss = (second + torch.sin(x)).square().mean() + network(
            torch.tensor([[0.0], [torch.pi]], dtype=torch.float64)
        ).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "grads": [p.grad for p in network.parameters()]}


Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


def case_deep_q_learning() -> dict:
    policy = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(policy)
    memory, optimizer, losses, actions = (
        deque(maxlen=50),
        torch.optim.AdamW(policy.parameters(), lr=1e-2, amsgrad=True),
        [],
        [],
    )
    state = torch.zeros(1, 3)
    for step in range(30):
        action = (
            policy(state).max(1).indices.view(1, 1) if random.random() > 0.3 else torch.tensor([[random.randrange(2)]])
        )
        moved = state + torch.tensor([[0.1, -0.1, 0.05]]) * (1 if action.item() else -1)
        memory.append(Transition(state, action, None if step % 10 == 9 else moved, -moved.abs().sum().view(1)))
        actions.append(action.item())
        state = torch.zeros(1, 3) if step % 10 == 9 else moved
        if len(memory) < 8:
            continue
        batch = Transition(*zip(*random.sample(memory, 8)))
        kept = torch.tensor([s is not None for s in batch.next_state])
        ahead = torch.zeros(8)
        with torch.no_grad():
            ahead[kept] = target(torch.cat([s for s in batch.next_state if s is not None])).max(1).values
        values = policy(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
        loss = nn.SmoothL1Loss()(values, (ahead * 0.9 + torch.cat(batch.reward)).unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        target.load_state_dict(
            {key: policy.state_dict()[key] * 0.05 + value * 0.95 for key, value in target.state_dict().items()}
        )
        losses.append(loss.item())
    return {"losses": losses, "actions": actions}


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(True), nn.Flatten(), nn.Linear(4 * 25, 6)
        )
        self.where[-1].weight.data.zero_()
        self.where[-1].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(3), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(36, 5)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grid = F.affine_grid(self.where(x).view(-1, 2, 3), x.size(), align_corners=False)
        return F.log_softmax(self.features(F.grid_sample(x, grid, align_corners=False)), dim=1)


def case_spatial_transformer() -> dict:
    model, pictures, labels, losses = SpatialTransformer(), torch.rand(6, 1, 12, 12), torch.randint(5, (6,)), []
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for _ in range(6):
        optimizer.zero_grad()
        loss = F.nll_loss(model(pictures), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "where": model.where(pictures)}


def case_distillation_and_siamese() -> dict:
    teacher, student = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 4)).eval(), nn.Sequential(
        nn.Linear(6, 4), nn.Hardswish(), nn.Linear(4, 4)
    )
    student = nn.DataParallel(student)   # without accelerators: the module itself
    optimizer, losses, x, y = (
        torch.optim.NAdam(student.parameters(), lr=0.02),
        [],
        torch.randn(16, 6),
        torch.randint(4, (16,)),
    )
    for _ in range(6):
        with torch.no_grad():
            soft = F.softmax(teacher(x) / 2, dim=-1)
        scores = student(x)
        loss = 4 * F.kl_div(F.log_softmax(scores / 2, dim=-1), soft, reduction="batchmean") + F.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    a, b, c = (student(torch.randn(5, 6)) for _ in range(3))
    pairs = [
        nn.TripletMarginLoss(margin=1.0)(a, b, c),
        nn.CosineEmbeddingLoss(0.1)(a, b, torch.tensor([1, -1, 1, -1, 1])),
        nn.MarginRankingLoss()(a[:, 0], b[:, 0], torch.ones(5)),
    ]
    return {"losses": losses, "pairs": pairs, "keys": list(student.state_dict())}


def case_decompositions_and_clusters() -> dict:
    points = torch.cat([torch.randn(20, 3) + shift for shift in (-4.0, 0.0, 4.0)])
    centres = points[torch.randperm(len(points))[:3]]
    for _ in range(5):
        nearest = torch.cdist(points, centres).argmin(1)
        centres = torch.zeros(3, 3).index_add_(0, nearest, points) / torch.bincount(nearest, minlength=3).clamp(
            min=1
        ).unsqueeze(1)
    centred = points - points.mean(0)
    _, values, axes = torch.linalg.svd(centred, full_matrices=False)
    spectrum = torch.fft.rfft(torch.sin(torch.arange(64) * 0.3) + 0.1 * torch.randn(64))
    return {
        "nearest": nearest,
        "centres": centres,
        "values": values,
        "axes": axes.abs(),
        "covariance": torch.cov(points.T),
        "solved": torch.linalg.lstsq(points, points @ torch.ones(3, 2)).solution,
        "peak": spectrum.abs().argmax(),
        "smooth": F.conv1d(points.T.unsqueeze(1), torch.ones(1, 1, 5) / 5, padding="same"),
        "quantiles": torch.quantile(points, torch.tensor([0.1, 0.5]), dim=0),
        "unique": list(torch.unique(nearest, return_counts=True)),
        "histogram": torch.histogram(points.flatten(), 6)[0],
    }


def case_compiled() -> dict:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    compiled = torch.compile(model, backend="eager")
    optimizer, losses = torch.optim.SGD(compiled.parameters(), lr=0.05), []
    for _ in range(4):
        loss = compiled(torch.ones(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {"losses": losses, "keys": list(compiled.state_dict())}

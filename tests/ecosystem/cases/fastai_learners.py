"""fastai: learners with the one-cycle schedule, callbacks and mixed precision; its tensors and optimizers."""

from __future__ import annotations

import tempfile

import numpy
import pandas
import torch
import torch.nn as nn
from fastai.callback.all import EarlyStoppingCallback, MixUp, SaveModelCallback
from fastai.callback.schedule import Learner
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.layers import ConvLayer, Flatten, SelfAttention
from fastai.losses import CrossEntropyLossFlat, FocalLossFlat, LabelSmoothingCrossEntropy
from fastai.metrics import F1Score, accuracy
from fastai.optimizer import Adam, Lamb, Lookahead, RMSProp, ranger
from fastai.tabular.all import Categorify, FillMissing, Normalize, TabularDataLoaders, tabular_learner
from fastai.torch_core import TensorImage, TensorMask, set_seed

NEEDS = "fastai"
TOLERANCE = 1e-3


class Points:
    def __init__(self, count: int) -> None:
        self.x = torch.randn(count, 4)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple:
        return self.x[i], self.y[i]


def learner(folder: str, **options: object) -> Learner:
    set_seed(3)
    loaders = DataLoaders(
        DataLoader(Points(48), bs=16, shuffle=True, num_workers=0),
        DataLoader(Points(16), bs=16, num_workers=0),
        device="cpu",
    )
    model = nn.Sequential(nn.Linear(4, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    result = Learner(
        loaders, model, loss_func=CrossEntropyLossFlat(), metrics=[accuracy, F1Score()], path=folder, **options
    )
    result.remove_cbs([callback for callback in result.cbs if type(callback).__name__ == "ProgressCallback"])
    return result


def report(result: Learner) -> dict:
    return {
        "values": [list(row) for row in result.recorder.values],
        "losses": list(result.recorder.losses),
        "rates": [float(rate) for rate in result.recorder.lrs],
        "state": dict(result.model.state_dict()),
    }


def case_one_cycle() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        result = learner(folder, cbs=[SaveModelCallback(), EarlyStoppingCallback(patience=2)])
        result.logger = lambda *args: None
        result.fit_one_cycle(3, 1e-2)
        chances, labels = result.get_preds()
        return {**report(result), "chances": chances, "labels": labels}


def case_mixup_and_accumulation() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        result = learner(folder, cbs=[MixUp(0.4)], opt_func=RMSProp, wd=0.01)
        result.logger = lambda *args: None
        result.fit_flat_cos(2, 1e-2)
        result.save("kept")
        result.load("kept")
        return report(result)


def case_optimizers() -> dict:
    results = {}
    for kind in (Adam, Lamb, RMSProp, ranger, lambda p, **k: Lookahead(Adam(p, **k))):
        torch.manual_seed(0)
        layer = nn.Linear(5, 3)
        optimizer = kind(layer.parameters(), lr=0.05)
        for _ in range(7):
            layer(torch.ones(2, 5)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        results[f"{getattr(kind, '__name__', 'lookahead')}"] = [layer.weight, layer.bias]
    return results


def case_layers_and_tensors() -> dict:
    picture = TensorImage(torch.rand(2, 3, 8, 8))
    model = nn.Sequential(ConvLayer(3, 8), SelfAttention(8), nn.AdaptiveAvgPool2d(1), Flatten(), nn.Linear(8, 2))
    scores = model(picture)
    loss = LabelSmoothingCrossEntropy()(scores, torch.tensor([0, 1])) + FocalLossFlat()(scores, torch.tensor([1, 0]))
    loss.backward()
    mask = TensorMask(torch.ones(2, 2))
    return {
        "scores": scores.as_subclass(torch.Tensor),
        "kind": type(scores).__name__,
        "sum": type(picture + 1).__name__,
        "mask": type(mask * 2).__name__,
        "loss": loss.as_subclass(torch.Tensor),
        "norms": torch.stack([p.grad.norm() for p in model.parameters()]),
    }


def case_tabular() -> dict:
    set_seed(5)
    frame = pandas.DataFrame(
        {"a": numpy.random.randn(60), "b": numpy.random.rand(60), "kind": numpy.random.choice(["x", "y", "z"], 60)}
    )
    frame["label"] = (frame.a > 0).map({True: "yes", False: "no"})
    frame.loc[3, "b"] = numpy.nan
    with tempfile.TemporaryDirectory() as folder:
        loaders = TabularDataLoaders.from_df(
            frame,
            path=folder,
            procs=[Categorify, FillMissing, Normalize],
            cat_names=["kind"],
            cont_names=["a", "b"],
            y_names="label",
            valid_idx=list(range(45, 60)),
            bs=15,
            num_workers=0,
        )
        result = tabular_learner(loaders, layers=[12, 6], metrics=accuracy)
        result.logger = lambda *args: None
        with result.no_bar():
            result.fit_one_cycle(2, 1e-2)
        return report(result)

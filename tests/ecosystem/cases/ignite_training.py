"""PyTorch-Ignite: engines, events, metrics, handlers."""

from __future__ import annotations

import os
import tempfile

import torch
import torch.nn as nn
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import (
    Checkpoint,
    DiskSaver,
    EarlyStopping,
    EMAHandler,
    PiecewiseLinear,
    TerminateOnNan,
    global_step_from_engine,
)
from ignite.metrics import (
    SSIM,
    Accuracy,
    ConfusionMatrix,
    Fbeta,
    Loss,
    MeanSquaredError,
    Precision,
    Recall,
    RunningAverage,
    TopKCategoricalAccuracy,
)
from torch.utils.data import DataLoader, TensorDataset

NEEDS = "pytorch-ignite"


def parts() -> tuple:
    x = torch.randn(40, 5)
    loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long() + (x[:, 0] > 1).long()), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 3))
    return loader, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def case_trainer_and_metrics() -> dict:
    loader, model, optimizer = parts()
    criterion = nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, criterion)
    precision, recall = Precision(average=False), Recall(average=False)
    evaluator = create_supervised_evaluator(
        model,
        metrics={
            "accuracy": Accuracy(),
            "loss": Loss(criterion),
            "precision": precision,
            "recall": recall,
            "f1": (precision * recall * 2 / (precision + recall + 1e-9)).mean(),
            "matrix": ConfusionMatrix(3),
            "top": TopKCategoricalAccuracy(2),
            "fbeta": Fbeta(0.5),
        },
    )
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "average")
    trainer.add_event_handler(
        Events.ITERATION_STARTED, PiecewiseLinear(optimizer, "lr", [(0, 0.01), (5, 0.1), (15, 0.01)])
    )
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
    averages, metrics, losses = [], [], []
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=2), lambda engine: losses.append(engine.state.output))

    @trainer.on(Events.EPOCH_COMPLETED)
    def evaluate(engine: Engine) -> None:
        evaluator.run(loader)
        metrics.append(dict(evaluator.state.metrics))
        averages.append(engine.state.metrics["average"])

    trainer.run(loader, max_epochs=3)
    return {"losses": losses, "averages": averages, "metrics": metrics, "rate": optimizer.param_groups[0]["lr"]}


def case_checkpoints_and_averages() -> dict:
    loader, model, optimizer = parts()
    trainer = create_supervised_trainer(model, optimizer, nn.CrossEntropyLoss())
    ema = EMAHandler(model, momentum=0.1)
    ema.attach(trainer, event=Events.ITERATION_COMPLETED)
    stopper = EarlyStopping(patience=2, score_function=lambda engine: -engine.state.output, trainer=trainer)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, stopper)
    with tempfile.TemporaryDirectory() as folder:
        keeper = Checkpoint(
            {"model": model, "optimizer": optimizer, "trainer": trainer},
            DiskSaver(folder),
            n_saved=2,
            global_step_transform=global_step_from_engine(trainer),
        )
        trainer.add_event_handler(Events.EPOCH_COMPLETED, keeper)
        state = trainer.run(loader, max_epochs=4)
        _, other, other_optimizer = parts()
        Checkpoint.load_objects({"model": other, "optimizer": other_optimizer}, torch.load(keeper.last_checkpoint))
        name = os.path.basename(keeper.last_checkpoint)
    return {
        "epochs": state.epoch,
        "name": name,
        "model": dict(other.state_dict()),
        "average": dict(ema.ema_model.state_dict()),
        "loss": state.output,
    }


def case_picture_metrics() -> dict:
    engine = Engine(lambda engine, batch: batch)
    SSIM(data_range=1.0).attach(engine, "ssim")
    MeanSquaredError().attach(engine, "error")
    # A picture and a noisy one: of unrelated ones, the similarity is a small difference of large sums.
    pictures = [torch.rand(2, 3, 16, 16) for _ in range(2)]
    engine.run([(p, 0.8 * p + 0.2 * torch.rand_like(p)) for p in pictures])
    return dict(engine.state.metrics)

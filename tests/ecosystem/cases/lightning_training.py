"""Lightning: the Trainer with callbacks, loggers, checkpoints, schedulers and accumulation; Fabric."""

from __future__ import annotations

import tempfile
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from tests.ecosystem.compiling import prepared

NEEDS = "lightning"


class Classifier(lightning.LightningModule):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.save_hyperparameters()
        layers = torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(width, 3)
        self.net = prepared(torch.nn.Sequential(*layers))
        self.losses: list[float] = []

    def training_step(self, batch: tuple, index: int) -> torch.Tensor:
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.losses.append(float(loss.detach()))
        return loss

    def validation_step(self, batch: tuple, index: int) -> None:
        x, y = batch
        self.log("val_loss", torch.nn.functional.cross_entropy(self.net(x), y))

    def predict_step(self, batch: tuple, index: int) -> torch.Tensor:
        return self.net(batch[0]).argmax(-1)

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}


def loader(count: int = 32, shuffle: bool = False) -> DataLoader:
    x = torch.randn(count, 8)
    return DataLoader(TensorDataset(x, (x.sum(-1) > 0).long() + (x[:, 0] > 1).long()), batch_size=8, shuffle=shuffle)


def trainer(folder: str, **options: object) -> lightning.Trainer:
    quiet = dict(
        accelerator="cpu",
        devices=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        default_root_dir=folder,
    )
    return lightning.Trainer(**{**quiet, "enable_checkpointing": False, **options})


def case_fit() -> dict:
    model = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        t = trainer(folder, max_epochs=3)
        t.fit(model, loader(shuffle=True), loader(16))
        predicted = t.predict(model, loader(16))
    return {
        "losses": model.losses,
        "metrics": dict(t.callback_metrics),
        "predicted": predicted,
        "state": dict(model.state_dict()),
    }


def case_accumulation_and_clipping() -> dict:
    model = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        trainer(folder, max_epochs=2, accumulate_grad_batches=2, gradient_clip_val=0.5).fit(model, loader())
    return {"losses": model.losses, "state": dict(model.state_dict())}


def case_checkpoints() -> dict:
    model = Classifier()
    data, held_out = loader(), loader(16)
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(dirpath=folder, monitor="val_loss", save_last=True, filename="best")
        t = trainer(
            folder, max_epochs=2, enable_checkpointing=True, callbacks=[best, EarlyStopping("val_loss", patience=3)]
        )
        t.fit(model, data, held_out)
        again = Classifier.load_from_checkpoint(Path(folder) / "last.ckpt")
        resumed = Classifier()
        trainer(folder, max_epochs=3).fit(resumed, data, ckpt_path=Path(folder) / "last.ckpt")
        saved = sorted(path.name for path in Path(folder).glob("*.ckpt"))
    return {
        "files": saved,
        "same": all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), model.state_dict().values())),
        "resumed": resumed.losses,
        "width": again.hparams.width,
    }


class Quiet(lightning.LightningModule):
    """Steps that hold nothing but the computation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: tuple, index: int) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

    def predict_step(self, batch: tuple, index: int) -> torch.Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fitted(model: lightning.LightningModule) -> dict:
    """A module that is handed to the Trainer compiled, which compiles its steps."""
    with tempfile.TemporaryDirectory() as folder:
        t = trainer(folder, max_epochs=2)
        t.fit(prepared(model, in_place=False), loader())
        return {"state": dict(model.state_dict()), "predicted": t.predict(model, loader(16))}


def case_compiled_steps() -> dict:
    return fitted(Quiet())


def case_compiled_steps_that_log() -> dict:
    return fitted(Classifier())


class Counter(Callback):
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_train_epoch_end(self, *args: object) -> None:
        self.events.append("epoch")

    def on_train_end(self, *args: object) -> None:
        self.events.append("end")


def case_callbacks_and_bf16() -> dict:
    model, counter = Classifier(), Counter()
    with tempfile.TemporaryDirectory() as folder:
        trainer(folder, max_epochs=2, callbacks=[counter], precision="bf16-mixed").fit(model, loader())
    return {"events": counter.events, "close": [round(loss, 1) for loss in model.losses]}


def case_fabric() -> dict:
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    model = torch.nn.Linear(8, 2)
    model, optimizer = fabric.setup(prepared(model, in_place=False), torch.optim.SGD(model.parameters(), lr=0.1))
    data = fabric.setup_dataloaders(loader())
    losses = []
    for x, _ in data:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": losses}

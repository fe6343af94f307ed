"""Lightning's DDP strategy, as torchrun starts it: batch normalization over both processes, a metric from both."""

import json
import logging

import torch
from runner import declare_missing_ops

declare_missing_ops()
import lightning
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
        )
        self.found = []

    def training_step(self, batch: tuple, index: int) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        self.found.append(float(loss))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


lightning.seed_everything(0)
x = torch.randn(64, 8)
y = (x.sum(1) > 0).long()
model = Classifier()
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, enable_progress_bar=False, logger=False,
    enable_checkpointing=False, enable_model_summary=False, sync_batchnorm=False,
)
trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True))
if trainer.global_rank == 0:
    print(json.dumps([trainer.world_size, *model.found, float(trainer.callback_metrics["loss"])]))

"""Accelerate over two processes: accumulated gradients, clipping, a scheduler, a metric gathered from all."""

import json

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
x = torch.randn(64, 8)
y = (x.sum(1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
batches = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model, optimizer, batches, scheduler = accelerator.prepare(model, optimizer, batches, scheduler)
losses = []
for _ in range(3):
    for given, wanted in batches:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(given), wanted)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        losses += accelerator.gather_for_metrics(loss.detach().reshape(1)).tolist()
if accelerator.is_main_process:
    print(json.dumps([accelerator.num_processes, *losses]))
accelerator.end_training()

"""Transformers' Trainer over two processes: a small BERT, training and evaluation."""

import json
import tempfile

import torch
from runner import declare_missing_ops

declare_missing_ops()
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(0)
config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                    max_position_embeddings=32)
words = torch.Generator().manual_seed(1)
samples = [
    {"input_ids": torch.randint(0, 50, (16,), generator=words), "labels": torch.tensor(k % 2)} for k in range(64)
]
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, num_train_epochs=2, logging_steps=1, report_to=[],
    use_cpu=True, save_strategy="no", disable_tqdm=True, learning_rate=1e-3,
)
trainer = Trainer(
    model=BertForSequenceClassification(config), args=arguments, train_dataset=samples, eval_dataset=samples[:16]
)
trainer.train()
found = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
found.append(float(trainer.evaluate()["eval_loss"]))
if arguments.process_index == 0:
    print(json.dumps([arguments.world_size, *found]))

"""Hugging Face Transformers as people use it: Trainer, saving and loading, precision,
generation with caches and processors."""

from __future__ import annotations

import tempfile

import torch
import transformers

NEEDS = "transformers accelerate"
transformers.logging.set_verbosity_error()


def model() -> torch.nn.Module:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=99,
            hidden_size=32,
            intermediate_size=40,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=None,
        )
    )


class Sentences(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.tokens = torch.randint(3, 99, (16, 12))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def case_trainer() -> dict:
    net, data = model(), Sentences()
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            num_train_epochs=2,
            per_device_train_batch_size=4,
            learning_rate=1e-2,
            warmup_steps=2,
            lr_scheduler_type="cosine",
            weight_decay=0.1,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            gradient_accumulation_steps=2,
            max_grad_norm=0.5,
            disable_tqdm=True,
            seed=7,
        )
        trainer = transformers.Trainer(net, arguments, train_dataset=data, eval_dataset=data)
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        evaluated = trainer.evaluate()["eval_loss"]
    return {"losses": losses, "evaluated": evaluated, "state": dict(net.state_dict())}


def case_trainer_resumes() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        def train(steps: int, resume: bool) -> list:
            torch.manual_seed(5)
            arguments = transformers.TrainingArguments(
                folder,
                max_steps=steps,
                per_device_train_batch_size=4,
                learning_rate=1e-2,
                save_steps=2,
                logging_steps=1,
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                seed=7,
                lr_scheduler_type="constant",
            )
            trainer = transformers.Trainer(model(), arguments, train_dataset=Sentences())
            trainer.train(resume_from_checkpoint=resume or None)
            return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

        return {"first": train(2, False), "resumed": train(4, True)}


def case_saved_and_loaded() -> dict:
    net = model().eval()
    tokens = torch.randint(3, 99, (1, 6))
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        before = net(tokens).logits
        net.save_pretrained(folder, max_shard_size="20KB")
        again = transformers.LlamaForCausalLM.from_pretrained(folder).eval()
        brief = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        return {
            "same": torch.equal(before, again(tokens).logits),
            "dtype": str(brief.dtype),
            "close": brief(tokens).logits.float().round(decimals=1).abs().mean() < 5,
        }


def case_generation() -> dict:
    net = model().eval()
    prompt = torch.randint(3, 99, (2, 5))
    sampled = dict(do_sample=True, max_new_tokens=8)
    return {
        "nucleus": net.generate(prompt, top_p=0.8, **sampled),
        "penalty": net.generate(prompt, repetition_penalty=1.3, max_new_tokens=8, do_sample=False),
        "no_repeats": net.generate(prompt, no_repeat_ngram_size=2, max_new_tokens=10, do_sample=False),
        "minimum": net.generate(prompt, min_p=0.05, **sampled),
        "beam_sample": net.generate(prompt, num_beams=2, **sampled),
        "static": net.generate(prompt, cache_implementation="static", max_new_tokens=6, do_sample=False),
        "scores": net.generate(
            prompt, max_new_tokens=3, do_sample=False, return_dict_in_generate=True, output_scores=True
        ).scores,
        "several": net.generate(prompt, num_return_sequences=2, **sampled),
    }


def case_attention_forms() -> dict:
    tokens = torch.randint(3, 99, (2, 9))
    mask = torch.ones_like(tokens)
    mask[1, :3] = 0
    result = {}
    for form in ("eager", "sdpa"):
        torch.manual_seed(0)
        net = model().eval()
        net.set_attn_implementation(form)
        with torch.no_grad():
            result[form] = net(tokens, attention_mask=mask).logits[:, 3:]
    return result


def case_gradient_checkpointing() -> dict:
    net = model().train()
    net.gradient_checkpointing_enable()
    tokens = torch.randint(3, 99, (2, 9))
    net(tokens, labels=tokens).loss.backward()
    return {"grads": [p.grad for p in net.parameters()]}


def case_autocast() -> dict:
    net = model()
    tokens = torch.randint(3, 99, (2, 9))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = net(tokens, labels=tokens)
    outputs.loss.backward()
    return {
        "dtype": str(outputs.logits.dtype),
        "loss": round(float(outputs.loss.detach()), 1),
        "grads": sorted({str(p.grad.dtype) for p in net.parameters()}),
    }

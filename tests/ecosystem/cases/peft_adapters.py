"""peft: LoRA and other adapters on tiny Transformers models: training, merging, saving."""

from __future__ import annotations

import tempfile

import torch
import transformers
from peft import (
    AdaLoraConfig,
    IA3Config,
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
    get_peft_model_state_dict,
)

NEEDS = "peft transformers"
transformers.logging.set_verbosity_error()


def base() -> torch.nn.Module:
    config = transformers.GPT2Config(
        vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=None, pad_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def trained(config: object) -> dict:
    model = get_peft_model(base(), config).eval()
    tokens = torch.randint(3, 99, (2, 8))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {
        "losses": losses,
        "adapter": get_peft_model_state_dict(model),
        "trainable": model.get_nb_trainable_parameters(),
    }


def case_lora() -> dict:
    return trained(LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))


def case_dora() -> dict:
    return trained(
        LoraConfig(r=4, use_dora=True, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    )


def case_ia3() -> dict:
    return trained(
        IA3Config(target_modules=["c_attn"], feedforward_modules=[], fan_in_fan_out=True, task_type="CAUSAL_LM")
    )


def case_adalora() -> dict:
    return trained(AdaLoraConfig(target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM", total_step=10))


def case_prompt_tuning() -> dict:
    return trained(PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4))


def case_prefix_tuning() -> dict:
    return trained(PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4))


def case_merge_and_save() -> dict:
    model = get_peft_model(
        base(),
        LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False, task_type="CAUSAL_LM"),
    ).eval()
    tokens = torch.randint(3, 99, (1, 6))
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        before = model(input_ids=tokens).logits
        model.save_pretrained(folder)
        plain = base()
        plain.load_state_dict(model.get_base_model().state_dict(), strict=False)
        merged = model.merge_and_unload()(input_ids=tokens).logits
        torch.manual_seed(0)
        again = PeftModel.from_pretrained(base(), folder).eval()
        loaded = again(input_ids=tokens).logits
    return {"before": before, "merged": merged, "loaded": loaded}

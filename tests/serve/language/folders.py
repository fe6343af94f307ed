"""Folders of small language models with random weights, as Hugging Face's libraries write them, without those
libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.serialization.tensor_files import save_file

LINES = ["the quick brown fox jumps over the lazy dog", "a cache of keys and values lies in pages"] * 3
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float32",
    "bos_token_id": 0, "eos_token_id": 1,
}


def llama_tensors(config: dict[str, Any], seed: int = 0, spread: float = 0.3) -> dict[str, Any]:
    """Random weights by the names that files have."""
    rl.manual_seed(seed)
    width, hidden, words = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head = width // config["num_attention_heads"]
    own = head * config["num_key_value_heads"]
    both = dict.fromkeys(("model.embed_tokens.weight", "lm_head.weight"), (words, width))
    shapes: dict[str, tuple[int, ...]] = {**both, "model.norm.weight": (width,)}
    for n in range(config["num_hidden_layers"]):
        at = f"model.layers.{n}"
        shapes |= {
            f"{at}.input_layernorm.weight": (width,), f"{at}.post_attention_layernorm.weight": (width,),
            f"{at}.self_attn.q_proj.weight": (width, width), f"{at}.self_attn.k_proj.weight": (own, width),
            f"{at}.self_attn.v_proj.weight": (own, width), f"{at}.self_attn.o_proj.weight": (width, width),
            f"{at}.mlp.gate_proj.weight": (hidden, width), f"{at}.mlp.up_proj.weight": (hidden, width),
            f"{at}.mlp.down_proj.weight": (width, hidden),
        }
    return {name: rl.randn(*shape) * spread if len(shape) > 1 else rl.ones(shape) for name, shape in shapes.items()}


def write_llama(folder: Path, shards: int = 1, **changes: Any) -> Path:
    """A Llama of two layers; in several files with an index where asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**LLAMA, **changes}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = llama_tensors(config)
    names = list(tensors)
    places = {}
    for n in range(shards):
        file = "model.safetensors" if shards == 1 else f"model-{n + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in names[n::shards]}
        places |= dict.fromkeys(part, file)
        with open(folder / file, "wb") as stream:
            save_file(part, stream)
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder


def write_tokenizer(folder: Path) -> Any:
    """Pairs of bytes learnt from a few lines, and a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(LINES, trainer)
    made.save(str(folder / "tokenizer.json"))
    said = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return made

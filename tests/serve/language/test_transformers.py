"""Greedy words are those of Transformers' `generate` on PyTorch, whatever runs beside them."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from rushlight.serve.language.engine import Engine
from rushlight.serve.language.sampling import Sampling
from rushlight.serve.language.settings import Settings

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

COMMON: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 199, "max_position_embeddings": 256, "initializer_range": 0.2,
    "pad_token_id": 0,
}
ALONE = {name: value for name, value in COMMON.items() if name != "num_key_value_heads"}
GPT = {"n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 199, "n_positions": 256, "initializer_range": 0.2}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0 + n / 20 for n in range(8)],
        "long_factor": [1.0 + n / 2 for n in range(8)], "original_max_position_embeddings": 64}
EACH = {"full_attention": {**LINEAR, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", COMMON),
    "llama_turned": ("Llama", {**COMMON, "rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True,
                               "tie_word_embeddings": True}),
    "llama_stretched": ("Llama", {**COMMON, "rope_parameters": LINEAR, "num_key_value_heads": 4, "head_dim": 24}),
    "llama_dynamic": ("Llama", {**COMMON, "rope_parameters": DYNAMIC, "max_position_embeddings": 64}),
    "llama_long": ("Llama", {**COMMON, "rope_parameters": LONG}),
    "qwen2": ("Qwen2", COMMON),
    "qwen2_yarn": ("Qwen2", {**COMMON, "rope_parameters": {**YARN, "mscale": 1.2, "mscale_all_dim": 0.8},
                             "num_key_value_heads": 1}),
    "qwen2_windows": ("Qwen2", {**COMMON, "use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {**COMMON, "head_dim": 32, "attention_bias": True}),
    "qwen3_moe": ("Qwen3Moe", {**COMMON, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 32}),
    "qwen3_moe_mixed": ("Qwen3Moe", {
        **COMMON, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True,
        "decoder_sparse_step": 2, "mlp_only_layers": [0], "use_sliding_window": True, "sliding_window": 20}),
    "mistral": ("Mistral", {**COMMON, "sliding_window": 24}),
    "ministral": ("Ministral", {**COMMON, "head_dim": 16, "sliding_window": 24, "layer_types": [
        "full_attention", "sliding_attention", "full_attention"]}),
    "mixtral": ("Mixtral", {**COMMON, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 24}),
    "gemma": ("Gemma", {**COMMON, "head_dim": 32, "num_key_value_heads": 1}),
    "gemma2": ("Gemma2", {**COMMON, "head_dim": 16, "sliding_window": 24, "attn_logit_softcapping": 5.0,
                          "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 24}),
    "gemma3": ("Gemma3Text", {**COMMON, "head_dim": 32, "sliding_window": 20, "num_hidden_layers": 7}),
    "gemma3_stretched": ("Gemma3Text", {**COMMON, "head_dim": 16, "sliding_window": 20, "rope_parameters": EACH,
                                        "layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
    "phi": ("Phi", COMMON),
    "phi_normed": ("Phi", {**COMMON, "qk_layernorm": True, "partial_rotary_factor": 0.4}),
    "phi3": ("Phi3", {**COMMON, "sliding_window": 30}),
    "phi3_long": ("Phi3", {**COMMON, "rope_parameters": LONG, "original_max_position_embeddings": 64}),
    "stablelm": ("StableLm", {**COMMON, "use_qkv_bias": True}),
    "stablelm_beside": ("StableLm", {**COMMON, "qk_layernorm": True, "use_parallel_residual": True}),
    "gpt_neox": ("GPTNeoX", ALONE),
    "gpt_neox_after": ("GPTNeoX", {**ALONE, "use_parallel_residual": False, "attention_bias": False,
                                   "tie_word_embeddings": True}),
    "opt": ("OPT", {**ALONE, "ffn_dim": 96}),
    "opt_behind": ("OPT", {**ALONE, "ffn_dim": 96, "word_embed_proj_dim": 32, "do_layer_norm_before": False}),
    "opt_bare": ("OPT", {**ALONE, "ffn_dim": 96, "layer_norm_elementwise_affine": False, "enable_bias": False}),
    "falcon": ("Falcon", ALONE),
    "falcon_new": ("Falcon", {**ALONE, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": True}),
    "falcon_one_norm": ("Falcon", {**ALONE, "new_decoder_architecture": True, "num_kv_heads": 2,
                                   "num_ln_in_parallel_attn": 1}),
    "falcon_after": ("Falcon", {**ALONE, "multi_query": False, "parallel_attn": False, "ffn_hidden_size": 80}),
    "starcoder2": ("Starcoder2", {**COMMON, "sliding_window": 24}),
    "olmo2": ("Olmo2", COMMON),
    "olmo3": ("Olmo3", {**COMMON, "sliding_window": 24, "num_hidden_layers": 4}),
    "granite": ("Granite", {**COMMON, "embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.3,
                            "attention_multiplier": 0.1}),
    "smollm3": ("SmolLM3", {**COMMON, "num_hidden_layers": 5, "use_sliding_window": True, "sliding_window": 20}),
    "gpt2": ("GPT2", GPT),
    "gpt2_scaled": ("GPT2", {**GPT, "n_embd": 48, "n_head": 3, "scale_attn_by_inverse_layer_idx": True,
                             "activation_function": "gelu"}),
}
WRITE = 20


@pytest.fixture(scope="module")
def transformers() -> Any:
    """Without torchvision, which it looks for and which may be made for another PyTorch."""
    kept = sys.modules.get("torchvision", "none")
    sys.modules["torchvision"] = None      # type: ignore[assignment]
    try:
        yield pytest.importorskip("transformers")
    finally:
        if kept == "none":
            del sys.modules["torchvision"]
        else:
            sys.modules["torchvision"] = kept      # type: ignore[assignment]


def made(transformers: Any, name: str, folder: Path) -> Any:
    kind, options = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**options)
    config.eos_token_id = config.bos_token_id = None
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith("bias"):
                p.normal_(0.0, 0.2)
            elif p.ndim == 1:
                p.add_(torch.randn(p.shape) * 0.2)
    model.save_pretrained(folder, max_shard_size="60KB" if name == "llama" else "1GB")
    return model


def prompts_of(count: int, longest: int = 90) -> list[list[int]]:
    chance = random.Random(0)
    return [[chance.randrange(199) for _ in range(chance.choice((1, 5, 17, 40, longest)))] for _ in range(count)]


def written(model: Any, prompt: list[int]) -> list[int]:
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                             max_new_tokens=WRITE, do_sample=False, pad_token_id=0)
    return out[0, len(prompt) :].tolist()


def run(engine: Engine, prompts: list[list[int]], late: int = 0) -> list[list[int]]:
    """What the engine writes; the last `late` prompts come while others are being continued."""
    found: dict[int, list[int]] = {n: [] for n in range(len(prompts))}
    waiting = list(range(len(prompts)))
    steps = 0
    while waiting or engine.busy:
        while waiting and (len(waiting) > late or steps % 3 == 2):
            n = waiting.pop(0)
            engine.add(n, prompts[n], Sampling(max_tokens=WRITE, temperature=0.0))
            if len(waiting) < late:
                break
        for event in engine.step():
            found[event.name].append(event.chosen.word)
        steps += 1
    return [found[n] for n in range(len(prompts))]


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("name", MODELS)
def test_words_are_those_of_transformers(transformers: Any, name: str, tmp_path: Path) -> None:
    model = made(transformers, name, tmp_path)
    prompts = prompts_of(6)
    wanted = []
    for prompt in prompts:
        wanted.append(written(model, prompt))
        if name == "llama_dynamic":      # Transformers keeps the angles of the longest text that a model has seen
            model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    roomy = Settings(block_size=16, max_num_seqs=8, max_model_len=200)
    assert run(Engine.load(str(tmp_path), roomy), prompts) == wanted
    # Few blocks, small chunks, prompts that come later: sequences are put aside, and go on with the same words.
    few = Settings(block_size=4, num_blocks=46, max_num_seqs=6, max_model_len=180, chunk=16)
    tight = Engine.load(str(tmp_path), few)
    assert run(tight, prompts, late=3) == wanted
    assert tight.counts.preempted > 0
    assert tight.blocks.usage == 0


@pytest.mark.slow
def test_probabilities_are_those_of_transformers(transformers: Any, tmp_path: Path) -> None:
    model = made(transformers, "llama", tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1, "the model was to lie in several files"
    prompt = prompts_of(9)[8]
    engine = Engine.load(str(tmp_path), Settings(max_model_len=200, chunk=16))
    engine.add("one", prompt, Sampling(max_tokens=1, temperature=0.0, logprobs=3, prompt_logprobs=0))
    event = None
    while engine.busy:
        event = next(iter(engine.step()), event)
    assert event is not None and event.prompt is not None and event.chosen is not None
    with torch.no_grad():
        logs = model(torch.tensor([prompt])).logits[0].log_softmax(-1)
    expected = [float(logs[n, word]) for n, word in enumerate(prompt[1:])]
    assert [p.logprob for p in event.prompt] == pytest.approx(expected, abs=2e-4)
    values, words = logs[-1].topk(3)
    assert [w for w, _ in event.chosen.likeliest or ()] == words.tolist()
    assert [p for _, p in event.chosen.likeliest or ()] == pytest.approx(values.tolist(), abs=2e-4)

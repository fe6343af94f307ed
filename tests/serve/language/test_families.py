"""Families of models as data: what their files may say, what is refused, and that all of them run, without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.serve.language.config import config_of, read_config
from rushlight.serve.language.engine import Engine
from rushlight.serve.language.families import FAMILIES
from rushlight.serve.language.model import Decoder
from rushlight.serve.language.sampling import Sampling
from rushlight.serve.language.settings import Settings
from tests.serve.language.folders import LLAMA, llama_tensors, write_llama

SMALL: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 60, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "layer_norm_eps": 1e-5, "hidden_act": "gelu", "head_dim": 4, "torch_dtype": "float32",
}
MORE: dict[str, dict[str, Any]] = {
    "mixtral": {"num_local_experts": 3, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
    "opt": {"ffn_dim": 24, "word_embed_proj_dim": 8},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64, "layer_norm_epsilon": 1e-5,
             "activation_function": "gelu_new"},
}


def given(kind: str, **changes: Any) -> dict[str, Any]:
    said = {**SMALL, **MORE.get(kind, {}), **changes}
    return {"model_type": kind, "text_config": said} if kind == "gemma3" else {"model_type": kind, **said}


def words(decoder: Decoder, **settings: Any) -> dict[str, list[int]]:
    engine = Engine(decoder, Settings(max_model_len=48, **settings))
    found: dict[str, list[int]] = {}
    for name, prompt in (("a", list(range(3, 30))), ("b", [5, 9]), ("c", list(range(3, 22)))):
        engine.add(name, prompt, Sampling(max_tokens=6, temperature=0.0, ignore_eos=True))
    while engine.busy:
        for event in engine.step():
            found.setdefault(event.name, []).append(event.chosen.word)
    return found


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_writes_the_same_words_in_any_pages(kind: str) -> None:
    decoder = Decoder(config_of(given(kind), {}), None, rl.float32, "cpu", 48, seed=3)
    for weight in (decoder.words, *(layer.parts.weight for layer in decoder.layers)):
        weight.mul_(20.0)
    whole = words(decoder, max_num_seqs=4)
    assert [len(found) for found in whole.values()] == [6, 6, 6]
    assert words(decoder, max_num_seqs=2, block_size=4, num_blocks=16, chunk=8) == whole


def test_an_unknown_family_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    with pytest.raises(ValueError, match="got 'mamba'") as refused:
        read_config(str(tmp_path))
    assert all(kind in str(refused.value) for kind in FAMILIES)


@pytest.mark.parametrize(("kind", "changes", "what"), [
    ("llama", {"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantized by 'gptq'"),
    ("falcon", {"alibi": True}, "alibi: expected False or None, got True"),
    ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
    ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights"),
    ("llama", {"hidden_act": "mish"}, "got 'mish'"),
    ("llama", {"rope_scaling": {"rope_type": "xpos"}}, "got 'xpos'"),
    ("llama", {"rope_scaling": {"type": "linear"}}, "factor, which the file does not say"),
    ("phi3", {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}}, "short_factor"),
    ("gemma2", {"layer_types": ["full_attention"]}, "layer_types"),
    ("gemma2", {"layer_types": ["full_attention", "linear_attention"]}, "layer_types"),
    ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers"),
    ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok: expected 1 to 3"),
    ("llama", {"num_key_value_heads": 3}, "multiple"),
    ("llama", {"num_hidden_layers": 0}, "num_hidden_layers"),
    ("llama", {"vocab_size": "many"}, "many"),
    ("llama", {"torch_dtype": "float8_e4m3fn"}, "dtype"),
])
def test_what_would_change_the_numbers_is_refused(tmp_path: Path, kind: str, changes: dict, what: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(given(kind, **changes)))
    with pytest.raises(ValueError, match="config.json") as refused:
        read_config(str(tmp_path))
    assert what in str(refused.value)


def test_weights_that_the_configuration_does_not_know_are_refused(tmp_path: Path) -> None:
    from rushlight.serialization.tensor_files import save_file

    write_llama(tmp_path)
    tensors = llama_tensors(LLAMA)

    def loaded(**more: Any) -> Engine:
        with open(tmp_path / "model.safetensors", "wb") as stream:
            save_file({**tensors, **more}, stream)
        return Engine.load(str(tmp_path), Settings(max_model_len=16))

    loaded(**{"model.layers.0.self_attn.rotary_emb.inv_freq": rl.ones(4)})      # what old files carry along
    with pytest.raises(ValueError, match="q_norm"):
        loaded(**{"model.layers.1.self_attn.q_norm.weight": rl.ones(8)})
    with pytest.raises(ValueError, match="quantized"):
        loaded(**{"model.layers.0.mlp.down_proj.weight": rl.ones(32, 48).to(rl.int8)})


def test_experts_are_counted_by_either_name() -> None:
    for name in ("num_experts", "num_local_experts"):
        for kind in ("mixtral", "qwen3_moe"):
            said = {k: v for k, v in given(kind).items() if k not in ("num_experts", "num_local_experts")}
            mix = config_of({**said, name: 5}, {}).mix
            assert mix is not None and mix.count == 5


def test_texts_that_turn_otherwise_share_no_blocks() -> None:
    long = {"rope_type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [3.0, 9.0],
            "original_max_position_embeddings": 20}
    config = config_of(given("llama", rope_scaling=long), {})
    decoder = Decoder(config, None, rl.float32, "cpu", 48, seed=3)
    for weight in (decoder.words, *(layer.parts.weight for layer in decoder.layers)):
        weight.mul_(20.0)
    shared, apart = (words(decoder, max_num_seqs=1, block_size=4, shares=shares) for shares in (True, False))
    assert shared == apart

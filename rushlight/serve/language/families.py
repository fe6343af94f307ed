"""The families of language models, each as what it does otherwise than Llama.

Enters: nothing. Leaves: `FAMILIES`, by the `model_type` of a config.json. One decoder (model.py) runs them all; here is
what settings and tensors are called, in which order a layer computes, and which norms it has. `variant` says what
hangs on a model's own settings. Refuses: settings that would change the numbers and that the decoder does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Given = Mapping[str, Any]
SETTINGS = {
    "words": "vocab_size", "width": "hidden_size", "hidden": "intermediate_size", "layers": "num_hidden_layers",
    "heads": "num_attention_heads", "own_heads": "num_key_value_heads", "context": "max_position_embeddings",
    "eps": "rms_norm_eps", "activation": "hidden_act",
}


@dataclass(frozen=True)
class Experts:
    """What a layer of experts calls its tensors and settings."""

    router: str
    each: str                                    # {} is the number of an expert
    up: tuple[str, ...] = ("gate_proj", "up_proj")
    down: str = "down_proj"
    count: tuple[str, ...] = ("num_experts", "num_local_experts")      # either, by the age of the file
    hidden: str = "moe_intermediate_size"
    adds_to_one: str = ""                        # the setting that says so; "": the chosen always do


@dataclass(frozen=True)
class Family:
    """A kind of models. What is not said is as Llama's."""

    # config.json
    settings: Given = field(default_factory=dict)        # ours to theirs, where they differ
    usual: Given = field(default_factory=dict)           # where a file does not say
    nested: str = ""                                     # the object of the file that tells of the text
    # tensors
    roots: tuple[str, ...] = ("model.", "")              # that all names but the head's may begin with
    words: str = "embed_tokens"
    places: str = ""                                     # learnt positions
    skipped: int = 0                                     # of them, before the first
    layer: str = "layers"
    parts: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    grouped: bool = False                                # queries lie beside the keys and values that they share
    out: str = "self_attn.o_proj"
    up: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    down: str = "mlp.down_proj"
    transposed: bool = False
    norm: str = "norm"
    ends: tuple[str, ...] = ("lm_head",)
    # norms: before attention, of what it gives; before the layer for each token, of what that gives
    norms: tuple[str, str, str, str] = ("input_layernorm", "", "post_attention_layernorm", "")
    own_norms: tuple[str, ...] = ()                      # of queries and keys
    own_norm_of: str = "head"                            # "head", "all" heads at once, "each" head its own
    centred: bool = False                                # norms take the mean away
    lift: float = 0.0                                    # added to the weights of norms
    # computing
    gated: bool = True
    order: str = "after"                                 # "after" attention, "beside" it, or norms "behind" sums
    windows: str = "named"                               # which layers have them: those "named", or "all"
    every: int = 0                                       # where none are named: all but each so many-th
    restarts: bool = False                               # a text that grows beyond `longrope`'s limit is read anew
    local_base: str = ""                                 # the base of angles in layers with a window; the rest of
    #                                                      what is said of angles is of the other layers then
    scaled_words: bool = False                           # by the root of the width
    scale: str = ""                                      # of scores, where it is not the heads' width that says it
    caps: tuple[str, str] = ("", "")                     # of scores, and of what is said of words in the end
    multiplied: bool = False                             # by Granite's numbers
    experts: Experts | None = None
    variant: Callable[[Given], dict[str, Any]] | None = None

    def of(self, given: Given) -> Family:
        """With what a model's settings change."""
        return replace(self, **self.variant(given)) if self.variant is not None else self


def refuse(given: Given, name: str, *known: Any) -> None:
    """A setting that must have one of a few values, since others would compute something else."""
    if name in given and given[name] not in known:
        raise ValueError(f"{name}: expected {' or '.join(repr(k) for k in known)}, got {given[name]!r}")


def falcon(given: Given) -> dict[str, Any]:
    """Two norms side by side, one for both, or one after the other."""
    refuse(given, "alibi", False, None)
    new, beside = given.get("new_decoder_architecture"), given.get("parallel_attn", True)
    norms = given.get("num_ln_in_parallel_attn") or (2 if new else 1)
    if new and not beside:
        raise ValueError("parallel_attn: expected true with new_decoder_architecture, got false")
    if not beside:
        return {"order": "after"}
    names = ("ln_attn", "", "ln_mlp", "") if new and norms == 2 else ("input_layernorm", "", "", "")
    return {"norms": names}


def opt(given: Given) -> dict[str, Any]:
    before = given.get("do_layer_norm_before", True)
    last = "final_layer_norm" if before and not given.get("_remove_final_layer_norm") else ""
    return {"norm": last, "order": "after" if before else "behind"}


def stablelm(given: Given) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if given.get("qk_layernorm"):
        found |= {"own_norms": ("self_attn.q_layernorm.norms.{}", "self_attn.k_layernorm.norms.{}")}
    if given.get("use_parallel_residual"):
        found |= {"order": "beside", "norms": ("input_layernorm", "", "", "")}
    return found


def phi(given: Given) -> dict[str, Any]:
    return {"own_norms": ("self_attn.q_layernorm", "self_attn.k_layernorm")} if given.get("qk_layernorm") else {}


def gpt_neox(given: Given) -> dict[str, Any]:
    return {"order": "beside" if given.get("use_parallel_residual", True) else "after"}


def gpt2(given: Given) -> dict[str, Any]:
    refuse(given, "scale_attn_weights", True)
    refuse(given, "add_cross_attention", False)
    return {}


def gemma(given: Given) -> dict[str, Any]:
    refuse(given, "use_bidirectional_attention", False, None)
    return {}


LLAMA = Family()
QWEN2 = Family(usual={"use_sliding_window": False, "max_window_layers": 28, "sliding_window": 4096})
QWEN3 = replace(QWEN2, own_norms=("self_attn.q_norm", "self_attn.k_norm"))
GEMMA_USUAL = {
    "tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6, "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 4096,
}
GEMMA = Family(usual=GEMMA_USUAL, lift=1.0, scaled_words=True, variant=gemma)
GEMMA2 = replace(
    GEMMA, settings={"activation": "hidden_activation"}, every=2,
    usual={**GEMMA_USUAL, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    norms=("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
    scale="query_pre_attn_scalar", caps=("attn_logit_softcapping", "final_logit_softcapping"),
)
GEMMA3 = replace(
    GEMMA2, every=6, own_norms=("self_attn.q_norm", "self_attn.k_norm"), caps=("", "final_logit_softcapping"),
    local_base="rope_local_base_freq",
    usual={
        **GEMMA_USUAL, "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
        "max_position_embeddings": 131072, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
    },
)
OLMO2 = Family(
    norms=("", "post_attention_layernorm", "", "post_feedforward_layernorm"),
    own_norms=("self_attn.q_norm", "self_attn.k_norm"), own_norm_of="all",
)
BOTH_WAYS = {"up": ("mlp.dense_h_to_4h",), "down": "mlp.dense_4h_to_h", "gated": False, "centred": True}

FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "mistral": Family(windows="all"),
    "ministral": LLAMA,
    "qwen2": QWEN2,
    "qwen3": replace(QWEN3, usual={**QWEN2.usual, "head_dim": 128}),
    "qwen3_moe": replace(
        QWEN3, windows="all", experts=Experts("mlp.gate", "mlp.experts.{}", adds_to_one="norm_topk_prob")
    ),
    "mixtral": Family(
        usual={"rope_theta": 1000000.0}, windows="all",
        experts=Experts("block_sparse_moe.gate", "block_sparse_moe.experts.{}", ("w1", "w3"), "w2",
                        hidden="intermediate_size"),
    ),
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "gemma3": replace(GEMMA3, nested="text_config", roots=("model.language_model.", "language_model.model.")),
    "phi": Family(
        settings={"eps": "layer_norm_eps"}, usual={"partial_rotary_factor": 0.5, "hidden_act": "gelu_new"},
        out="self_attn.dense", up=("mlp.fc1",), down="mlp.fc2", norm="final_layernorm", gated=False, centred=True,
        norms=("input_layernorm", "", "", ""), order="beside", variant=phi,
    ),
    "phi3": Family(
        usual={"original_max_position_embeddings": 4096}, parts=("self_attn.qkv_proj",), up=("mlp.gate_up_proj",),
        windows="all", restarts=True,
    ),
    "stablelm": Family(
        settings={"eps": "layer_norm_eps"}, usual={"partial_rotary_factor": 0.25}, own_norm_of="each", centred=True,
        variant=stablelm,
    ),
    "gpt_neox": Family(
        settings={"eps": "layer_norm_eps", "own_heads": ""}, usual={"rotary_pct": 0.25, "hidden_act": "gelu"},
        roots=("gpt_neox.", ""), words="embed_in", parts=("attention.query_key_value",), grouped=True,
        out="attention.dense", norm="final_layer_norm", ends=("embed_out", "lm_head"), variant=gpt_neox, **BOTH_WAYS,
    ),
    "falcon": Family(
        settings={"eps": "layer_norm_epsilon", "activation": "activation", "hidden": "ffn_hidden_size",
                  "own_heads": "num_kv_heads"},
        usual={"activation": "gelu", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True,
               "max_position_embeddings": 2048},
        roots=("transformer.", ""), words="word_embeddings", layer="h", parts=("self_attention.query_key_value",),
        grouped=True, out="self_attention.dense", norm="ln_f", order="beside", variant=falcon, **BOTH_WAYS,
    ),
    "opt": Family(
        settings={"eps": "layer_norm_eps", "activation": "activation_function", "hidden": "ffn_dim", "own_heads": ""},
        usual={"layer_norm_eps": 1e-5, "activation_function": "relu", "tie_word_embeddings": True},
        roots=("model.decoder.", "decoder.", ""), places="embed_positions", skipped=2, out="self_attn.out_proj",
        up=("fc1",), down="fc2", gated=False, centred=True, variant=opt,
        norms=("self_attn_layer_norm", "", "final_layer_norm", ""),
    ),
    "starcoder2": Family(
        settings={"eps": "norm_epsilon"},
        usual={"norm_epsilon": 1e-5, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
        up=("mlp.c_fc",), down="mlp.c_proj", gated=False, centred=True, windows="all",
    ),
    "olmo2": OLMO2,
    "olmo3": replace(OLMO2, usual={"rope_theta": 500000.0, "sliding_window": 4096}, every=4,
                     local_base="rope_theta"),
    "granite": Family(usual={"attention_multiplier": 1.0}, scale="attention_multiplier", multiplied=True),
    "smollm3": Family(
        usual={"rope_theta": 2000000.0, "tie_word_embeddings": True, "use_sliding_window": False,
               "no_rope_layer_interval": 4},
    ),
    "gpt2": Family(
        settings={"width": "n_embd", "hidden": "n_inner", "layers": "n_layer", "heads": "n_head", "own_heads": "",
                  "context": "n_positions", "eps": "layer_norm_epsilon", "activation": "activation_function"},
        usual={"tie_word_embeddings": True}, roots=("transformer.", ""), words="wte", places="wpe", layer="h",
        parts=("attn.c_attn",), out="attn.c_proj", up=("mlp.c_fc",), down="mlp.c_proj", transposed=True, norm="ln_f",
        norms=("ln_1", "", "ln_2", ""), gated=False, centred=True, variant=gpt2,
    ),
}

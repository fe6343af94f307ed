"""What a model's config.json says, in one vocabulary for all families.

Enters: a folder. Leaves: a `Config`. Refuses: families that families.py does not have, quantized weights, and settings
that would change the numbers and that the decoder does not know.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .families import FAMILIES, SETTINGS, Family
from .turns import KINDS as TURNS, Turn, frequencies

ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh", "relu": "relu",
}
FOUR_TIMES = ("n_inner", "ffn_hidden_size")      # settings that mean four times the width where they are not said
NEEDED = {"linear": ("factor",), "dynamic": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
          "longrope": ("short_factor", "long_factor")}      # without which a way of turning is not known
OTHER_TURNS = {"su": "longrope"}      # what Phi-3's first files call it


@dataclass(frozen=True)
class Mix:
    """Layers of experts."""

    count: int
    chosen: int                     # of them, for each token
    hidden: int
    adds_to_one: bool
    layers: tuple[bool, ...]        # which layers have them


@dataclass(frozen=True)
class Config:
    """A decoder: sizes, and which of the few ways it computes."""

    kind: str
    family: Family
    words: int                      # that the vocabulary has
    width: int
    word_width: int                 # of what words are read by
    hidden: int                     # of the layers between
    layers: int
    heads: int
    own_heads: int                  # of keys and values
    head: int                       # elements of a head
    context: int                    # positions that the model was made for
    eps: float
    activation: str
    tied: bool                      # words are recognised by the numbers they are read by
    dtype: str
    ends: tuple[int, ...]           # words that end a text
    first: int | None               # the word that begins one
    windows: tuple[int, ...]        # of each layer; 0: it sees all
    turns: tuple[Turn, ...]         # those there are
    turning: tuple[int, ...]        # which of them each layer has; -1: none
    scales: tuple[float, ...]       # of the scores of each layer
    caps: tuple[float, float]       # that scores, and what is said of words, are bent below; 0 for none
    word_scale: float = 1.0
    sum_scale: float = 1.0          # of what a layer adds
    logit_scale: float = 1.0
    mix: Mix | None = None

    @property
    def limit(self) -> int:
        """The length of a text from which its angles depend on it; 0 for none."""
        return max((t.limit for t in self.turns), default=0)


def is_folder(path: str) -> bool:
    """Whether a path is a folder with a model in Hugging Face's form."""
    return os.path.isfile(os.path.join(path, "config.json"))


def read_json(folder: str, name: str) -> dict[str, Any]:
    """A JSON object beside the weights; empty where there is no such file."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        try:
            found = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: expected JSON, got something else ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found


def read_config(folder: str) -> Config:
    """The configuration of the model in a folder."""
    given = read_json(folder, "config.json")
    generation = read_json(folder, "generation_config.json")
    try:
        return config_of(given, generation)
    except (KeyError, TypeError, AttributeError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"{folder}/config.json: a setting is missing or of a wrong type: {error}") from None
    except ValueError as error:
        raise ValueError(f"{folder}/config.json: {error}") from None


def config_of(given: Mapping[str, Any], generation: Mapping[str, Any]) -> Config:
    """The configuration that a file's settings describe, and those of generation beside it."""
    kind = given.get("model_type")
    if kind not in FAMILIES:
        raise ValueError(f"expected a model of type {', '.join(FAMILIES)}, got {kind!r}")
    quantized = given.get("quantization_config")
    if quantized:
        method = quantized.get("quant_method") if isinstance(quantized, dict) else None
        raise ValueError(
            f"quantization_config: expected weights of floating types, got weights quantized by {method!r}. Serve the"
            " model that they were made from, or save it again after dequantizing it"
        )
    family = FAMILIES[kind]
    given = {**given, **given[family.nested]} if family.nested else given
    said = {name: value for name, value in given.items() if value is not None or name == "sliding_window"}
    given = {**family.usual, **said}      # a window that is null is none, whatever is usual
    return described(str(kind), family.of(given), given, generation)


def described(kind: str, family: Family, given: Mapping[str, Any], generation: Mapping[str, Any]) -> Config:
    names = {**SETTINGS, **family.settings}

    def number(name: str, default: int | None = None) -> int:
        found = given.get(names[name], default) if default is not None else given[names[name]]
        if int(found) < 1:
            raise ValueError(f"{names[name]}: expected a number above 0, got {found}")
        return int(found)

    width, layers, heads = number("width"), number("layers"), number("heads")
    own = own_heads_of(kind, given, heads, number("own_heads", heads) if names["own_heads"] else heads)
    head = int(given.get("head_dim") or width // heads)
    if heads % own:
        raise ValueError(f"expected heads in a multiple of those of keys and values, got {heads} and {own}")
    windows = windows_of(family, given, layers)
    turns, turning = turns_of(family, given, layers, windows)
    for turn in turns:
        frequencies(turn, head), frequencies(turn, head, is_long=True)      # what they are made of must fit the heads
    hidden = number("hidden", 4 * width if names["hidden"] in FOUR_TIMES else None)
    granite = {name: float(given.get(name, 1.0)) if family.multiplied else 1.0
               for name in ("embedding_multiplier", "residual_multiplier", "logits_scaling")}
    return Config(
        kind, family, number("words"), width, int(given.get("word_embed_proj_dim") or width), hidden, layers,
        heads, own, head, number("context"), float(given[names["eps"]]),
        activation_of(kind, given[names["activation"]]), bool(given.get("tie_word_embeddings", False)), dtype_of(given),
        ends_of(given, generation), given.get("bos_token_id"), windows, turns, turning,
        scales_of(family, given, head, layers), caps_of(family, given),
        width ** 0.5 if family.scaled_words else granite["embedding_multiplier"], granite["residual_multiplier"],
        1.0 / granite["logits_scaling"], mix_of(family, given, layers),
    )


def own_heads_of(kind: str, given: Mapping[str, Any], heads: int, said: int) -> int:
    """Heads of keys and values; Falcon has another setting for each of its architectures."""
    if kind != "falcon" or given.get("new_decoder_architecture"):
        return said
    return 1 if given.get("multi_query", True) else heads


def ends_of(given: Mapping[str, Any], generation: Mapping[str, Any]) -> tuple[int, ...]:
    """The words that end a text; what is said of generation counts more."""
    found = generation.get("eos_token_id", given.get("eos_token_id"))
    return tuple(found) if isinstance(found, list) else () if found is None else (int(found),)


def activation_of(kind: str, name: str) -> str:
    if kind == "gemma" and name == "gelu":      # what Gemma's first files say, and never meant
        name = "gelu_pytorch_tanh"
    if name not in ACTIVATIONS:
        raise ValueError(f"expected an activation of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]


def dtype_of(given: Mapping[str, Any]) -> str:
    found = str(given.get("dtype") or given.get("torch_dtype") or "float32").removeprefix("torch.")
    if found not in ("float64", "float32", "float16", "bfloat16"):
        raise ValueError(f"dtype: expected float64, float32, float16 or bfloat16, got {found}")
    return found


def scales_of(family: Family, given: Mapping[str, Any], head: int, layers: int) -> tuple[float, ...]:
    """What scores are multiplied by, layer by layer."""
    scale = head ** -0.5
    if family.scale == "query_pre_attn_scalar":
        scale = float(given[family.scale]) ** -0.5
    elif family.scale:
        scale = float(given[family.scale])
    by_layer = given.get("scale_attn_by_inverse_layer_idx", False)
    return tuple(scale / (n + 1) if by_layer else scale for n in range(layers))


def caps_of(family: Family, given: Mapping[str, Any]) -> tuple[float, float]:
    scores, words = (float(given.get(name) or 0.0) if name else 0.0 for name in family.caps)
    if scores < 0 or words < 0:
        raise ValueError(f"{' and '.join(filter(None, family.caps))}: expected numbers above 0, got {scores}, {words}")
    return scores, words


def mix_of(family: Family, given: Mapping[str, Any], layers: int) -> Mix | None:
    """Which layers are experts, and how many of them a token goes through."""
    if family.experts is None:
        return None
    e, dense, step = family.experts, given.get("mlp_only_layers") or (), int(given.get("decoder_sparse_step", 1))
    count = int(given[next((name for name in e.count if name in given), e.count[0])])
    chosen = int(given["num_experts_per_tok"])
    if count and not 1 <= chosen <= count:
        raise ValueError(f"num_experts_per_tok: expected 1 to {count}, got {chosen}")
    which = tuple(count > 0 and n not in dense and (n + 1) % step == 0 for n in range(layers))
    adds = bool(given.get(e.adds_to_one, False)) if e.adds_to_one else True
    return Mix(count, chosen, int(given[e.hidden]), adds, which) if any(which) else None


# --- windows and turned positions


def kinds_of(family: Family, given: Mapping[str, Any], layers: int) -> list[str] | None:
    """What the layers are called, where the file or the family says so."""
    kinds = given.get("layer_types")
    if kinds is None:
        every = int(given.get("sliding_window_pattern") or family.every) if family.every else 0
        return [named((n + 1) % every != 0) for n in range(layers)] if every else None
    if not isinstance(kinds, list) or set(kinds) - {named(True), named(False)} or len(kinds) != layers:
        raise ValueError(f"layer_types: expected {layers} of {named(False)} or {named(True)}, got {kinds}")
    return kinds


def named(has_window: bool) -> str:
    return "sliding_attention" if has_window else "full_attention"


def windows_of(family: Family, given: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    """The window of each layer, 0 for none."""
    size = int(given.get("sliding_window") or 0) if given.get("use_sliding_window", True) else 0
    if size < 0:
        raise ValueError(f"sliding_window: expected a number above 0, got {size}")
    kinds = kinds_of(family, given, layers)
    if family.windows == "all":
        return (size,) * layers
    if kinds is not None:
        return tuple(size if kind == named(True) else 0 for kind in kinds)
    if "no_rope_layer_interval" in given:
        return tuple(0 if turns else size for turns in turned_layers(given, layers))
    late = int(given.get("max_window_layers", layers))
    return tuple(size if n >= late else 0 for n in range(layers))


def turned_layers(given: Mapping[str, Any], layers: int) -> list[bool]:
    """Which layers turn positions at all."""
    said, every = given.get("no_rope_layers"), given.get("no_rope_layer_interval")
    if said is None:
        return [every is None or (n + 1) % int(every) != 0 for n in range(layers)]
    if len(said) != layers:
        raise ValueError(f"no_rope_layers: expected {layers} numbers, got {said}")
    return [bool(n) for n in said]


def turns_of(
    family: Family, given: Mapping[str, Any], layers: int, windows: tuple[int, ...]
) -> tuple[tuple[Turn, ...], tuple[int, ...]]:
    """The ways of turning there are, and which each layer has."""
    if family.places:
        return (), (-1,) * layers
    whole = dict(given.get("rope_parameters") or given.get("rope_scaling") or {})
    if not family.local_base:
        turns = (turn_of(given, whole),)
        return turns, tuple(0 if turned else -1 for turned in turned_layers(given, layers))
    by_kind = whole if isinstance(whole.get(named(False)), dict) else {named(False): whole}
    local = {"rope_theta": given[family.local_base], **(by_kind.get(named(True)) or {})}
    kinds = kinds_of(family, given, layers) or [named(w > 0) for w in windows]
    return (turn_of(given, by_kind[named(False)]), turn_of(given, local)), tuple(int(k == named(True)) for k in kinds)


def turn_of(given: Mapping[str, Any], said: Mapping[str, Any]) -> Turn:
    """One way of turning, as either form of the file says it."""
    options = dict(said)
    kind = options.pop("rope_type", options.pop("type", "default"))
    kind = OTHER_TURNS.get(kind, kind)
    base = options.pop("rope_theta", given.get("rope_theta", given.get("rotary_emb_base", 10000.0)))
    whole = given.get("partial_rotary_factor", given.get("rotary_pct", 1.0))
    share = options.pop("partial_rotary_factor", whole)
    if kind not in TURNS:
        raise ValueError(f"expected positions turned in one of the ways {', '.join(TURNS)}, got {kind!r}")
    context = int(given.get("max_position_embeddings") or given.get("n_positions") or 0)
    first = given.get("original_max_position_embeddings", options.pop("original_max_position_embeddings", context))
    known = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()
             if isinstance(v, (int, float, bool, list))}
    known |= {"context": context, "made_for": context if kind == "dynamic" else int(first)}
    missing = [name for name in NEEDED.get(kind, ()) if name not in known]
    if missing:
        raise ValueError(f"positions turned by {kind} need {', '.join(missing)}, which the file does not say")
    return Turn(float(base), kind, float(share), tuple(sorted(known.items())))

"""What a model's config.json says, in one vocabulary for all kinds.

Enters: a folder. Leaves: a `Config`. Refuses: kinds of models that have no definition here, and settings that would
change the numbers and that the definitions do not know.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any

KINDS = ("llama", "mistral", "qwen2", "qwen3", "gpt2")
ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
TURNS = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class Turn:
    """How pairs of elements are turned by position: the base of the angles, and how they are stretched."""

    base: float = 10000.0
    kind: str = "default"
    share: float = 1.0              # of a head's elements that are turned
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, name: str, default: Any = None) -> Any:
        return dict(self.options).get(name, default)


@dataclass(frozen=True)
class Config:
    """A decoder: sizes, and which of the few ways it computes."""

    kind: str
    words: int                      # that the vocabulary has
    width: int
    hidden: int                     # of the layers between
    layers: int
    heads: int
    own_heads: int                  # of keys and values
    head: int                       # elements of a head
    context: int                    # positions that the model was made for
    eps: float
    activation: str
    tied: bool                      # words are recognised by the numbers they are read by
    turn: Turn
    dtype: str
    ends: tuple[int, ...]           # words that end a text
    first: int | None               # the word that begins one
    windows: tuple[int, ...]        # of each layer; 0: it sees all
    scale_by_layer: bool = False


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
    kind = given.get("model_type")
    if kind not in KINDS:
        raise ValueError(f"{folder}: expected a model of type {', '.join(KINDS)}, got {kind!r}")
    generation = read_json(folder, "generation_config.json")
    try:
        return gpt2(given, generation) if kind == "gpt2" else gated(kind, given, generation)
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"{folder}/config.json: a setting is missing or of a wrong type: {error}") from None


def ends_of(given: dict[str, Any], generation: dict[str, Any]) -> tuple[int, ...]:
    """The words that end a text; what is said of generation counts more."""
    found = generation.get("eos_token_id", given.get("eos_token_id"))
    return tuple(found) if isinstance(found, list) else () if found is None else (int(found),)


def activation_of(name: str) -> str:
    if name not in ACTIVATIONS:
        raise ValueError(f"expected an activation of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]


def dtype_of(given: dict[str, Any]) -> str:
    return str(given.get("dtype") or given.get("torch_dtype") or "float32").removeprefix("torch.")


def turn_of(given: dict[str, Any]) -> Turn:
    """How positions turn, as either form of the file says it."""
    options = dict(given.get("rope_parameters") or given.get("rope_scaling") or {})
    kind = options.pop("rope_type", options.pop("type", "default"))
    base = options.pop("rope_theta", given.get("rope_theta", 10000.0))
    share = options.pop("partial_rotary_factor", given.get("partial_rotary_factor", 1.0))
    if kind not in TURNS:
        raise ValueError(f"expected positions turned in one of the ways {', '.join(TURNS)}, got {kind!r}")
    options.setdefault("original_max_position_embeddings", given["max_position_embeddings"])
    known = tuple(sorted((k, v) for k, v in options.items() if isinstance(v, (int, float, bool))))
    return Turn(float(base), kind, float(share), known)


def windows_of(kind: str, given: dict[str, Any], layers: int) -> tuple[int, ...]:
    """The window of each layer, 0 for none."""
    size = given.get("sliding_window") or 0
    if kind.startswith("qwen") and not given.get("use_sliding_window", False):
        size = 0
    kinds = given.get("layer_types")
    if kinds is None:
        late = given.get("max_window_layers", 0) if kind.startswith("qwen") else 0
        return tuple(size if n >= late else 0 for n in range(layers))
    unknown = set(kinds) - {"full_attention", "sliding_attention"}
    if unknown or len(kinds) != layers:
        raise ValueError(f"expected {layers} layers of full or sliding attention, got {kinds}")
    # a model of one kind of layers says so by its window alone
    return tuple(size if kind == "mistral" or k == "sliding_attention" else 0 for k in kinds)


def gated(kind: str, given: dict[str, Any], generation: dict[str, Any]) -> Config:
    """Llama and those made like it."""
    layers, heads = int(given["num_hidden_layers"]), int(given["num_attention_heads"])
    return Config(
        kind, int(given["vocab_size"]), int(given["hidden_size"]), int(given["intermediate_size"]), layers, heads,
        int(given.get("num_key_value_heads") or heads), int(given.get("head_dim") or given["hidden_size"] // heads),
        int(given["max_position_embeddings"]), float(given["rms_norm_eps"]), activation_of(given["hidden_act"]),
        bool(given.get("tie_word_embeddings", False)), turn_of(given), dtype_of(given), ends_of(given, generation),
        given.get("bos_token_id"), windows_of(kind, given, layers),
    )


def gpt2(given: dict[str, Any], generation: dict[str, Any]) -> Config:
    """GPT-2: learnt positions, layer norms with a bias."""
    width, heads, layers = int(given["n_embd"]), int(given["n_head"]), int(given["n_layer"])
    if not given.get("scale_attn_weights", True):
        raise ValueError("scale_attn_weights must be true: attention without a scale is not known here")
    return Config(
        "gpt2", int(given["vocab_size"]), width, int(given.get("n_inner") or 4 * width), layers, heads, heads,
        width // heads, int(given["n_positions"]), float(given["layer_norm_epsilon"]),
        activation_of(given["activation_function"]), bool(given.get("tie_word_embeddings", True)), Turn(),
        dtype_of(given), ends_of(given, generation), given.get("bos_token_id"), (0,) * layers,
        bool(given.get("scale_attn_by_inverse_layer_idx", False)),
    )


def frequencies(turn: Turn, head: int) -> tuple[list[float], float]:
    """Angles per position of each pair of elements, and what cosines and sines are multiplied by."""
    size = int(head * turn.share)
    plain = [turn.base ** (-2 * k / size) for k in range(size // 2)]
    if turn.kind == "default":
        return plain, 1.0
    factor = float(turn.option("factor", 1.0))
    if turn.kind == "linear":
        return [f / factor for f in plain], 1.0
    if turn.kind == "llama3":
        return [llama3(f, turn, factor) for f in plain], 1.0
    return yarn(turn, plain, size, factor)


def llama3(frequency: float, turn: Turn, factor: float) -> float:
    """Slow angles are stretched, fast ones stay, those between are mixed."""
    low, high = float(turn.option("low_freq_factor")), float(turn.option("high_freq_factor"))
    turns = float(turn.option("original_max_position_embeddings")) * frequency / (2 * math.pi)
    part = min(1.0, max(0.0, (turns - low) / (high - low)))
    return (1 - part) * frequency / factor + part * frequency


def yarn(turn: Turn, plain: list[float], size: int, factor: float) -> tuple[list[float], float]:
    """Pairs that turn seldom within the first context are stretched, those that turn often stay; a ramp between."""
    context = float(turn.option("original_max_position_embeddings"))

    def pair(turns: float) -> float:
        return size * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(turn.base))

    first, last = pair(float(turn.option("beta_fast", 32))), pair(float(turn.option("beta_slow", 1)))
    if turn.option("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    last = last + 0.001 if first == last else last
    ramps = [min(1.0, max(0.0, (k - first) / (last - first))) for k in range(size // 2)]
    size_of = turn.option("attention_factor")
    scale = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
    return (
        [f / factor * r + f * (1 - r) for f, r in zip(plain, ramps, strict=True)],
        scale if size_of is None else float(size_of),
    )

"""What OpenAI's clients ask, checked: bodies of /v1/completions and /v1/chat/completions.

Enters: JSON, and the `Text` of the model. Leaves: an `Asked`. Refuses: fields of a wrong type or out of range, those
that nobody knows, and those that are known and not served, each by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..refusals import Refusal
from .sampling import MOST_BIAS, MOST_LOGPROBS, Sampling
from .schema import check
from .text import Text

MOST_SEQUENCES = 128        # of one request
MOST_STOPS = 16
# What changes nothing of an answer, wherever it is served.
OF_NO_EFFECT = (
    "user", "metadata", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
    "parallel_tool_calls", "verbosity", "reasoning_effort", "prediction",
)
SHARED = (
    "model", "n", "stop", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "logit_bias", "seed", "max_tokens", "logprobs", "stop_token_ids",
    "ignore_eos", "response_format", *OF_NO_EFFECT,
)
OF_COMPLETIONS = (*SHARED, "prompt", "echo", "best_of", "suffix")
OF_CHAT = (
    *SHARED, "messages", "max_completion_tokens", "top_logprobs", "chat_template_kwargs", "tools", "tool_choice",
    "functions", "function_call", "modalities", "audio", "web_search_options",
)
# Known, not served; what may be said instead of nothing.
NOT_SERVED: dict[str, tuple[Any, ...]] = {
    "suffix": ("",), "tools": ([],), "tool_choice": ("none",), "functions": ([],), "function_call": ("none",),
    "modalities": (["text"],), "audio": (), "web_search_options": (),
}
NUMBERS = {
    "temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
NUMBER, WHOLE, TRUTH, WORDS, OBJECT = "a number", "an integer", "true or false", "a string", "an object"
TYPES: dict[str, tuple[type, ...]] = {
    NUMBER: (int, float), WHOLE: (int,), TRUTH: (bool,), WORDS: (str,), OBJECT: (dict,),
}


@dataclass(frozen=True)
class Asked:
    """A request that can be served."""

    model: str
    prompts: list[list[int]]           # one for each answer
    samplings: list[Sampling]          # likewise
    same: int                          # neighbouring answers to one prompt
    stops: tuple[str, ...]
    stream: bool
    with_usage: bool
    echo: bool = False
    is_chat: bool = False


def bad(param: str, message: str, code: str | None = None) -> Refusal:
    return Refusal(400, f"{param}: {message}", param=param, code=code)


class Fields:
    """The fields of a body."""

    def __init__(self, given: Any, known: Sequence[str]) -> None:
        if not isinstance(given, dict):
            raise Refusal(400, f"the body: expected a JSON object, got {kind_of(given)}")
        unknown = [name for name in given if name not in known]
        if unknown:
            raise bad(unknown[0][:60], "there is no such field", "unknown_parameter")
        for name, harmless in NOT_SERVED.items():
            value = given.get(name)
            if value is not None and value not in harmless:
                raise bad(name, "this is not served here", "unsupported_parameter")
        self.given: dict[str, Any] = given

    def take(self, name: str, what: str, default: Any = None) -> Any:
        """A field of a type; null is as good as nothing."""
        value = self.given.get(name)
        if value is None:
            return default
        wrong = not isinstance(value, TYPES[what]) or (isinstance(value, bool) and what != TRUTH)
        if wrong or value != value or value in (float("inf"), float("-inf")):
            raise bad(name, f"expected {what}, got {shown(value)}")
        return value

    def within(self, name: str, low: int, high: int, default: int | None = None) -> Any:
        """An integer in a range."""
        value = self.take(name, WHOLE, default)
        if value is not None and not low <= value <= high:
            raise bad(name, f"expected an integer from {low} to {high}, got {shown(value)}")
        return value


def kind_of(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def model_of(given: Any) -> str:
    """The name of the model that a body asks."""
    name = given.get("model") if isinstance(given, dict) else None
    if not isinstance(name, str):
        raise bad("model", f"expected the name of a model, got {kind_of(name)}")
    return name


def completion(given: Any, text: Text, words: int, max_len: int) -> Asked:
    """A body of /v1/completions."""
    fields = Fields(given, OF_COMPLETIONS)
    prompts = prompts_of(fields.given.get("prompt"), text, words)
    echo, count = fields.take("echo", TRUTH, False), fields.within("n", 1, MOST_SEQUENCES, 1)
    best = fields.within("best_of", 1, MOST_SEQUENCES, count)
    if best != count:
        what = f"expected n, which is {count}, got {best}: answers are not chosen among"
        raise bad("best_of", what, "unsupported_parameter")
    logprobs = fields.within("logprobs", 0, MOST_LOGPROBS)
    most = fields.within("max_tokens", 0, 1 << 31, 16)
    if most == 0 and not echo:
        raise bad("max_tokens", "expected at least 1, or echo, got 0")
    return made(fields, prompts, count, most, logprobs, text, words, max_len, echo=echo)


def chat(given: Any, text: Text, words: int, max_len: int) -> Asked:
    """A body of /v1/chat/completions."""
    fields = Fields(given, OF_CHAT)
    messages = messages_of(fields.given.get("messages"))
    try:
        prompt = text.words(text.chat(messages, fields.take("chat_template_kwargs", OBJECT, {})), False)
    except ValueError as error:
        raise bad("messages", str(error).removeprefix("messages: ")) from None
    logprobs = None
    top = fields.within("top_logprobs", 0, MOST_LOGPROBS)
    if fields.take("logprobs", TRUTH, False):
        logprobs = top or 0
    elif top:
        raise bad("top_logprobs", "expected logprobs to be true beside it")
    most = fields.within("max_completion_tokens", 1, 1 << 31)
    if most is None:
        most = fields.within("max_tokens", 1, 1 << 31, max(1, max_len - len(prompt)))
    if not prompt:
        raise bad("messages", "the chat template makes nothing of them")
    count = fields.within("n", 1, MOST_SEQUENCES, 1)
    return made(fields, [prompt], count, most, logprobs, text, words, max_len, is_chat=True)


def made(fields: Fields, prompts: list[list[int]], count: int, most: int, logprobs: int | None, text: Text,
         words: int, max_len: int, echo: bool = False, is_chat: bool = False) -> Asked:
    """What both have in common."""
    if len(prompts) * count > MOST_SEQUENCES:
        raise bad("prompt", f"expected at most {MOST_SEQUENCES} answers, got {len(prompts)} prompts {count} times")
    where = "messages" if is_chat else "prompt"
    longest = max(map(len, prompts))
    if longest + min(1, most) > max_len:
        raise bad(where, f"expected at most {max_len - min(1, most)} tokens, of which the context has {max_len}, got"
                         f" {longest}", "context_length_exceeded")
    stream = fields.take("stream", TRUTH, False)
    options = fields.take("stream_options", OBJECT)
    if options is not None and not stream:
        raise bad("stream_options", "expected stream to be true beside it")
    unknown = [k for k in options or () if k not in ("include_usage", "include_obfuscation")]
    if unknown or any(not isinstance(v, bool) for v in (options or {}).values()):
        raise bad("stream_options", f"expected include_usage, true or false, got {shown(options)}")
    stops = stops_of(fields.given.get("stop"))
    if stops and not text.has_text:
        raise bad("stop", "this model has no tokenizer.json, and so no text. Use stop_token_ids.")
    top_k = fields.within("top_k", -1, 1 << 31, 0)
    bias = bias_of(fields.given.get("logit_bias"), words)
    try:
        sampling = Sampling(
            max_tokens=most, top_k=max(0, top_k), logit_bias=bias, logprobs=logprobs,
            prompt_logprobs=logprobs if echo else None, seed=fields.within("seed", -(1 << 63), (1 << 63) - 1),
            stop_ids=ids_of(fields.given.get("stop_token_ids")), ignore_eos=fields.take("ignore_eos", TRUTH, False),
            form=form_of(fields.take("response_format", OBJECT), text),
            **{name: fields.take(name, NUMBER, usual) for name, usual in NUMBERS.items()},
        )
    except ValueError as error:
        name, _, rest = str(error).partition(": ")
        raise bad(name, rest) from None
    return Asked(
        fields.given["model"], [p for p in prompts for _ in range(count)],
        [seeded(sampling, n) for _ in prompts for n in range(count)], count, stops, stream,
        bool((options or {}).get("include_usage")), echo, is_chat,
    )


def seeded(sampling: Sampling, n: int) -> Sampling:
    """The n-th of several answers draws other numbers than the first."""
    if sampling.seed is None or n == 0:
        return sampling
    return Sampling(**{**vars(sampling), "seed": sampling.seed + n})


def prompts_of(given: Any, text: Text, words: int) -> list[list[int]]:
    """A text, several, the words of one, or of several."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list) or not given:
        raise bad("prompt", f"expected a string, an array of them, or token ids, got {shown(given)}")
    if all(type(p) is int for p in given):
        given = [given]
    found = []
    for one in given:
        if isinstance(one, str):
            try:
                one = text.words(one)
            except ValueError as error:
                raise bad("prompt", str(error).removeprefix("prompt: ")) from None
        elif not isinstance(one, list) or not all(type(w) is int for w in one):
            raise bad("prompt", f"expected strings or arrays of token ids, got {shown(one)}")
        if not one:
            raise bad("prompt", "expected at least one token, got an empty prompt")
        outside = next((w for w in one if not 0 <= w < words), None)
        if outside is not None:
            raise bad("prompt", f"expected token ids from 0 to {words - 1}, got {shown(outside)}")
        found.append(one)
    return found


def messages_of(given: Any) -> list[dict[str, Any]]:
    """Messages with their contents as text."""
    if not isinstance(given, list) or not given:
        raise bad("messages", f"expected an array of messages, got {shown(given)}")
    found = []
    for n, message in enumerate(given):
        at = f"messages[{n}]"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise bad("messages", f"expected {at} with a role of {', '.join(ROLES)}, got {shown(message)}")
        if message.get("tool_calls") or message.get("function_call"):
            raise bad("messages", f"{at}: calls of tools are not served here", "unsupported_parameter")
        content = message.get("content")
        if isinstance(content, list):
            wrong = [p for p in content if not (isinstance(p, dict) and p.get("type") == "text" and
                                                isinstance(p.get("text"), str))]
            if wrong:
                raise bad("messages", f"{at}: expected parts of type text, got {shown(wrong[0])}")
            content = "".join(p["text"] for p in content)
        if not isinstance(content, str) and not (content is None and message["role"] == "assistant"):
            raise bad("messages", f"{at}: expected content, a string or parts of type text, got {shown(content)}")
        found.append({**message, "content": content or ""})
    return found


def form_of(given: dict[str, Any] | None, text: Text) -> str | None:
    """The schema that an answer follows, as text; "" for any object, None for text of any form."""
    name = "response_format"
    if given is None or given == {"type": "text"}:
        return None
    if given.get("type") not in ("text", "json_object", "json_schema"):
        raise bad(name, f"expected type text, json_object or json_schema, got {shown(given)}")
    wanted = {"type", "json_schema"} if given["type"] == "json_schema" else {"type"}
    if given.keys() != wanted:
        raise bad(name, f"expected {' and '.join(sorted(wanted))} alone, got {shown(sorted(given))}")
    if not text.has_text:
        raise bad(name, "this model has no tokenizer.json, and so no text")
    if given["type"] == "json_object":
        return ""
    said = given["json_schema"]
    if not isinstance(said, dict) or "schema" not in said or not isinstance(said.get("name", ""), str):
        raise bad(name, f"expected json_schema with a name and a schema, got {shown(said)}")
    unknown = said.keys() - {"name", "schema", "strict", "description"}
    if unknown:
        raise bad(name, f"json_schema: there is no field {shown(min(unknown))}", "unknown_parameter")
    try:
        return check(said["schema"])
    except ValueError as error:
        raise bad(name, str(error), "unsupported_parameter") from None


def stops_of(given: Any) -> tuple[str, ...]:
    found = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(found, list) or not all(isinstance(s, str) and s for s in found) or len(found) > MOST_STOPS:
        raise bad("stop", f"expected a string or up to {MOST_STOPS} of them, none empty, got {shown(given)}")
    return tuple(found)


def ids_of(given: Any) -> tuple[int, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(type(w) is int for w in given):
        raise bad("stop_token_ids", f"expected an array of token ids, got {shown(given)}")
    return tuple(given)


def bias_of(given: Any, words: int) -> Mapping[int, float]:
    """What is added to the logits of words; names of fields are strings in JSON."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise bad("logit_bias", f"expected an object of token ids and numbers, got {shown(given)}")
    found = {}
    for word, value in given.items():
        fits = word.isascii() and word.isdigit() and len(word) < 12 and type(value) in (int, float)
        if not fits or not -MOST_BIAS <= value <= MOST_BIAS or int(word) >= words:
            raise bad("logit_bias", f"expected token ids below {words} and numbers from -100 to 100, got"
                                    f" {shown({word: value})}")
        found[int(word)] = float(value)
    return found

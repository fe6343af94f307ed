"""Words and text: tokenizer.json, chat templates, and text that appears word by word.

Enters: a folder. Leaves: `Text`, which turns text and messages into words, and `Written`, which turns words back as
they come: whole characters only, and nothing behind a string that ends the text. Refuses: to run anything of a template
but what a sandbox allows, and chats where there is no template.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Sequence
from typing import Any

from .config import read_json
from .vocabulary import bytes_of_piece

HELD = "\N{REPLACEMENT CHARACTER}"     # what stands for the first bytes of a character


class Text:
    """The tokenizer and the chat template of a folder. Without a tokenizer there are words, and no text."""

    def __init__(self, folder: str) -> None:
        self.tokenizer: Any = None
        path = os.path.join(folder, "tokenizer.json")
        if os.path.isfile(path):
            from tokenizers import Tokenizer

            try:
                self.tokenizer = Tokenizer.from_file(path)
            except Exception as error:      # the library raises nothing more precise
                raise ValueError(f"{path}: cannot be read as a tokenizer: {error}") from None
            self.tokenizer.no_padding()
            self.tokenizer.no_truncation()
        given = read_json(folder, "tokenizer_config.json")
        self.special = {k: token_of(v) for k, v in given.items() if k.endswith("_token") and token_of(v) is not None}
        self.template = template_of(folder, given)
        self.compiled: Any = None

    @property
    def has_text(self) -> bool:
        return self.tokenizer is not None

    def words(self, text: str, whole: bool = True) -> list[int]:
        """The words of a text; `whole`: with those that begin (or end) every text."""
        if self.tokenizer is None:
            raise ValueError("prompt: expected token ids, since this model has no tokenizer.json, got text")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"expected whole characters, got half of one, {text[error.start]!a}") from None
        return list(self.tokenizer.encode(text, add_special_tokens=whole).ids)

    def decode(self, words: Sequence[int], special: bool = False) -> str:
        return self.tokenizer.decode(list(words), skip_special_tokens=not special) if self.tokenizer is not None else ""

    def shown(self, word: int) -> str:
        """One word as a list of probabilities names it; one that writes part of a character by its bytes."""
        if self.tokenizer is None:
            return f"token_id:{word}"
        text = self.decode([word], True)
        content = self.bytes_of(word) if HELD in text else b""
        try:
            content.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in content)
        return text

    def bytes_of(self, word: int) -> bytes:
        """What one word writes, which may be part of a character."""
        if self.tokenizer is None:
            return self.shown(word).encode()
        text = self.decode([word], True)
        content = bytes_of_piece(self.tokenizer.id_to_token(word) or "") if HELD in text else None
        return text.encode() if content is None else content

    def chat(self, messages: Sequence[dict[str, Any]], options: dict[str, Any]) -> str:
        """Messages as one text, as the template writes them."""
        if self.template is None:
            raise ValueError("messages: this model has no chat template. Use /v1/completions.")
        import jinja2

        if self.compiled is None:
            self.compiled = environment().from_string(self.template)
        try:
            return self.compiled.render(
                **{"messages": messages, "add_generation_prompt": True, "tools": None, "documents": None,
                   **self.special, **options}
            )
        except jinja2.TemplateError as error:
            raise ValueError(f"messages: the chat template refuses them: {error}") from None
        except (TypeError, KeyError, ValueError, RecursionError, OverflowError) as error:
            raise ValueError(f"messages: the chat template cannot write them: {error}") from None


def token_of(value: Any) -> str | None:
    """A special word, as either form of the file names it."""
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else None


def template_of(folder: str, given: dict[str, Any]) -> str | None:
    """The chat template: a file of its own, or an entry of tokenizer_config.json; of several the one named default."""
    path = os.path.join(folder, "chat_template.jinja")
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            return file.read()
    found = given.get("chat_template", read_json(folder, "chat_template.json").get("chat_template"))
    if isinstance(found, list):
        named = {t["name"]: t["template"] for t in found if isinstance(t, dict) and {"name", "template"} <= t.keys()}
        found = named.get("default")
    return found if isinstance(found, str) else None


def environment() -> Any:
    """What templates may use."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def to_json(value: Any, indent: int | None = None, **rest: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent, **rest)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return made


class Written:
    """The text of words that come one by one."""

    def __init__(self, text: Text, stops: Sequence[str] = ()) -> None:
        self.text, self.stops = text, tuple(stops)
        self.words: list[int] = []
        self.start = self.end = 0         # words whose text is compared, and those of them that are told
        self.held = ""                    # text that may be the beginning of a stop
        self.length = 0                   # characters told so far
        self.is_stopped = False

    def add(self, word: int | None, last: bool = False) -> str:
        """The text that a word adds; with `last` all that was held back."""
        if word is not None:
            self.words.append(word)
        fresh = self.fresh(last) if self.text.has_text else ""
        told = self.before_stop(self.held + fresh, last)
        self.length += len(told)
        return told

    def fresh(self, last: bool) -> str:
        """Whole characters that were not told yet."""
        before = self.text.decode(self.words[self.start : self.end])
        now = self.text.decode(self.words[self.start :])
        if len(now) <= len(before) or (now.endswith(HELD) and not last):
            return ""
        self.start, self.end = self.end, len(self.words)
        return now[len(before) :]

    def before_stop(self, text: str, last: bool) -> str:
        """The text up to a stop, without an end that may become one."""
        places = [at for at in (text.find(stop) for stop in self.stops) if at >= 0]
        if places:
            self.is_stopped, self.held = True, ""
            return text[: min(places)]
        count = 0 if last else max((overlap(text, stop) for stop in self.stops), default=0)
        self.held = text[len(text) - count :]
        return text[: len(text) - count]


def overlap(text: str, stop: str) -> int:
    """How many characters at the end of a text are the beginning of a stop."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)

"""Answers as OpenAI's clients read them: objects of completions and of chats, whole or in pieces.

Enters: an `Asked` and what engines tell. Leaves: JSON objects. Refuses: nothing.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from .client import Told
from .requests import Asked
from .sampling import Chosen
from .text import Text, Written


@dataclass
class Piece:
    """What a step adds to one answer."""

    index: int
    text: str
    finish: str | None
    chosen: list[Chosen] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    is_first: bool = False


class Answer:
    """One answer in the making: its text, and how likely its words were."""

    def __init__(self, index: int, asked: Asked, text: Text, ends: tuple[int, ...]) -> None:
        self.index, self.asked, self.text = index, asked, text
        self.sampling = asked.samplings[index]
        self.ends = (() if self.sampling.ignore_eos else ends) + self.sampling.stop_ids
        self.written = Written(text, asked.stops)
        self.parts: list[str] = []
        self.chosen: list[Chosen] = []
        self.offsets: list[int] = []
        self.count = self.cached = 0
        self.at = 0                      # characters in front of what is told next
        self.finish: str | None = None
        self.is_new = True

    def add(self, told: Told) -> Piece:
        """What an event adds."""
        piece = Piece(self.index, "", told.finish, is_first=self.is_new)
        self.cached = max(self.cached, told.cached)
        if self.is_new and self.asked.echo:
            self.echo(piece, told.prompt)
        self.is_new = False
        if told.chosen is not None:
            self.count += 1
            ends = told.finish == "stop" and told.chosen.word in self.ends
            text = self.written.add(None if ends else told.chosen.word, told.finish is not None)
            if self.sampling.logprobs is not None and not ends:
                piece.chosen.append(told.chosen)
                piece.offsets.append(self.at)
            piece.text += text
            self.at += len(text)
        if self.written.is_stopped:
            piece.finish = "stop"
        self.finish = piece.finish
        self.parts.append(piece.text)
        self.chosen += piece.chosen
        self.offsets += piece.offsets
        return piece

    def echo(self, piece: Piece, prompt: list[Chosen] | None) -> None:
        """The prompt stands before the answer, and its words' probabilities before those of the answer's."""
        words = self.asked.prompts[self.index]
        piece.text = self.text.decode(words)
        if self.sampling.prompt_logprobs is not None:
            piece.chosen = [Chosen(words[0]), *(prompt or [])]
            for n in range(len(words)):
                piece.offsets.append(len(self.text.decode(words[:n])) if self.text.has_text else 0)
        self.at = len(piece.text)


class Answers:
    """All answers to a request, and the objects they are written in."""

    def __init__(self, asked: Asked, text: Text, ends: tuple[int, ...]) -> None:
        self.asked, self.text = asked, text
        self.all = [Answer(n, asked, text, ends) for n in range(len(asked.prompts))]
        self.name = ("chatcmpl-" if asked.is_chat else "cmpl-") + uuid.uuid4().hex
        self.created = int(time.time())

    def head(self, is_piece: bool) -> dict[str, Any]:
        kind = "text_completion"
        if self.asked.is_chat:
            kind = "chat.completion.chunk" if is_piece else "chat.completion"
        return {"id": self.name, "object": kind, "created": self.created, "model": self.asked.model}

    def usage(self) -> dict[str, Any]:
        """Words read and written; those of a prompt that is asked several times count once."""
        firsts = self.all[:: self.asked.same]
        read = sum(len(self.asked.prompts[a.index]) for a in firsts)
        written = sum(a.count for a in self.all)
        return {
            "prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": sum(a.cached for a in firsts)},
        }

    def whole(self) -> dict[str, Any]:
        """The object of an answer that is not streamed."""
        choices = []
        for a in self.all:
            text = "".join(a.parts)
            logs = self.logprobs(a.chosen, a.offsets) if a.sampling.logprobs is not None else None
            said = {"message": {"role": "assistant", "content": text, "refusal": None}} if self.asked.is_chat else {
                "text": text
            }
            choices.append({"index": a.index, **said, "logprobs": logs, "finish_reason": a.finish})
        return {**self.head(False), "choices": choices, "usage": self.usage()}

    def piece(self, piece: Piece) -> dict[str, Any]:
        """The object of one step of a streamed answer."""
        logs = self.logprobs(piece.chosen, piece.offsets) if piece.chosen else None
        if self.asked.is_chat:
            delta: dict[str, Any] = {"role": "assistant"} if piece.is_first else {}
            if piece.text or piece.is_first:
                delta["content"] = piece.text
            said: dict[str, Any] = {"delta": delta}
        else:
            said = {"text": piece.text}
        choice = {"index": piece.index, **said, "logprobs": logs, "finish_reason": piece.finish}
        return self.with_usage({**self.head(True), "choices": [choice]})

    def with_usage(self, said: dict[str, Any]) -> dict[str, Any]:
        """Where the last object tells of usage, those before say that they do not."""
        return {**said, "usage": None} if self.asked.with_usage else said

    def last(self) -> dict[str, Any]:
        return {**self.head(True), "choices": [], "usage": self.usage()}

    def logprobs(self, chosen: list[Chosen], offsets: list[int]) -> dict[str, Any]:
        shown = self.text.shown
        if not self.asked.is_chat:
            return {
                "tokens": [shown(c.word) for c in chosen],
                "token_logprobs": [c.logprob for c in chosen],
                "top_logprobs": [
                    None if c.logprob is None else {shown(w): p for w, p in ((c.word, c.logprob), *(c.likeliest or ()))}
                    for c in chosen
                ],
                "text_offset": offsets,
            }

        def entry(word: int, logprob: float | None) -> dict[str, Any]:
            return {"token": shown(word), "logprob": logprob, "bytes": list(self.text.bytes_of(word))}

        return {"content": [
            {**entry(c.word, c.logprob), "top_logprobs": [entry(w, p) for w, p in c.likeliest or ()]} for c in chosen
        ], "refusal": None}

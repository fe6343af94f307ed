"""Handlers of text.

Enters: rows with text. Leaves: the words of each, cleaned. Refuses: rows without text.
"""

from __future__ import annotations

import json
import os
import re
import string
import unicodedata
from typing import Any

import torch

from .base_handler import BaseHandler

_TAGS = re.compile(r"<[^>]*>")


class TextHandler(BaseHandler):
    """A base: `source_vocab` says the number of each word, from `source_vocab.json` or `.pt` in the archive."""

    def __init__(self) -> None:
        super().__init__()
        self.source_vocab: Any = None

    def initialize(self, context: Any) -> None:
        super().initialize(context)
        folder = context.system_properties["model_dir"]
        for name in ("source_vocab.json", "source_vocab.pt"):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and name.endswith(".json"):
                with open(path) as file:
                    self.source_vocab = json.load(file)
            elif os.path.isfile(path):
                self.source_vocab = torch.load(path, weights_only=True)
            if self.source_vocab is not None:
                return

    def get_source_vocab_path(self, ctx: Any) -> str:
        return os.path.join(ctx.system_properties["model_dir"], "source_vocab.pt")

    def get_word_token(self, input_tokens: Any) -> list[str]:
        """The words of numbers."""
        words = {number: word for word, number in self.source_vocab.items()}
        return [words.get(int(number), "") for number in input_tokens]

    def _remove_html_tags(self, text: str) -> str:
        return _TAGS.sub(" ", text)

    def _remove_accented_characters(self, text: str) -> str:
        return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()

    def _remove_punctuation(self, *args: Any, **kwargs: Any) -> Any:
        table = str.maketrans("", "", string.punctuation)
        return [str(word).translate(table) for word in args[0]]

    def _tokenize(self, text: str) -> list[str]:
        return re.findall(r"\w+|[^\w\s]", text.lower())

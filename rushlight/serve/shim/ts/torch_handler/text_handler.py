"""Handlers of text.

Enters: rows with text. Leaves: the words of each, cleaned: without marks of HTML, accents, punctuation, and with
English contractions written out. Refuses: archives without a vocabulary.
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

_TAGS = re.compile(r"<[^>]*>|&(?:[a-zA-Z0-9]+|#[0-9]+|#x[0-9a-fA-F]+);")
_IS = "he|she|it|that|this|there|here|what|where|when|who|why|how"
# From the special to the general: each as words are written, and what stands for it.
_CONTRACTIONS = [(re.compile(rf"\b{short}\b", re.IGNORECASE), long) for short, long in (
    ("ain't", "is not"), ("can't", "cannot"), ("won't", "will not"), ("shan't", "shall not"), ("let's", "let us"),
    ("y'all", "you all"), ("ma'am", "madam"), ("o'clock", "of the clock"), (rf"({_IS})'s", r"\1 is"),
    (r"(\w+)n't", r"\1 not"), (r"(\w+)'re", r"\1 are"), (r"(\w+)'ve", r"\1 have"), (r"(\w+)'ll", r"\1 will"),
    (r"(\w+)'d", r"\1 would"), (r"(\w+)'m", r"\1 am"))]


class TextHandler(BaseHandler):
    """A base: `source_vocab` says the number of each word, from `source_vocab.pt` or `.json` in the archive."""

    def __init__(self) -> None:
        super().__init__()
        self.source_vocab: Any = None

    def initialize(self, context: Any) -> None:
        super().initialize(context)
        self.initialized = False
        path = self.get_source_vocab_path(context)
        if path.endswith(".json"):
            with open(path, encoding="utf-8") as file:
                self.source_vocab = json.load(file)
        else:
            self.source_vocab = torch.load(path, weights_only=True)
        self.initialized = True

    def get_source_vocab_path(self, ctx: Any) -> str:
        folder, said = ctx.system_properties["model_dir"], self.manifest["model"].get("sourceVocab")
        for name in (os.path.basename(said or ""), "source_vocab.pt", "source_vocab.json"):
            if name and os.path.isfile(os.path.join(folder, name)):
                return os.path.join(folder, name)
        raise RuntimeError("the archive holds no vocabulary: expected source_vocab.pt or source_vocab.json")

    def get_word_token(self, input_tokens: Any) -> list[str]:
        """The words of numbers."""
        words = {number: word for word, number in self.source_vocab.items()}
        return [words.get(int(number), "") for number in input_tokens]

    def _expand_contractions(self, text: str) -> str:
        for pattern, long in _CONTRACTIONS:
            text = pattern.sub(long, text)
        return text.replace("'", "")

    def _remove_html_tags(self, text: str) -> str:
        return _TAGS.sub("", text)

    def _remove_accented_characters(self, text: str) -> str:
        return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()

    def _remove_punctuation(self, text: str) -> str:
        return text.translate(str.maketrans("", "", string.punctuation))

    def _remove_puncutation(self, text: str) -> str:      # the name that old handlers call it by
        return self._remove_punctuation(text)

    def _tokenize(self, text: str) -> list[str]:
        return re.findall(r"\w+|[^\w\s]", text.lower())

"""Text to labels.

Enters: rows with text, of which each is one request. Leaves: for each the probabilities of all labels. Refuses:
archives without a vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch

from ..utils.util import map_class_to_label
from .text_handler import TextHandler


class TextClassifier(TextHandler):
    """Models that take the numbers of words, one text behind the other, and where each begins."""

    ngrams = 2

    def preprocess(self, data: Any) -> Any:
        numbers: list[int] = []
        starts: list[int] = []
        for row in data:
            words = self._words(row.get("data") or row.get("body"))
            grams = [" ".join(words[at : at + n]) for n in range(1, self.ngrams + 1)
                     for at in range(len(words) - n + 1)]
            starts.append(len(numbers))
            numbers += [n for n in map(self._number, grams) if n is not None] or [0]
        return torch.as_tensor(numbers, device=self.device), torch.as_tensor(starts, device=self.device)

    def _words(self, text: Any) -> list[str]:
        """The words of a text, cleaned."""
        if isinstance(text, dict):
            text = text.get("text") or text.get("data")
        text = text.decode() if isinstance(text, (bytes, bytearray)) else text
        text = self._expand_contractions(self._remove_html_tags(text).lower())
        return self._tokenize(self._remove_punctuation(self._remove_accented_characters(text)))

    def _number(self, gram: str) -> int | None:
        """Its number; that of unknown words where the vocabulary has one, else none."""
        return self.source_vocab.get(gram, self.source_vocab.get("<unk>"))

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode():
            return self.model(*data)

    def postprocess(self, data: Any) -> list[Any]:
        chances = torch.nn.functional.softmax(data, dim=-1).tolist()
        return map_class_to_label(chances, self.mapping, [list(range(len(row))) for row in chances])

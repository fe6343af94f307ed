"""The bytes that each word of a vocabulary writes, from tokenizer.json.

Enters: a folder. Leaves: a `Vocabulary`: bytes by word, and a tree of them by their beginnings. Refuses: folders
without a tokenizer.json, tokenizers whose words do not stand for bytes by themselves, and vocabularies that cannot
write every character of ASCII. Words that are special (the ends of texts, the marks of chats) write nothing.
"""

from __future__ import annotations

import functools
import json
import os
import re
from array import array
from typing import Any

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@functools.cache
def byte_letters() -> dict[str, int]:
    """The letters that stand for bytes in tokenizers over bytes: printable ones for themselves, others from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    found = {chr(b): b for b in plain}
    found.update({chr(256 + n): b for n, b in enumerate(b for b in range(256) if b not in set(plain))})
    return found


def bytes_of_piece(piece: str) -> bytes | None:
    """The bytes of a word that stands for some, as a tokenizer's file writes it; None for words that are text."""
    code, letters = _BYTE.fullmatch(piece), byte_letters()
    if code:
        return bytes([int(code[1], 16)])
    return bytes(letters[c] for c in piece) if all(c in letters for c in piece) else None


def _parts(decoder: Any) -> list[dict[str, Any]]:
    """The steps of a decoder."""
    if not isinstance(decoder, dict):
        return []
    if decoder.get("type") == "Sequence":
        return [step for one in decoder.get("decoders", []) for step in _parts(one)]
    return [decoder]


def _pieces(model: dict[str, Any]) -> dict[str, int]:
    """Words as the file writes them, and their numbers."""
    said = model.get("vocab")
    if isinstance(said, dict):
        return {k: v for k, v in said.items() if type(v) is int}
    if isinstance(said, list):
        return {one[0]: n for n, one in enumerate(said) if isinstance(one, list) and one and isinstance(one[0], str)}
    return {}


def bytes_of_words(folder: str) -> dict[int, bytes]:
    """What each word writes."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.isfile(path):
        raise ValueError("this model has no tokenizer.json, and so writes no text")
    with open(path, encoding="utf-8") as file:
        said = json.load(file)
    steps = _parts(said.get("decoder"))
    kinds = [step.get("type") for step in steps]
    pieces = _pieces(said.get("model") or {})
    if "ByteLevel" in kinds:
        letters = byte_letters()
        found = {n: bytes(letters[c] for c in piece) for piece, n in pieces.items() if all(c in letters for c in piece)}
    elif "ByteFallback" in kinds or "Metaspace" in kinds:
        space = next((step.get("replacement", "▁") for step in steps if step.get("type") == "Metaspace"), "▁")
        found = {}
        for piece, n in pieces.items():
            code = _BYTE.fullmatch(piece) if "ByteFallback" in kinds else None
            found[n] = bytes([int(code[1], 16)]) if code else piece.replace(space, " ").encode()
    else:
        raise ValueError(f"its tokenizer's words stand for no bytes by themselves (decoder {kinds or 'none'})")
    for added in said.get("added_tokens") or ():
        found.pop(added["id"], None)
        if not added.get("special"):
            found[added["id"]] = added["content"].encode()
    return {n: content for n, content in found.items() if content}


class Vocabulary:
    """Words by their bytes, as a tree: node 0 is the beginning; `first`, `following` and `byte` say where its children
    are, `ends` which words end at a node."""

    def __init__(self, folder: str, words: int) -> None:
        """`words`: how many the model knows, which may be more than have bytes, or less."""
        content = {n: b for n, b in bytes_of_words(folder).items() if n < words}
        single = {b[0] for b in content.values() if len(b) == 1}
        missing = set(range(0x20, 0x7F)) - single
        if missing:
            raise ValueError(f"its vocabulary has no word for {chr(min(missing))!r} alone")
        self.is_wide = set(range(0x80, 0xF5)) - {0xC0, 0xC1} <= single
        if not self.is_wide:      # what begins within a character could not be finished
            content = {n: b for n, b in content.items() if b.isascii()}
        self.words, self.bytes = words, content
        self.first, self.following, self.byte = array("i", [0]), array("i", [0]), bytearray(1)
        self.ends: dict[int, list[int]] = {}
        path, before = [0], b""
        for n, content_of in sorted(content.items(), key=lambda item: item[1]):
            shorter = min(len(before), len(content_of))
            same = next((n for n in range(shorter) if before[n] != content_of[n]), shorter)
            del path[same + 1 :]
            for b in content_of[same:]:
                path.append(self._child(path[-1], b))
            self.ends.setdefault(path[-1], []).append(n)
            before = content_of

    def _child(self, node: int, byte: int) -> int:
        """A new node; the youngest is found first."""
        self.byte.append(byte)
        self.first.append(0)
        self.following.append(self.first[node])
        self.first[node] = len(self.byte) - 1
        return len(self.byte) - 1

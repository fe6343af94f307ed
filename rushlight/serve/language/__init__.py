"""Language models: folders in Hugging Face's form, decoded together over a paged cache, asked as OpenAI's clients ask.

Enters: folders of config.json, safetensors files, tokenizer.json and a chat template. Leaves: `routes(models)` for the
server, whose engines are processes of their own (`client.py`, `worker.py`), and `Engine` for programs without a server.
Refuses: models of kinds it has no definition for, and requests that are wrong, with a word about what was expected.
"""

from __future__ import annotations

from typing import Any

HOMES = {
    "routes": "paths", "load": "client", "LanguageModel": "client", "Engine": "engine", "Settings": "settings",
    "Sampling": "sampling", "is_folder": "config",
}


def __getattr__(name: str) -> Any:
    from ...base import late  # what is imported depends on the name

    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(late.import_module(f"{__name__}.{HOMES[name]}"), name)


__all__ = list(HOMES)

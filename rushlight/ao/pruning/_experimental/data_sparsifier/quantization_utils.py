"""Embeddings sparsified and quantized after training. Refuses: quantized embeddings are not built yet."""

from __future__ import annotations

from typing import Any, NoReturn

from .....nn import Embedding, EmbeddingBag, Module

SUPPORTED_MODULES: set[type] = {Embedding, EmbeddingBag}


def post_training_sparse_quantize(
    model: Module,
    data_sparsifier_class: type,
    sparsify_first: bool = True,
    select_embeddings: list[Module] | None = None,
    **sparse_config: Any,
) -> NoReturn:
    """Refuses: it quantizes embeddings, which needs quantized tensors."""
    raise NotImplementedError(
        "post_training_sparse_quantize: quantized embeddings are not built yet. Sparsify the embeddings alone, with"
        " data_sparsifier_class(...).add_data(name, embedding), step() and squash_mask()."
    )

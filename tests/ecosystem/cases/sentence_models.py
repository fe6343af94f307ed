"""sentence-transformers and datasets: a tiny encoder, pooling, losses, similarity; tables read as tensors."""

from __future__ import annotations

import os
import tempfile

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, losses, util
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

NEEDS = "sentence-transformers datasets"
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on under mat tree and quick slow red blue".split()


def encoder(folder: str, pooling: str = "mean") -> SentenceTransformer:
    with open(os.path.join(folder, "vocab.txt"), "w") as file:
        file.write("\n".join(WORDS))
    torch.manual_seed(3)
    BertModel(
        BertConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
        )
    ).save_pretrained(folder)
    BertTokenizerFast(os.path.join(folder, "vocab.txt")).save_pretrained(folder)
    words = Transformer(folder, max_seq_length=16)
    return SentenceTransformer(
        modules=[words, Pooling(16, pooling_mode=pooling), Dense(16, 8), Normalize()], device="cpu"
    )


SENTENCES = ["the cat sat on the mat", "a dog ran", "the quick red cat", "slow blue dog under a tree and on the mat"]


def case_encoding() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        results = {}
        for pooling in ("mean", "cls", "max"):
            vectors = encoder(folder, pooling).encode(
                SENTENCES, batch_size=2, show_progress_bar=False, convert_to_tensor=True
            )
            results[pooling] = vectors
        found = util.semantic_search(vectors[:2], vectors, top_k=3)
    return {
        **results,
        "similar": util.cos_sim(vectors, vectors),
        "order": [[hit["corpus_id"] for hit in hits] for hits in found],
        "scores": [[hit["score"] for hit in hits] for hits in found],
        "mined": [[int(i), int(j)] for _, i, j in util.paraphrase_mining_embeddings(vectors)],
        "groups": util.community_detection(vectors, threshold=0.5, min_community_size=1),
    }


def case_losses() -> dict:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, labels in (
            (losses.CosineSimilarityLoss, torch.tensor([0.8, 0.1])),
            (losses.MultipleNegativesRankingLoss, None),
            (losses.CoSENTLoss, torch.tensor([0.9, 0.2])),
        ):
            model = encoder(folder).eval()
            features = [
                {k: v for k, v in model.tokenize(side).items() if torch.is_tensor(v)}
                for side in (SENTENCES[:2], SENTENCES[2:])
            ]
            loss = kind(model)(features, labels)
            loss.backward()
            results[kind.__name__] = [
                loss,
                torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]),
            ]
    return results


def case_tables_as_tensors() -> dict:
    table = Dataset.from_dict(
        {"x": [[float(i), i + 0.5] for i in range(6)], "n": list(range(6)), "text": [f"row {i}" for i in range(6)]}
    )
    tensors = table.with_format("torch")
    loader = torch.utils.data.DataLoader(tensors, batch_size=4, shuffle=True)
    doubled = tensors.map(lambda row: {"twice": row["x"] * 2})
    return {
        "row": tensors[2],
        "column": tensors[:3]["x"],
        "dtype": str(tensors["n"][:].dtype),
        "batches": [[batch["x"], batch["n"], list(batch["text"])] for batch in loader],
        "doubled": doubled[1]["twice"],
    }

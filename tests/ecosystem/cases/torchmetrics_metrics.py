"""torchmetrics: classification, regression, retrieval, image and text metrics, collections, and their state."""

from __future__ import annotations

import torch
import torchmetrics
from torchmetrics import functional

NEEDS = "torchmetrics"


def case_classification() -> dict:
    scores, target = torch.rand(40, 4).softmax(-1), torch.randint(4, (40,))
    metrics = torchmetrics.MetricCollection(
        [
            torchmetrics.classification.MulticlassAccuracy(4),
            torchmetrics.classification.MulticlassF1Score(4),
            torchmetrics.classification.MulticlassAUROC(4),
            torchmetrics.classification.MulticlassConfusionMatrix(4),
            torchmetrics.classification.MulticlassCalibrationError(4),
            torchmetrics.classification.MulticlassAveragePrecision(4),
        ]
    )
    for part in range(4):
        metrics.update(scores[part * 10:][:10], target[part * 10:][:10])
    return {"all": metrics.compute(), "kappa": functional.cohen_kappa(scores, target, task="multiclass", num_classes=4)}


def case_binary() -> dict:
    scores, target = torch.rand(50), torch.randint(2, (50,))
    roc = functional.roc(scores, target, task="binary")
    return {
        "roc": list(roc),
        "auroc": functional.auroc(scores, target, task="binary"),
        "f1": functional.f1_score(scores, target, task="binary"),
        "mcc": functional.matthews_corrcoef(scores, target, task="binary"),
    }


def case_regression() -> dict:
    a, b = torch.randn(30), torch.randn(30)
    names = (
        "mean_squared_error",
        "mean_absolute_error",
        "r2_score",
        "pearson_corrcoef",
        "spearman_corrcoef",
        "explained_variance",
        "concordance_corrcoef",
    )
    return {name: getattr(functional, name)(a, b) for name in names}


def case_images() -> dict:
    a = torch.rand(2, 3, 32, 32)
    # of unrelated pictures, the similarity is a small difference of large sums
    b = 0.8 * a + 0.2 * torch.rand_like(a)
    return {
        "psnr": functional.image.peak_signal_noise_ratio(a, b, data_range=1.0),
        "ssim": functional.image.structural_similarity_index_measure(a, b),
        "tv": functional.image.total_variation(a),
    }


def case_text() -> dict:
    said, meant = ["the cat sat on a mat", "hello world"], [["the cat sat on the mat"], ["hello there world"]]
    return {
        "bleu": functional.text.bleu_score(said, meant),
        "wer": functional.text.word_error_rate(said, [m[0] for m in meant]),
        "perplexity": functional.text.perplexity(torch.randn(2, 5, 7), torch.randint(7, (2, 5))),
    }


def case_state() -> dict:
    import pickle

    metric = torchmetrics.MeanMetric()
    metric.update(torch.tensor([1.0, 2.0]))
    metric.persistent(True)
    again = pickle.loads(pickle.dumps(metric))
    again.update(torch.tensor(6.0))
    return {
        "mean": again.compute(),
        "state": dict(metric.state_dict()),
        "clone": metric.clone().compute(),
        "text": str(metric),
    }


def case_retrieval_and_aggregation() -> dict:
    indexes, scores, target = torch.randint(3, (20,)), torch.rand(20), torch.randint(2, (20,)).bool()
    found = torchmetrics.retrieval.RetrievalMAP()(scores, target, indexes=indexes)
    running = torchmetrics.aggregation.RunningMean(window=3)
    return {"map": found, "running": [running(torch.tensor(float(i))) for i in range(5)]}

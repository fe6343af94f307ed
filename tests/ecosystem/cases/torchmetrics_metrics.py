"""torchmetrics: classification, regression, retrieval, image and text metrics, collections, and their state."""

from __future__ import annotations

import torch
import torchmetrics
from torchmetrics import functional

from tests.ecosystem.compiling import prepared

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
    update = prepared(lambda scores, target: metrics.update(scores, target))
    for part in range(4):
        update(scores[part * 10:][:10], target[part * 10:][:10])
    kappa = prepared(lambda: functional.cohen_kappa(scores, target, task="multiclass", num_classes=4))
    return {"all": metrics.compute(), "kappa": kappa()}


def case_class_metrics() -> dict:
    """Called as modules: the value of a batch, and the state that all of them leave."""
    metrics = {
        "accuracy": torchmetrics.classification.MulticlassAccuracy(4),
        "f1": torchmetrics.classification.MulticlassF1Score(4),
        "confusion": torchmetrics.classification.MulticlassConfusionMatrix(4),
    }
    result = {}
    for name, metric in metrics.items():
        call = prepared(lambda scores, target, metric=metric: metric(scores, target))
        batches = [call(torch.rand(10, 4).softmax(-1), torch.randint(4, (10,))) for _ in range(3)]
        result[name] = [batches, metric.compute()]
    return result


def case_binary() -> dict:
    scores, target = torch.rand(50), torch.randint(2, (50,))
    return {
        "roc": list(prepared(lambda: functional.roc(scores, target, task="binary"))()),
        "auroc": prepared(lambda: functional.auroc(scores, target, task="binary"))(),
        "f1": prepared(lambda: functional.f1_score(scores, target, task="binary"))(),
        "mcc": prepared(lambda: functional.matthews_corrcoef(scores, target, task="binary"))(),
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
    return {name: prepared(getattr(functional, name))(a, b) for name in names}


def case_images() -> dict:
    a = torch.rand(2, 3, 32, 32)
    # of unrelated pictures, the similarity is a small difference of large sums
    b = 0.8 * a + 0.2 * torch.rand_like(a)
    return {
        "psnr": prepared(lambda: functional.image.peak_signal_noise_ratio(a, b, data_range=1.0))(),
        "ssim": prepared(functional.image.structural_similarity_index_measure)(a, b),
        "tv": prepared(functional.image.total_variation)(a),
    }


def case_text() -> dict:
    said, meant = ["the cat sat on a mat", "hello world"], [["the cat sat on the mat"], ["hello there world"]]
    return {
        "bleu": functional.text.bleu_score(said, meant),
        "wer": functional.text.word_error_rate(said, [m[0] for m in meant]),
        "perplexity": prepared(functional.text.perplexity)(torch.randn(2, 5, 7), torch.randint(7, (2, 5))),
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
    found = prepared(torchmetrics.retrieval.RetrievalMAP())(scores, target, indexes=indexes)
    running = prepared(torchmetrics.aggregation.RunningMean(window=3))
    return {"map": found, "running": [running(torch.tensor(float(i))) for i in range(5)]}

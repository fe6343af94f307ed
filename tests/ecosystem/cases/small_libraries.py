"""Smaller libraries: skorch, torchinfo, x-transformers, pytorch-metric-learning."""

from __future__ import annotations

import numpy
import torch
import torch.nn as nn

NEEDS = "skorch torchinfo x-transformers pytorch-metric-learning"


class Net(nn.Module):
    def __init__(self, hidden: int = 10) -> None:
        super().__init__()
        self.dense, self.drop, self.out = nn.Linear(6, hidden), nn.Dropout(0.2), nn.Linear(hidden, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.out(self.drop(torch.relu(self.dense(x)))), dim=-1)


def points() -> tuple[numpy.ndarray, numpy.ndarray]:
    x = numpy.random.randn(40, 6).astype("float32")
    return x, (x[:, 0] + x[:, 1] > 0).astype("int64")


def case_skorch_classifier() -> dict:
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EpochScoring, GradientNormClipping, LRScheduler

    x, y = points()
    net = NeuralNetClassifier(
        Net,
        max_epochs=4,
        lr=0.1,
        optimizer=torch.optim.Adam,
        batch_size=10,
        verbose=0,
        iterator_train__shuffle=True,
        callbacks=[
            EpochScoring("accuracy", name="train_accuracy", on_train=True),
            GradientNormClipping(1.0),
            LRScheduler("StepLR", step_size=2),
        ],
    )
    net.fit(x, y)
    return {
        "train": net.history[:, "train_loss"],
        "valid": net.history[:, "valid_loss"],
        "accuracy": net.history[:, "train_accuracy"],
        "chance": net.predict_proba(x[:5]),
        "classes": net.predict(x),
    }


def case_skorch_grid_search() -> dict:
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from skorch import NeuralNetClassifier

    x, y = points()
    net = NeuralNetClassifier(Net, max_epochs=2, lr=0.1, verbose=0, train_split=None)
    search = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("net", net)]),
        {"net__module__hidden": [4, 8], "net__lr": [0.05, 0.5]},
        cv=2,
        scoring="accuracy",
    )
    search.fit(x, y)
    return {"best": str(search.best_params_), "scores": search.cv_results_["mean_test_score"]}


def case_skorch_saved() -> dict:
    import pickle
    import tempfile

    from skorch import NeuralNetRegressor

    x, y = points()

    def make() -> NeuralNetRegressor:
        return NeuralNetRegressor(
            nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1)), max_epochs=2, verbose=0, train_split=None
        )

    net = make().fit(x, y[:, None].astype("float32"))
    with tempfile.TemporaryDirectory() as folder:
        net.save_params(f_params=f"{folder}/p.pt", f_optimizer=f"{folder}/o.pt", f_history=f"{folder}/h.json")
        again = make().initialize()
        again.load_params(f_params=f"{folder}/p.pt", f_optimizer=f"{folder}/o.pt", f_history=f"{folder}/h.json")
    return {
        "here": net.predict(x),
        "again": again.predict(x),
        "pickled": pickle.loads(pickle.dumps(net)).predict(x),
        "losses": again.history[:, "train_loss"],
    }


def case_torchinfo() -> dict:
    from torchinfo import summary

    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 64, 10),
    )
    recurrent = nn.LSTM(5, 7, num_layers=2, batch_first=True)
    columns = ("input_size", "output_size", "num_params", "kernel_size", "mult_adds", "trainable")
    return {
        "pictures": str(summary(model, (2, 3, 16, 16), col_names=columns, verbose=0, device="cpu")),
        "sequence": str(summary(recurrent, (2, 4, 5), verbose=0, device="cpu")),
        "transformer": str(summary(nn.TransformerEncoderLayer(8, 2, 16), (3, 2, 8), depth=4, verbose=0, device="cpu")),
    }


def trained(model: nn.Module, loss: torch.Tensor) -> dict:
    loss.backward()
    return {
        "loss": loss,
        "norms": torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]),
        "keys": list(model.state_dict()),
    }


def case_x_transformers_decoder() -> dict:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    model = AutoregressiveWrapper(
        TransformerWrapper(
            num_tokens=20,
            max_seq_len=16,
            attn_layers=Decoder(
                dim=16,
                depth=2,
                heads=2,
                attn_dim_head=8,
                rotary_pos_emb=True,
                ff_glu=True,
                use_rmsnorm=True,
                attn_flash=True,
            ),
        )
    )
    result = trained(model, model(torch.randint(0, 20, (2, 16))))
    model.eval()
    return {**result, "written": model.generate(torch.randint(0, 20, (1, 3)), 6, cache_kv=True)}


def case_x_transformers_encoders() -> dict:
    from x_transformers import Encoder, TransformerWrapper, ViTransformerWrapper, XTransformer

    text = TransformerWrapper(
        num_tokens=20,
        max_seq_len=12,
        attn_layers=Encoder(
            dim=16,
            depth=2,
            heads=2,
            attn_dim_head=8,
            alibi_pos_bias=True,
            alibi_num_heads=1,
            sandwich_norm=False,
            macaron=True,
        ),
    )
    out = text(torch.randint(0, 20, (2, 12)), mask=torch.arange(12)[None] < torch.tensor([[12], [7]]))
    vision = ViTransformerWrapper(
        image_size=16, patch_size=8, num_classes=4, attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8)
    )
    both = XTransformer(
        dim=16,
        enc_num_tokens=20,
        enc_depth=1,
        enc_heads=2,
        enc_max_seq_len=8,
        dec_num_tokens=20,
        dec_depth=1,
        dec_heads=2,
        dec_max_seq_len=8,
        tie_token_emb=True,
    )
    return {
        "text": trained(text, out.square().mean()),
        "vision": trained(vision, vision(torch.randn(2, 3, 16, 16)).square().mean()),
        "both": trained(
            both,
            both(torch.randint(0, 20, (2, 8)), torch.randint(0, 20, (2, 8)), mask=torch.ones(2, 8, dtype=torch.bool)),
        ),
    }


def case_metric_learning() -> dict:
    from pytorch_metric_learning import distances, losses, miners, reducers, regularizers

    labels, values = torch.tensor([0, 0, 1, 1, 2, 2, 0, 1]), {}
    kinds = [
        losses.TripletMarginLoss(),
        losses.ContrastiveLoss(),
        losses.NTXentLoss(),
        losses.MultiSimilarityLoss(),
        losses.CircleLoss(),
        losses.SupConLoss(),
        losses.ArcFaceLoss(3, 5),
        losses.ProxyAnchorLoss(3, 5),
        losses.AngularLoss(),
        losses.LiftedStructureLoss(),
        losses.NPairsLoss(),
        losses.VICRegLoss(),
        losses.TripletMarginLoss(
            distance=distances.CosineSimilarity(),
            reducer=reducers.ThresholdReducer(low=0),
            embedding_regularizer=regularizers.LpRegularizer(),
        ),
    ]
    for i, loss in enumerate(kinds):
        x = torch.randn(8, 5, requires_grad=True)
        value = loss(x, ref_emb=torch.randn(8, 5)) if isinstance(loss, losses.VICRegLoss) else loss(x, labels)
        value.backward()
        values[f"{i} {type(loss).__name__}"] = [value, x.grad]
    x = torch.randn(8, 5)
    mined = {
        type(m).__name__: list(m(x, labels))
        for m in (
            miners.MultiSimilarityMiner(),
            miners.TripletMarginMiner(type_of_triplets="semihard"),
            miners.BatchHardMiner(),
        )
    }
    return {**values, **mined, "with_miner": losses.TripletMarginLoss()(x, labels, miners.BatchHardMiner()(x, labels))}


def case_metric_testers() -> dict:
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    calculator = AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r"), k=5, knn_func=CustomKNN(LpDistance())
    )
    return calculator.get_accuracy(torch.randn(20, 4), torch.arange(20) % 3)

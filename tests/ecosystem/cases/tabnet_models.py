"""TabNet (pytorch-tabnet) and LPIPS: tables learned with attention, and the perceptual distance of pictures."""

from __future__ import annotations

import tempfile

import lpips
import numpy
import torch
from pytorch_tabnet.pretraining import TabNetPretrainer
from pytorch_tabnet.tab_model import TabNetClassifier, TabNetRegressor

NEEDS = "pandas pytorch-tabnet lpips torchvision"
TOLERANCE = 5e-3   # ghost batch norm over small batches, and Adam over its noise, magnify rounding
SIZES = {"n_d": 4, "n_a": 4, "n_steps": 2, "verbose": 0, "seed": 1, "device_name": "cpu"}


def table() -> tuple[numpy.ndarray, numpy.ndarray]:
    x = numpy.random.randn(64, 5).astype("float32")
    return x, (x[:, 0] > 0).astype("int64")


def case_classifier() -> dict:
    x, y = table()
    model = TabNetClassifier(optimizer_fn=torch.optim.SGD, optimizer_params={"lr": 0.05}, mask_type="entmax", **SIZES)
    model.fit(
        x[:48],
        y[:48],
        eval_set=[(x[48:], y[48:])],
        max_epochs=3,
        batch_size=16,
        virtual_batch_size=8,
        num_workers=0,
        drop_last=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        again = TabNetClassifier()
        again.load_model(model.save_model(f"{folder}/kept"))
    return {
        "losses": model.history["loss"],
        "chances": model.predict_proba(x[:6]),
        "again": again.predict_proba(x[:6]),
        "importance": model.feature_importances_,
    }


def case_regressor_after_pretraining() -> dict:
    x, y = table()
    options = {"optimizer_fn": torch.optim.SGD, "optimizer_params": {"lr": 0.02}, **SIZES}
    first = TabNetPretrainer(**options)
    first.fit(x, max_epochs=2, batch_size=32, virtual_batch_size=16, num_workers=0)
    model = TabNetRegressor(**options)
    model.fit(
        x,
        y[:, None].astype("float32"),
        max_epochs=2,
        batch_size=32,
        virtual_batch_size=16,
        num_workers=0,
        from_unsupervised=first,
    )
    return {"first": first.history["loss"], "losses": model.history["loss"], "predicted": model.predict(x[:6])}


def case_perceptual_distance() -> dict:
    distance = lpips.LPIPS(net="squeeze", pnet_rand=True, pretrained=False, verbose=False).eval()
    a, b = torch.rand(2, 3, 64, 64, requires_grad=True), torch.rand(2, 3, 64, 64)
    value = distance(a, b, normalize=True)
    value.sum().backward()
    return {"value": value, "grad": a.grad, "plain": lpips.l2(a.detach().numpy(), b.numpy())}

"""captum: attributions by gradients, perturbation and layers."""

from __future__ import annotations

import torch
from captum import attr

NEEDS = "captum"


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.relu = torch.nn.ReLU()
        self.pool = torch.nn.MaxPool2d(2)
        self.out = torch.nn.Linear(4 * 3 * 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.pool(self.relu(self.conv(x))).flatten(1))


def explained(method: object, **options: object) -> dict:
    model = Small().eval()
    x = torch.randn(2, 1, 8, 8)
    return {"attribution": method(model).attribute(x, target=torch.tensor([0, 2]), **options)}


def case_integrated_gradients() -> dict:
    model, x = Small().eval(), torch.randn(2, 1, 8, 8)
    found, delta = attr.IntegratedGradients(model).attribute(x, target=1, n_steps=10, return_convergence_delta=True)
    return {"attribution": found, "delta": delta}


def case_saliency() -> dict:
    return explained(attr.Saliency)


def case_input_x_gradient() -> dict:
    return explained(attr.InputXGradient)


def case_deconvolution() -> dict:
    return explained(attr.Deconvolution)


def case_guided_backprop() -> dict:
    return explained(attr.GuidedBackprop)


def case_deep_lift() -> dict:
    return explained(attr.DeepLift, baselines=torch.zeros(2, 1, 8, 8))


def case_occlusion() -> dict:
    return explained(attr.Occlusion, sliding_window_shapes=(1, 3, 3))


def case_feature_ablation() -> dict:
    return explained(attr.FeatureAblation, feature_mask=torch.arange(64).view(1, 1, 8, 8) // 16)


def case_shapley() -> dict:
    return explained(attr.ShapleyValueSampling, n_samples=3, feature_mask=torch.arange(64).view(1, 1, 8, 8) // 16)


def case_gradient_shap() -> dict:
    return explained(attr.GradientShap, baselines=torch.zeros(3, 1, 8, 8), n_samples=3)


def case_layers() -> dict:
    model, x = Small().eval(), torch.randn(2, 1, 8, 8)
    return {
        "cam": attr.LayerGradCam(model, model.conv).attribute(x, target=1),
        "activation": attr.LayerActivation(model, model.relu).attribute(x),
        "conductance": attr.LayerConductance(model, model.conv).attribute(x, target=1, n_steps=5),
    }


def case_noise_tunnel() -> dict:
    model, x = Small().eval(), torch.randn(2, 1, 8, 8)
    return {"smooth": attr.NoiseTunnel(attr.Saliency(model)).attribute(x, nt_samples=3, target=0)}

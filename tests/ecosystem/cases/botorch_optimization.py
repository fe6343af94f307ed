"""BoTorch: Gaussian process models, acquisition functions and their optimization."""

from __future__ import annotations

import torch
from botorch.acquisition import (
    ExpectedImprovement,
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qExpectedImprovement,
    qKnowledgeGradient,
    qLogExpectedImprovement,
)
from botorch.acquisition.multi_objective import qExpectedHypervolumeImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import IIDNormalSampler, SobolQMCNormalSampler
from botorch.test_functions import Branin, Hartmann
from botorch.utils.multi_objective.box_decompositions.non_dominated import FastNondominatedPartitioning
from botorch.utils.multi_objective.pareto import is_non_dominated
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood, SumMarginalLogLikelihood

NEEDS = "botorch"
TOLERANCE = 1e-3
BOUNDS = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], dtype=torch.double)


def problem() -> tuple[torch.Tensor, torch.Tensor]:
    x = draw_sobol_samples(BOUNDS, n=8, q=1, seed=3).squeeze(1)
    return x, Branin(negate=True)(x).unsqueeze(-1)


def model(fit: bool = False) -> tuple[SingleTaskGP, torch.Tensor]:
    x, y = problem()
    process = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
    if fit:
        fit_gpytorch_mll(
            ExactMarginalLogLikelihood(process.likelihood, process), optimizer_kwargs={"options": {"maxiter": 8}}
        )
    return process, y


def case_model_and_fit() -> dict:
    process, _ = model(fit=True)
    at = draw_sobol_samples(BOUNDS, n=4, q=1, seed=9).squeeze(1)
    posterior = process.posterior(at)
    return {
        "mean": posterior.mean,
        "variance": posterior.variance,
        "sampled": posterior.rsample(torch.Size([2])),
        "state": dict(process.state_dict()),
    }


def case_acquisition_values() -> dict:
    process, y = model()
    at = draw_sobol_samples(BOUNDS, n=3, q=1, seed=4).requires_grad_(True)
    values = {}
    for acquisition in (
        ExpectedImprovement(process, y.max()),
        LogExpectedImprovement(process, y.max()),
        UpperConfidenceBound(process, 0.2),
        PosteriorMean(process),
    ):
        value = acquisition(at)
        slope, = torch.autograd.grad(value.sum(), at)
        values[type(acquisition).__name__] = [value, slope]
    pairs = draw_sobol_samples(BOUNDS, n=3, q=2, seed=5)
    for kind in (qExpectedImprovement, qLogExpectedImprovement):
        for sampler in (SobolQMCNormalSampler(torch.Size([16]), seed=1), IIDNormalSampler(torch.Size([16]), seed=1)):
            values[f"{kind.__name__} {type(sampler).__name__}"] = kind(process, y.max(), sampler=sampler)(pairs)
    values["knowledge"] = qKnowledgeGradient(process, num_fantasies=2)(draw_sobol_samples(BOUNDS, n=1, q=3, seed=6))
    return values


def case_optimize_acquisition() -> dict:
    process, y = model()
    candidate, value = optimize_acqf(
        LogExpectedImprovement(process, y.max()),
        BOUNDS,
        q=1,
        num_restarts=2,
        raw_samples=16,
        options={"maxiter": 10, "seed": 0},
    )
    torch.manual_seed(0)
    batch, batch_value = optimize_acqf(
        qLogExpectedImprovement(process, y.max(), sampler=SobolQMCNormalSampler(torch.Size([16]), seed=1)),
        BOUNDS,
        q=2,
        num_restarts=2,
        raw_samples=16,
        options={"maxiter": 5, "seed": 0},
    )
    return {"value": value, "candidate": candidate, "batch": batch, "batch_value": batch_value}


def case_several_objectives() -> dict:
    x = torch.rand(10, 3, dtype=torch.double)
    y = torch.stack([-(x - 0.3).square().sum(-1), -(x - 0.7).square().sum(-1)], dim=-1)
    models = ModelListGP(*[SingleTaskGP(x, y[:, i:i + 1]) for i in range(2)])
    reference = torch.tensor([-1.5, -1.5], dtype=torch.double)
    parts = FastNondominatedPartitioning(ref_point=reference, Y=y)
    acquisition = qExpectedHypervolumeImprovement(
        models, reference, parts, sampler=SobolQMCNormalSampler(torch.Size([8]), seed=2)
    )
    loss = SumMarginalLogLikelihood(models.likelihood, models)
    models.train()
    likelihood = loss(models(*models.train_inputs), models.train_targets)
    models.eval()
    return {
        "front": is_non_dominated(y),
        "volume": parts.compute_hypervolume(),
        "likelihood": likelihood,
        "values": acquisition(torch.rand(3, 2, 3, dtype=torch.double)),
        "hartmann": Hartmann(dim=6)(torch.rand(2, 6, dtype=torch.double)),
    }

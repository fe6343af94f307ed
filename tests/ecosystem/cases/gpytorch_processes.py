"""gpytorch: exact and variational Gaussian processes, kernels, training by marginal likelihood."""

from __future__ import annotations

import gpytorch
import torch

NEEDS = "gpytorch"


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: object, kernel: object) -> None:
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x: torch.Tensor) -> object:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def fitted(kernel: object) -> dict:
    x = torch.linspace(0, 1, 20)
    y = torch.sin(6 * x) + 0.1 * torch.randn(20)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(x, y, likelihood, kernel)
    model.train(), likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
    model.eval(), likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        found = likelihood(model(torch.linspace(0, 1, 7)))
        lower, upper = found.confidence_region()
    return {"losses": losses, "mean": found.mean, "lower": lower, "upper": upper}


def case_rbf() -> dict:
    return fitted(gpytorch.kernels.RBFKernel())


def case_matern() -> dict:
    return fitted(gpytorch.kernels.MaternKernel(nu=2.5))


def case_periodic() -> dict:
    return fitted(gpytorch.kernels.PeriodicKernel())


def case_kernels() -> dict:
    x = torch.randn(6, 3)
    kernels = [
        gpytorch.kernels.LinearKernel(),
        gpytorch.kernels.RQKernel(),
        gpytorch.kernels.PolynomialKernel(2),
        gpytorch.kernels.CosineKernel(),
    ]
    return {type(kernel).__name__: kernel(x).to_dense() for kernel in kernels}


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, points: torch.Tensor) -> None:
        distribution = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
        super().__init__(
            gpytorch.variational.VariationalStrategy(self, points, distribution, learn_inducing_locations=True)
        )
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> object:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def case_variational() -> dict:
    x = torch.rand(30, 1)
    y = torch.sin(6 * x[:, 0])
    model, likelihood = Variational(x[:8].clone()), gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=30)
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
    return {"losses": losses}


def case_classification() -> dict:
    x = torch.rand(20, 2)
    model, likelihood = Variational(x[:6].clone()), gpytorch.likelihoods.BernoulliLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=20)
    loss = -objective(model(x), (x.sum(-1) > 1).float())
    loss.backward()
    return {"loss": loss, "grads": {n: p.grad for n, p in model.named_parameters() if p.grad is not None}}

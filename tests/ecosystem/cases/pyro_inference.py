"""Pyro: stochastic variational inference, Hamiltonian Monte Carlo, enumeration, and its own distributions."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import HMC, MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal, AutoNormal
from pyro.optim import Adam, ClippedAdam, ExponentialLR

NEEDS = "pyro-ppl"
TOLERANCE = 1e-3   # sampled paths magnify rounding


def regression(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
    weight = pyro.sample("weight", dist.Normal(torch.zeros(3), torch.ones(3)).to_event(1))
    bias = pyro.sample("bias", dist.Normal(0.0, 2.0))
    sigma = pyro.sample("sigma", dist.LogNormal(0.0, 0.5))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(x @ weight + bias, sigma), obs=y)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(24, 3)
    return x, x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 + 0.1 * torch.randn(24)


def fitted(guide: object, optimizer: object, steps: int = 15) -> dict:
    x, y = data()
    svi = SVI(regression, guide, optimizer, loss=Trace_ELBO())
    losses = [svi.step(x, y) for _ in range(steps)]
    samples = Predictive(regression, guide=guide, num_samples=4)(x[:3])
    return {
        "losses": losses,
        "samples": samples,
        "store": dict(pyro.get_param_store().items()),
        "median": guide.median(),
    }


def case_variational_normal() -> dict:
    pyro.clear_param_store()
    return fitted(AutoNormal(regression), Adam({"lr": 0.05}))


def case_variational_diagonal() -> dict:
    pyro.clear_param_store()
    return fitted(AutoDiagonalNormal(regression), ClippedAdam({"lr": 0.05, "lrd": 0.99}))


def case_variational_full_rank() -> dict:
    pyro.clear_param_store()
    return fitted(
        AutoMultivariateNormal(regression),
        ExponentialLR({"optimizer": torch.optim.Adam, "optim_args": {"lr": 0.05}, "gamma": 0.9}),
        8,
    )


def case_mixture_enumerated() -> dict:
    pyro.clear_param_store()
    points = torch.cat([torch.randn(8) - 3, torch.randn(8) + 3])

    @config_enumerate
    def model(points: torch.Tensor) -> None:
        weights = pyro.sample("weights", dist.Dirichlet(torch.ones(2)))
        with pyro.plate("components", 2):
            centres = pyro.sample("centres", dist.Normal(0.0, 5.0))
        with pyro.plate("data", len(points)):
            which = pyro.sample("which", dist.Categorical(weights))
            pyro.sample("obs", dist.Normal(centres[which], 1.0), obs=points)

    guide = AutoNormal(pyro.poutine.block(model, expose=["weights", "centres"]))
    svi = SVI(model, guide, Adam({"lr": 0.1}), loss=TraceEnum_ELBO(max_plate_nesting=1))
    losses = [svi.step(points) for _ in range(8)]
    posterior = pyro.infer.infer_discrete(pyro.poutine.condition(model, guide.median()), first_available_dim=-2)
    trace = pyro.poutine.trace(posterior).get_trace(points)
    return {"losses": losses, "which": trace.nodes["which"]["value"], "median": guide.median()}


def case_nuts() -> dict:
    x, y = data()
    chain = MCMC(NUTS(regression, step_size=0.1), num_samples=6, warmup_steps=4, disable_progbar=True)
    chain.run(x, y)
    return chain.get_samples()


def case_hmc() -> dict:
    x, y = data()
    chain = MCMC(
        HMC(regression, step_size=0.02, num_steps=4, adapt_step_size=False),
        num_samples=6,
        warmup_steps=2,
        disable_progbar=True,
    )
    chain.run(x, y)
    return chain.get_samples()


def case_vae_with_modules() -> dict:
    pyro.clear_param_store()

    class Model(pyro.nn.PyroModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = pyro.nn.PyroModule[torch.nn.Linear](3, 1)
            self.linear.weight = pyro.nn.PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))

        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            mean = self.linear(x).squeeze(-1)
            with pyro.plate("data", len(x)):
                pyro.sample("obs", dist.Normal(mean, 0.5), obs=y)
            return mean

    model = Model()
    guide = AutoDiagonalNormal(model)
    x, y = data()
    svi = SVI(model, guide, Adam({"lr": 0.03}), Trace_ELBO(num_particles=2, vectorize_particles=False))
    return {"losses": [svi.step(x, y) for _ in range(6)], "mean": model(x)}


def case_distributions() -> dict:
    values = torch.rand(4) * 0.8 + 0.1
    kinds = {
        "beta_binomial": (dist.BetaBinomial(2.0, 3.0, 10), torch.tensor([1.0, 4.0, 7.0, 10.0])),
        "zero_inflated": (
            dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)),
            torch.tensor([0.0, 1.0, 2.0, 5.0]),
        ),
        "lkj": (dist.LKJCholesky(3, 1.5), torch.linalg.cholesky(torch.eye(3) * 0.7 + 0.3)),
        "von_mises": (dist.VonMises(0.5, 2.0), values),
        "student": (dist.MultivariateStudentT(5.0, torch.zeros(4), torch.eye(4)), values),
        "improper": (dist.Delta(values, log_density=0.5), values),
        "stable": (dist.Stable(1.5, 0.2), None),
        "gumbel": (dist.Gumbel(0.0, 2.0), values),
        "mixture": (
            dist.MixtureSameFamily(
                dist.Categorical(torch.tensor([0.3, 0.7])), dist.Normal(torch.tensor([0.0, 1.0]), 0.5)
            ),
            values,
        ),
        "inverse_gamma": (dist.InverseGamma(2.0, 1.0), values),
        "folded": (dist.FoldedDistribution(dist.Normal(0.5, 1.0)), values),
    }
    return {name: [d.sample(), d.log_prob(value) if value is not None else None] for name, (d, value) in kinds.items()}


def case_normalizing_flow() -> dict:
    base = dist.Normal(torch.zeros(2), torch.ones(2)).to_event(1)
    spline, coupling = dist.transforms.spline_coupling(2, count_bins=4), dist.transforms.affine_autoregressive(
        2, hidden_dims=[8]
    )
    flow = dist.TransformedDistribution(base, [spline, coupling])
    optimizer = torch.optim.Adam([*spline.parameters(), *coupling.parameters()], lr=5e-3)
    points, losses = torch.randn(16, 2) * 0.5 + 1, []
    for _ in range(5):
        optimizer.zero_grad()
        loss = -flow.log_prob(points).mean()
        loss.backward()
        optimizer.step()
        flow.clear_cache()
        losses.append(loss.item())
    return {"losses": losses, "sample": flow.sample((3,))}

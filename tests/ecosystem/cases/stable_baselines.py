"""Stable-Baselines3: short runs of its algorithms on small environments."""

from __future__ import annotations

import gymnasium
import numpy
import stable_baselines3
import torch

NEEDS = "stable-baselines3"
TOLERANCE = 2e-3   # rollouts magnify rounding


class Corridor(gymnasium.Env):
    """A point that should reach the origin; discrete or continuous steps."""

    def __init__(self, continuous: bool) -> None:
        self.observation_space = gymnasium.spaces.Box(-4.0, 4.0, (2,), numpy.float32)
        self.action_space = (
            gymnasium.spaces.Box(-1.0, 1.0, (1,), numpy.float32) if continuous else gymnasium.spaces.Discrete(3)
        )
        self.continuous = continuous

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        self.state, self.count = self.np_random.uniform(-1, 1, 2).astype("float32"), 0
        return self.state.copy(), {}

    def step(self, action: object) -> tuple:
        push = float(action[0]) if self.continuous else float(action) - 1.0
        self.state = numpy.clip(self.state + numpy.array([push, -push], dtype="float32") * 0.1, -4, 4)
        self.count += 1
        return self.state.copy(), -float(abs(self.state).sum()), False, self.count >= 20, {}


def learned(kind: type, continuous: bool, steps: int, **options: object) -> dict:
    torch.manual_seed(0)
    model = kind("MlpPolicy", Corridor(continuous), seed=1, device="cpu", policy_kwargs={"net_arch": [16]}, **options)
    model.learn(steps)
    seen = numpy.linspace(-1, 1, 10, dtype="float32").reshape(5, 2)
    actions, _ = model.predict(seen, deterministic=True)
    return {
        "actions": actions,
        "norms": [p.norm() for p in model.policy.parameters()],
        "keys": list(model.policy.state_dict()),
    }


def case_ppo() -> dict:
    return learned(stable_baselines3.PPO, False, 64, n_steps=32, batch_size=16, n_epochs=2)


def case_a2c() -> dict:
    return learned(stable_baselines3.A2C, True, 40)


def case_dqn() -> dict:
    return learned(
        stable_baselines3.DQN,
        False,
        60,
        learning_starts=20,
        batch_size=8,
        train_freq=4,
        target_update_interval=10,
        buffer_size=100,
    )


def case_sac() -> dict:
    return learned(stable_baselines3.SAC, True, 40, learning_starts=20, batch_size=8, buffer_size=100)


def case_td3() -> dict:
    return learned(stable_baselines3.TD3, True, 40, learning_starts=20, batch_size=8, buffer_size=100)


def case_saved() -> dict:
    import tempfile

    model = stable_baselines3.PPO(
        "MlpPolicy", Corridor(False), seed=2, n_steps=16, batch_size=8, device="cpu", policy_kwargs={"net_arch": [8]}
    )
    model.learn(16)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.zip")
        again = stable_baselines3.PPO.load(f"{folder}/model.zip", device="cpu")
    seen = numpy.ones((3, 2), dtype="float32")
    return {"here": model.predict(seen, deterministic=True)[0], "again": again.predict(seen, deterministic=True)[0]}

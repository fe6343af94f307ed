"""Modules that archives are made of. `torch` is given from outside: the tests run these with Rushlight and PyTorch."""



def programs(torch):  # noqa: ANN001, ANN201, C901
    nn = torch.nn
    Tensor = torch.Tensor  # noqa: N806

    class Step(nn.Module):
        """A recurrent cell with state: what a streaming detector is made of."""

        state: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(4, 4)
            self.low, self.high = nn.Linear(4, 2), nn.Linear(4, 2, bias=False)
            self.register_buffer("seen", torch.zeros(1, 4))
            self.state = torch.zeros(2, 1, 4)

        def forward(self, x: Tensor, rate: int = 16) -> Tensor:
            if rate not in [8, 16]:
                raise ValueError("a rate of 8 or 16, not {}".format(rate))  # noqa: UP032
            h, c = self.cell(x, (self.state[0], self.state[1]))
            self.state = torch.stack([h, c])
            self.seen.add_(x)
            if rate == 16:
                out = self.high(h)
            else:
                out = self.low(h).tanh()
            return out

        @torch.jit.export
        def reset(self) -> None:
            self.state = torch.zeros(2, 1, 4)

    class Kinds(nn.Module):
        """Attributes of every kind, loops, optional values, a dict and a list."""

        names: list[str]
        table: dict[str, int]
        maybe: Tensor | None
        rows: list[Tensor]

        def __init__(self) -> None:
            super().__init__()
            self.names, self.table, self.maybe = ["a", "b"], {"x": 1, "y": -70000}, None
            self.pair, self.scale, self.flag, self.big = (3, "p"), 2.5, True, 1 << 40
            self.rows = [torch.ones(2), torch.zeros(1, dtype=torch.int64)]
            self.weight = nn.Parameter(torch.arange(12.0).reshape(4, 3).t())
            self.tied = self.weight
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
            self.layers[1].weight = self.layers[0].weight

        def forward(self, x: Tensor, n: int = 3) -> tuple[Tensor, int, str]:
            y = torch.matmul(x, self.weight)
            total = 0
            for i in range(n):
                total += i * self.table["x"]
                if total > 100:
                    break
            for layer in self.layers:
                y = layer(y)
            maybe = self.maybe
            if maybe is not None:
                y = y + maybe
            word = ",".join(self.names) + self.pair[1]
            found: list[int] = []
            while len(found) < n:
                found.append(len(found) + total)
            return y * self.scale, sum(found), word

    return {"Step": (Step, lambda: (torch.linspace(-1, 1, 4).reshape(1, 4),)),
            "Kinds": (Kinds, lambda: (torch.linspace(-1, 1, 6).reshape(2, 3),))}

"""The orders in which the processes of a pipeline compute: for every rank a list of actions, from numbers alone.

Every rank knows every rank's order, so that each knows which message comes next from whom, and that an order which
would wait for ever is found when it is made, not when it is run.
"""

from __future__ import annotations

from collections import defaultdict, deque
from enum import StrEnum
from typing import NamedTuple

__all__: list[str] = []


class Kind(StrEnum):
    """What is computed for one part of a batch in one stage."""

    FORWARD = "F"
    FULL_BACKWARD = "B"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"


F, B, I, W = Kind.FORWARD, Kind.FULL_BACKWARD, Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT


class Action(NamedTuple):
    """One computation: of a stage, for a part of the batch."""

    stage_index: int
    computation_type: Kind
    microbatch_index: int

    def __repr__(self) -> str:
        return f"{self.stage_index}{self.computation_type}{self.microbatch_index}"

    __str__ = __repr__

    @staticmethod
    def from_str(text: str) -> Action | None:
        """"2F7": stage 2, forward, part 7; nothing for an empty text."""
        text = text.strip()
        if not text:
            return None
        at = next((i for i, letter in enumerate(text) if letter in "FBIW"), -1)
        if at < 1 or not text[:at].isdigit() or not text[at + 1 :].isdigit():
            raise RuntimeError(f"an action is written as '2F7' (stage, one of FBIW, part), got {text!r}")
        return Action(int(text[:at]), Kind(text[at]), int(text[at + 1 :]))


Order = dict[int, list[Action]]


def stage_ranks(num_ranks: int, num_stages: int, style: str = "loop") -> dict[int, int]:
    """Which rank has a stage: 0 1 2 0 1 2 ("loop") or 0 1 2 2 1 0 ("v")."""
    if num_stages % num_ranks:
        raise ValueError(f"a pipeline's stages ({num_stages}) must be a multiple of its ranks ({num_ranks})")
    if style == "loop":
        return {stage: stage % num_ranks for stage in range(num_stages)}
    ranks = {}
    for stage in range(num_stages):
        turn, place = divmod(stage, num_ranks)
        ranks[stage] = place if turn % 2 == 0 else num_ranks - 1 - place
    return ranks


def gpipe(num_ranks: int, parts: int) -> Order:
    """All parts forward, then all backward."""
    return {
        rank: [Action(rank, F, m) for m in range(parts)] + [Action(rank, B, m) for m in range(parts)]
        for rank in range(num_ranks)
    }


def forward_only(ranks: dict[int, int], parts: int) -> Order:
    """All parts forward through all stages."""
    order: Order = {rank: [] for rank in set(ranks.values())}
    for stage, rank in ranks.items():
        order[rank] += [Action(stage, F, m) for m in range(parts)]
    return order


def one_forward_one_backward(num_ranks: int, parts: int) -> Order:
    """As many forward as stages follow, then one backward after each forward: no more parts are held than that."""
    order: Order = {}
    for rank in range(num_ranks):
        ahead = min(parts, num_ranks - rank)
        actions = [Action(rank, F, m) for m in range(ahead)]
        for m in range(parts):
            actions.append(Action(rank, B, m))
            if m + ahead < parts:
                actions.append(Action(rank, F, m + ahead))
        order[rank] = actions
    return order


def looped_bfs(num_ranks: int, local: int, parts: int) -> Order:
    """Several stages per rank: all parts through the first of them, then through the next; and back."""
    order: Order = {}
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * local, num_ranks)
        order[rank] = [Action(s, F, m) for s in stages for m in range(parts)]
        order[rank] += [Action(s, B, m) for s in reversed(stages) for m in reversed(range(parts))]
    return order


def interleaved(num_ranks: int, local: int, parts: int, zero_bubble: bool) -> Order:
    """Several stages per rank, rounds of parts in turn: forward ahead, then one forward and one backward. With
    `zero_bubble` gradients of inputs come first, and those of weights fill the gaps."""
    rounds = max(1, parts // num_ranks)
    if parts % rounds:
        raise ValueError(f"n_microbatches ({parts}) must be a multiple of the number of rounds ({rounds}), which is "
                         f"n_microbatches // ranks ({num_ranks})")
    per_round = parts // rounds
    return {rank: _interleaved_rank(rank, num_ranks, local, parts, per_round, zero_bubble) for rank in range(num_ranks)}


def _interleaved_rank(rank: int, num_ranks: int, local: int, parts: int, per_round: int, zero: bool) -> list[Action]:
    total = local * parts
    ahead = min((local - 1) * per_round + (1 if zero else 2) * (num_ranks - 1 - rank), total)
    numbers: dict[tuple[int, Kind], int] = defaultdict(int)
    actions: list[Action] = []

    def add(stage: int, kind: Kind) -> None:
        actions.append(Action(stage, kind, numbers[stage, kind]))
        numbers[stage, kind] += 1

    def forward_stage(step: int) -> int:
        return (step // per_round) % local * num_ranks + rank

    def backward_stage(step: int) -> int:
        return (local - 1 - (step - ahead) // per_round % local) * num_ranks + rank

    waiting: deque[int] = deque()      # steps whose weights' gradients are still to come
    for step in range(total + ahead):
        if step < total:
            add(forward_stage(step), F)
        if step >= ahead:
            add(backward_stage(step), I if zero else B)
            if zero:
                waiting.append(step)
                if step - ahead >= rank:
                    add(backward_stage(waiting.popleft()), W)
    for step in waiting:
        add(backward_stage(step), W)
    return actions


def zero_bubble_v(num_ranks: int, parts: int) -> Order:
    """Two stages per rank, laid out as a V: the last stage is on the rank of the first, so that a part's way back
    begins where it began, and the gradients of weights fill what gaps are left."""
    order = {}
    for rank in range(num_ranks):
        wanted = max(2 * num_ranks - 1, parts)
        add = _Numbered(rank, 2 * num_ranks - 1 - rank)
        for _ in range(2 * (num_ranks - rank) - 1):
            add("F", 0)
        for _ in range(rank):
            add("F", 1)
            add("F", 0)
        for _ in range(num_ranks - rank):
            add("FIW", 1)
        while add.number("F", 1) < add.number("F", 0) or add.number("F", 0) < wanted:
            if add.number("F", 0) < wanted:
                add("F", 0)
            add("IW", 0)
            add("FIW", 1)
        for _ in range(rank):
            add("I", 0)
            add("I", 1)
        for _ in range(num_ranks - rank):
            add("IW", 0)
        for chunk in (1, 0):
            while add.number("W", chunk) < add.number("I", chunk):
                add("W", chunk)
        order[rank] = [action for action in add.actions if action.microbatch_index < parts]
    return order


def dual_pipe_v(num_ranks: int, parts: int) -> Order:
    """Two stages per rank as a V, with forward and backward of the two in pairs."""
    if parts < 2 * num_ranks:
        raise ValueError(f"DualPipeV needs at least as many microbatches as stages ({2 * num_ranks}), got {parts}")
    return {rank: _dual_pipe_rank(rank, num_ranks, parts) for rank in range(num_ranks)}


def _dual_pipe_rank(rank: int, num_ranks: int, parts: int) -> list[Action]:
    add = _Numbered(rank, 2 * num_ranks - 1 - rank)
    after = num_ranks - rank - 1
    for _ in range(2 * after):
        add("F", 0)
    for _ in range(rank + 1):
        add("F", 0)
        add("F", 1)
    for _ in range(after):
        add("I", 1)
        add.weight()
        add("F", 1)
    for _ in range(parts - 2 * num_ranks + rank + 1):
        add("F", 0)
        add("B", 1)
        add("F", 1)
        add("B", 0)
    for _ in range(after):
        add("B", 1)
        add("F", 1)
        add("B", 0)
    is_split = False
    for i in range(rank + 1):
        for chunk, odd in ((1, 1), (0, 0)):
            is_split = is_split or (i == (rank + 1) // 2 and rank % 2 == odd)
            add("I" if is_split else "B", chunk)
    for _ in range(after):
        add.weight()
        add("I" if is_split else "B", 0)
    for _ in range(rank + 1):
        add.weight()
    return add.actions


class _Numbered:
    """Actions of a rank with two stages, each for the next part that has not had it."""

    def __init__(self, first: int, second: int) -> None:
        self.stages = first, second
        self.actions: list[Action] = []
        self._numbers: dict[tuple[Kind, int], int] = defaultdict(int)
        self._waiting: deque[tuple[int, int]] = deque()

    def number(self, kind: str, chunk: int) -> int:
        return self._numbers[Kind(kind), chunk]

    def __call__(self, kinds: str, chunk: int) -> None:
        for letter in kinds:
            kind = Kind(letter)
            counted = I if kind is B else kind
            number = self._numbers[counted, chunk]
            self._numbers[counted, chunk] += 1
            if kind is B:
                self._numbers[W, chunk] += 1
            elif kind is I:
                self._waiting.append((chunk, number))
            self.actions.append(Action(self.stages[chunk], kind, number))

    def weight(self) -> None:
        """Gradients of weights that have waited longest, if any do."""
        if self._waiting:
            chunk, number = self._waiting.popleft()
            self._numbers[W, chunk] += 1
            self.actions.append(Action(self.stages[chunk], W, number))


# --- what follows from an order ---------------------------------------------------------------------------------------


def needs(action: Action, num_stages: int) -> tuple[str, int] | None:
    """What an action needs from another stage: ("F", stage before) or ("B", stage after)."""
    stage, kind, _ = action
    if kind is F and stage > 0:
        return "F", stage - 1
    if kind in (B, I) and stage < num_stages - 1:
        return "B", stage + 1
    return None


def check(order: Order, ranks: dict[int, int], num_stages: int, parts: int, has_backward: bool = True) -> None:
    """Run an order on paper. ValueError if something is missing, twice, on the wrong rank, or waits for ever."""
    done: set[tuple[str, int, int]] = set()
    places = dict.fromkeys(order, 0)
    moved = True
    while moved:
        moved = False
        for rank, actions in order.items():
            while places[rank] < len(actions):
                stage, kind, part = action = actions[places[rank]]
                if ranks.get(stage) != rank:
                    raise ValueError(f"the order has {action} on rank {rank}, and stage {stage} is rank "
                                     f"{ranks.get(stage)}'s")
                other = needs(action, num_stages)
                own = {F: None, B: "F", I: "F", W: "I"}[kind]
                if other is not None and (*other, part) not in done:
                    break
                if own is not None and (own, stage, part) not in done:
                    break
                marks = {("B" if kind in (B, I) else kind.value, stage, part), (kind.value, stage, part)}
                if done & marks:
                    raise ValueError(f"the order has {action} twice")
                done |= marks
                places[rank] += 1
                moved = True
    for rank, actions in order.items():
        if places[rank] < len(actions):
            raise ValueError(f"the order never ends: rank {rank} waits for ever at {actions[places[rank]]}")
    kinds = "FB" if has_backward else "F"
    for stage in range(num_stages):
        for part in range(parts):
            for kind in kinds:
                if (kind, stage, part) not in done:
                    raise ValueError(f"the order lacks {kind} of stage {stage} for microbatch {part}")
            if has_backward and ("I", stage, part) in done and ("W", stage, part) not in done:
                raise ValueError(f"the order lacks W of stage {stage} for microbatch {part}")


def messages(order: Order, ranks: dict[int, int], num_stages: int, to: int) -> dict[int, list[tuple[str, int, int]]]:
    """What a rank receives, in the order in which each other rank sends it: (kind, sending stage, part)."""
    found: dict[int, list[tuple[str, int, int]]] = {}
    for rank, actions in order.items():
        for stage, kind, part in actions:
            way: tuple[str, int] | None = None
            if kind is F and stage < num_stages - 1:
                way = "F", stage + 1
            elif kind in (B, I) and stage > 0:
                way = "B", stage - 1
            if way is not None and ranks[way[1]] == to and rank != to:
                found.setdefault(rank, []).append((way[0], stage, part))
    return found

"""The simulator's forecasts where they are known: formulas of collectives, bubbles of pipelines, memory, overlap."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.distributed.simulator import (
    CLUSTERS,
    Block,
    Chip,
    Cluster,
    Layout,
    Level,
    Link,
    Model,
    of_module,
    page,
    plan,
    simulate,
    trace,
    transformer,
)
from rushlight.distributed.simulator.__main__ import main
from rushlight.distributed.simulator.costs import COLLECTIVES, all_reduce, all_to_all, broadcast
from rushlight.distributed.simulator.measure import calibrated, measure

FREE = Link(1e-15, 1e30)
CHIP = Chip(flops=1e9, memory_bandwidth=1e30, memory=1e30)


def chain(blocks: int, *, parameters: float = 0.0, kept: float = 0.0, link: Link = FREE) -> tuple[Model, Cluster]:
    """Blocks of one second forward and two back, on chips that nothing else slows down."""
    model = Model("chain", tuple(Block(f"b{k}", 1e9, parameters, kept, kept) for k in range(blocks)))
    return model, Cluster(CHIP, (Level("machine", 64, link),))


def test_collectives_cost_what_their_messages_and_bytes_do() -> None:
    link, size = Link(1e-5, 1e9), 8e6
    spans = [(4, link)]
    assert COLLECTIVES["reduce_scatter"](size, spans) == pytest.approx(2e-5 + 0.75 * size / 1e9)
    assert all_reduce(size, spans) == pytest.approx(2 * (2e-5 + 0.75 * size / 1e9))
    assert all_reduce(8, spans) < 5 * link.time(8), "short messages: few of them"
    assert all_to_all(size, spans) == pytest.approx(3e-5 + 0.75 * size / 1e9)
    assert broadcast(4, spans) == pytest.approx(2 * link.time(4))
    # Between machines only an eighth of what is reduced travels, if eight chips of each share it.
    near, far = Link(1e-9, 1e30), Link(1e-9, 1e9)
    assert all_reduce(size, [(8, near), (2, far)]) == pytest.approx(2 * 0.5 * size / 8 / 1e9, rel=1e-3)


def test_groups_know_the_levels_they_cross() -> None:
    cluster = CLUSTERS["h200"]
    inside, across = cluster.levels[0].link, cluster.levels[1].link
    assert cluster.spans(range(8)) == [(8, inside)]
    assert cluster.spans(range(0, 1024, 8)) == [(128, across)]
    assert cluster.spans(range(0, 64, 4)) == [(2, inside), (8, across)]
    assert cluster.spans([3]) == [] and cluster.link(0, 7) == inside and cluster.link(7, 8) == across
    layout = Layout(data=4, tensor=8, pipeline=2, context=2)
    assert layout.ranks == 128
    assert list(layout.group("tensor", 1)) == list(range(64, 72)) and list(layout.group("context")) == [0, 8]
    assert list(layout.group("data")) == [0, 16, 32, 48] and list(layout.group("pipeline")) == [0, 64]
    with pytest.raises(ValueError, match="there are 1024"):
        cluster.spans([1024])
    with pytest.raises(ValueError, match="do not fill units of 8"):
        cluster.of(12)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("stages, micro", [(1, 1), (2, 4), (4, 4), (4, 16), (8, 11)])
def test_bubbles_of_plain_schedules(schedule: str, stages: int, micro: int) -> None:
    model, cluster = chain(stages)
    found = simulate(model, Layout(pipeline=stages, micro_batches=micro, schedule=schedule), cluster, micro)
    assert found.seconds == pytest.approx(3 * (micro + stages - 1)), "a pass of every micro-batch, and p - 1 to fill"
    assert found.utilization == pytest.approx(micro / (micro + stages - 1))
    assert found.idle == pytest.approx(3 * (stages - 1), abs=1e-6)


def test_interleaved_stages_divide_the_bubble() -> None:
    model, cluster = chain(8)
    plain = simulate(model, Layout(pipeline=4, micro_batches=8), cluster, 8).seconds
    found = simulate(model, Layout(pipeline=4, micro_batches=8, schedule="interleaved", chunks=2), cluster, 8).seconds
    work = 2 * 3 * 8
    assert plain == pytest.approx(work + 6 * 3)
    assert found == pytest.approx(work + 6 * 3 / 2)


def test_gradients_of_weights_fill_bubbles() -> None:
    model, cluster = chain(4)
    layouts = [Layout(pipeline=4, micro_batches=12, schedule=s) for s in ("1f1b", "zero_bubble")]
    plain, split = (simulate(model, layout, cluster, 12) for layout in layouts)
    assert 36 <= split.seconds < plain.seconds - 3
    assert sum(s.end - s.start for s in split.timeline if s.rank == 0) == pytest.approx(36)


def test_micro_batches_under_way_are_what_is_kept() -> None:
    model, cluster = chain(4, kept=1e6)
    kept = {}
    for schedule in ("gpipe", "1f1b"):
        layout = Layout(pipeline=4, micro_batches=16, schedule=schedule)
        kept[schedule] = simulate(model, layout, cluster, 16).memory["activations"]
    assert kept == {"gpipe": pytest.approx(16e6), "1f1b": pytest.approx(4e6)}
    recomputed = simulate(model, Layout(pipeline=4, micro_batches=16, recompute=True), cluster, 16)
    assert recomputed.seconds == pytest.approx(4 * 19)


def test_gradients_are_reduced_while_the_backward_pass_goes_on() -> None:
    link = Link(1e-12, 4e6)
    model, cluster = chain(4, parameters=1e6, link=link)
    found = simulate(model, Layout(data=2), cluster, 2)
    # An all-reduce of 4 MB between two takes a second; a block's backward pass two. All but the last hide.
    assert found.seconds == pytest.approx(12 + 1, rel=1e-6)
    assert found.exposed == pytest.approx(1, rel=1e-6)
    slow = simulate(model, Layout(data=2), replace(cluster, levels=(Level("m", 64, Link(1e-12, 4e5)),)), 2)
    assert slow.seconds == pytest.approx(4 + 2 + 4 * 10, rel=1e-6), "the network is what takes time"


def test_sharding_divides_memory() -> None:
    model, cluster = chain(4, parameters=1e6)
    sums = {s: simulate(model, Layout(data=4, shard=s), cluster, 4).memory for s in ("none", "optimizer", "full")}
    assert sums["none"]["state"] == 4 * sums["optimizer"]["state"] == 4 * sums["full"]["state"]
    assert sums["none"]["parameters"] == sums["optimizer"]["parameters"] == 4 * sums["full"]["parameters"] == 16e6
    assert sums["full"]["gathered"] == 4 * 4e6


def test_processes_that_share_processors_take_turns() -> None:
    model, cluster = chain(2)
    shared = replace(cluster, processors=2)
    times = [simulate(model, Layout(data=n), shared, 8).seconds for n in (1, 2, 4, 8)]
    assert times == pytest.approx([48, 24, 24, 24])


def test_a_thousand_chips() -> None:
    gpt = transformer(layers=96, width=12288, heads=96, length=2048, vocabulary=50304)
    assert gpt.parameters == pytest.approx(175e9, rel=0.02)
    assert gpt.flops / 2048 == pytest.approx(6 * 175e9, rel=0.05), "six for a parameter and token, and attention"
    found = simulate(gpt, Layout(data=16, tensor=8, pipeline=8, micro_batches=32), CLUSTERS["a100"], 1536)
    assert 0.4 < found.utilization < 0.85 and found.fits
    small = transformer(layers=8, width=1024, heads=16, length=1024, vocabulary=50304)
    best = plan(small, CLUSTERS["h200"], 64, ranks=16, most=3)
    assert [f.seconds for f in best] == sorted(f.seconds for f in best) and all(f.fits for f in best)
    assert best[0].layout.ranks == 16


def test_a_module_counts_as_its_children() -> None:
    nn = rl.nn
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4)))
    found = of_module(model, rl.zeros(5, 8))
    assert [block.name for block in found.blocks] == ["0", "1", "2.0", "2.1"]
    assert [block.flops for block in found.blocks] == [2 * 8 * 16, 0, 2 * 16 * 16, 2 * 16 * 4]
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.blocks[0].passed == 16 * 4 and found.blocks[0].kept == (8 + 16) * 4


def test_constants_of_this_machine() -> None:
    cluster = measure(2)
    link = cluster.levels[0].link
    assert 1e-8 < link.latency < 0.1 and 1e7 < link.bandwidth < 1e13 and cluster.ranks == 2
    model, _ = chain(3, kept=1e3)
    fitted = calibrated(cluster, model, 4, 0.5)
    assert simulate(model, Layout(), replace(fitted, processors=None), 4).seconds == pytest.approx(0.5)
    with pytest.raises(ValueError, match="at least two"):
        measure(1)


def test_the_timeline_is_drawn(tmp_path: Path) -> None:
    model, cluster = chain(4, parameters=1e6, link=Link(1e-5, 1e9))
    found = simulate(model, Layout(pipeline=2, data=2, micro_batches=3), cluster, 6)
    text = page(found)
    assert text.count("<rect") == len(found.timeline) and "stage 1" in text and "<script" not in text
    events = [e for e in trace(found)["traceEvents"] if e["ph"] == "X"]
    assert len(events) == len(found.timeline) and max(e["ts"] + e["dur"] for e in events) <= found.seconds * 1e6 * 1.001
    assert json.dumps(trace(found))
    lanes: dict[tuple[int, str], float] = {}
    for s in sorted(found.timeline, key=lambda s: s.start):
        assert s.start >= lanes.get((s.rank, s.lane), 0.0) - 1e-9, "a lane does one thing at a time"
        lanes[s.rank, s.lane] = s.end


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--layers 8 --width 1024 --heads 16 --batch 64 --data 8 --pipeline 2 --micro-batches 4".split()
    target = tmp_path / "step.html"
    assert main([*words, "--page", str(target)]) == 0
    assert re.search(r"16 x H200 .*ms a step of 64", capsys.readouterr().out) and "<svg" in target.read_text()
    assert main([*words, "--ranks", "32"]) == 1 and "--ranks 32" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda: Layout(data=0), "data must be at least 1, got 0"),
        (lambda: Layout(schedule="fast"), "expected a schedule among"),
        (lambda: Layout(chunks=2), "chunks"),
        (lambda: Chip(0, 1, 1), "flops must be a positive number"),
        (lambda: Link(1e-6, float("inf")), "bandwidth must be a positive number"),
        (lambda: transformer(2, 10, 3, 4, 5), "width 10 is no multiple of heads 3"),
        (lambda: simulate(chain(2)[0], Layout(data=3), chain(2)[1], 4), "does not divide into 3"),
        (lambda: simulate(chain(2)[0], Layout(pipeline=4), chain(2)[1], 4), "4 pipeline stages asked for"),
        (lambda: simulate(chain(2)[0], Layout(tensor=2), chain(2)[1], 4), "heads do not divide"),
        (lambda: plan(transformer(4, 65536, 64, 2048, 50000), CLUSTERS["a100"], 8, ranks=8), "nothing fits; nearest"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said) if "." not in said else said):
        wrong()

"""The engine without a server: who runs when, what is shared, how words are drawn, what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.serve.language.blocks import Blocks
from rushlight.serve.language.config import read_config
from rushlight.serve.language.engine import Engine, Event
from rushlight.serve.language.runner import filled
from rushlight.serve.language.sampling import Chooser, Sampling, choose
from rushlight.serve.language.settings import Settings
from tests.serve.language.folders import write_llama

GREEDY = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("llama"))


def engine(folder: Path, **settings: Any) -> Engine:
    return Engine.load(str(folder), Settings(**{"block_size": 4, "max_num_seqs": 4, "max_model_len": 128, **settings}))


def words(count: int, start: int = 0) -> list[int]:
    return [(start + 7 * n) % 300 for n in range(count)]


def finished(e: Engine) -> dict[Any, list[Event]]:
    found: dict[Any, list[Event]] = {}
    while e.busy:
        for event in e.step():
            found.setdefault(event.name, []).append(event)
    return found


def said(events: list[Event]) -> list[int]:
    return [event.chosen.word for event in events if event.chosen is not None]


def test_a_prompt_that_comes_later_is_read_beside_those_that_are_decoded(folder: Path) -> None:
    e = engine(folder, chunk=8)
    e.add("first", words(5), Sampling(max_tokens=20, **GREEDY))
    e.step()
    e.add("late", words(30, 3), Sampling(max_tokens=4, **GREEDY))
    seen = [{event.name for event in e.step()} for _ in range(6)]
    assert all("first" in names for names in seen), "decoding waits for no prompt"
    assert "late" not in seen[2] and "late" in seen[3], "30 words are read in 4 steps of 8"


def test_sequences_wait_for_rows_and_leave_when_they_are_done(folder: Path) -> None:
    e = engine(folder, max_num_seqs=2)
    for n in range(5):
        e.add(n, words(3, n), Sampling(max_tokens=2 + n, **GREEDY))
    most, ends = 0, []
    while e.busy:
        ends += [event.name for event in e.step() if event.finish]
        most = max(most, len(e.running))
    assert most == 2 and ends == [0, 1, 2, 3, 4]
    assert e.blocks.usage == 0 and sorted(e.rows) == [0, 1]


def test_equal_beginnings_are_computed_once(folder: Path) -> None:
    e, prompt = engine(folder), words(21)
    e.add("a", prompt, Sampling(max_tokens=3, **GREEDY))
    alone = finished(e)["a"]
    assert alone[0].cached == 0 and e.counts.read == 21
    e.add("b", prompt, Sampling(max_tokens=3, **GREEDY))
    e.add("c", [*prompt[:9], 5, 6], Sampling(max_tokens=3, **GREEDY))
    e.add("d", [1, *prompt], Sampling(max_tokens=3, **GREEDY))
    later = finished(e)
    assert [later[name][0].cached for name in "bcd"] == [20, 8, 0]
    assert said(later["b"]) == said(alone)
    other = engine(folder, shares=False)
    other.add("c", [*prompt[:9], 5, 6], Sampling(max_tokens=3, **GREEDY))
    assert said(finished(other)["c"]) == said(later["c"]) and other.counts.shared == 0


def test_a_whole_prompt_in_the_cache_still_has_its_last_word_computed(folder: Path) -> None:
    e, prompt = engine(folder), words(8)
    e.add("a", prompt, Sampling(max_tokens=2, **GREEDY))
    first = said(finished(e)["a"])
    e.add("b", prompt, Sampling(max_tokens=2, **GREEDY))
    events = finished(e)["b"]
    assert said(events) == first and events[0].cached == 4


def test_answers_to_one_prompt_share_it(folder: Path) -> None:
    e, prompt = engine(folder), words(17)
    for n in range(3):
        e.add(n, prompt, Sampling(max_tokens=4, temperature=1.0, seed=n, ignore_eos=True), 0 if n else None)
    found = finished(e)
    assert [found[n][0].cached for n in range(3)] == [0, 16, 16]
    assert e.counts.read == 17 + 1 + 1


def test_blocks_that_run_out_change_no_word(folder: Path) -> None:
    prompts = [words(4 + 3 * n, n) for n in range(4)]

    def run(**settings: Any) -> tuple[list[list[int]], Engine]:
        e = engine(folder, **settings)
        for n, prompt in enumerate(prompts):
            e.add(n, prompt, Sampling(max_tokens=30, temperature=1.0 if n % 2 else 0.0, seed=n, ignore_eos=True))
        found = finished(e)
        return [said(found[n]) for n in range(4)], e

    roomy, _ = run()
    tight, e = run(num_blocks=17)
    assert e.counts.preempted > 0 and tight == roomy
    assert [len(s) for s in roomy] == [30] * 4


@pytest.mark.parametrize("when", ["waiting", "reading", "decoding"])
def test_cancelling_frees_blocks_at_once(folder: Path, when: str) -> None:
    e = engine(folder, chunk=8)
    e.add("stays", words(4), Sampling(max_tokens=12, **GREEDY))
    e.add("goes", words(30, 1), Sampling(max_tokens=50, **GREEDY))
    for _ in range({"waiting": 0, "reading": 2, "decoding": 8}[when]):
        e.step()
    e.cancel("goes")
    held = sum(len(s.blocks) for s in e.running)
    assert e.blocks.count - 1 - e.blocks.free == held and all(s.name != "goes" for s in (*e.running, *e.waiting))
    e.cancel("nobody")
    assert len(said(finished(e).get("stays", []))) > 0 and e.blocks.usage == 0


def test_words_that_end_a_text(folder: Path) -> None:
    e, prompt = engine(folder), words(6)
    e.add("free", prompt, Sampling(max_tokens=12, **GREEDY))
    free = said(finished(e)["free"])
    at = next(n for n in range(1, 12) if free[n] not in free[:n])
    e.add("stopped", prompt, Sampling(max_tokens=12, temperature=0.0, stop_ids=(free[at],), ignore_eos=True))
    events = finished(e)["stopped"]
    assert said(events) == free[: at + 1] and [event.finish for event in events] == [None] * at + ["stop"]


def test_the_context_ends_a_text(folder: Path) -> None:
    e = engine(folder, max_model_len=20)
    e.add("a", words(15), Sampling(max_tokens=100, **GREEDY))
    events = finished(e)["a"]
    assert len(events) == 5 and events[-1].finish == "length"
    for count, most in ((20, 1), (21, 0)):
        with pytest.raises(ValueError, match="expected at most 19 words"):
            e.add("b", words(count), Sampling(max_tokens=most))
    with pytest.raises(ValueError, match="at least one word"):
        e.add("c", [], Sampling())
    with pytest.raises(ValueError, match=r"in \[0, 300\), got 300"):
        e.add("d", [300], Sampling())
    assert not e.busy


def test_a_prompt_alone_can_be_scored(folder: Path) -> None:
    e, prompt = engine(folder, chunk=4), words(11)
    for name in "ab":       # the second time it is in the cache, and is scored all the same
        e.add(name, prompt, Sampling(max_tokens=0, temperature=0.0, prompt_logprobs=2))
        (event,) = finished(e)[name]
        assert event.chosen is None and event.finish == "length" and event.prompt is not None
        assert [p.word for p in event.prompt] == prompt[1:] and all(len(p.likeliest or ()) == 2 for p in event.prompt)


# --- drawing words ----------------------------------------------------------------------------------------------------


def drawn(logits: list[float], times: int = 400, **settings: Any) -> Counter[int]:
    chooser = Chooser(Sampling(seed=5, **settings), [])
    rows = rl.tensor([logits])
    return Counter(choose(rows, rows.argmax(-1), [chooser])[0].word for _ in range(times))


def test_words_are_drawn_by_their_probabilities() -> None:
    logits = rl.tensor([0.5, 0.3, 0.2]).log().tolist()
    found = drawn(logits, 2000)
    assert [found[n] / 2000 for n in range(3)] == pytest.approx([0.5, 0.3, 0.2], abs=0.04)
    sharp = drawn(logits, 1000, temperature=0.25)
    assert sharp[0] / 1000 == pytest.approx(0.5**4 / (0.5**4 + 0.3**4 + 0.2**4), abs=0.05)


def test_fewer_words_are_drawn_from() -> None:
    logits = rl.tensor([0.4, 0.1, 0.3, 0.2]).log().tolist()
    assert set(drawn(logits, top_k=2)) == {0, 2}
    assert set(drawn(logits, top_p=0.6)) == {0, 2}
    assert set(drawn(logits, top_p=0.75)) == {0, 2, 3}
    assert set(drawn(logits, top_p=1e-6)) == {0}
    assert set(drawn(logits, min_p=0.6)) == {0, 2}
    assert set(drawn(logits, top_k=3, top_p=0.5)) == {0, 2}
    assert set(drawn(logits, temperature=0.0)) == {0}


def test_what_occurred_is_less_likely() -> None:
    rows = rl.tensor([[2.0, 1.9, -1.0]])

    def after(words: list[int], **settings: Any) -> int:
        chooser = Chooser(Sampling(temperature=0.0, **settings), [1])
        for word in words:
            chooser.note(word)
        return choose(rows, rows.argmax(-1), [chooser])[0].word

    assert after([0]) == 0
    assert after([0], presence_penalty=0.2) == 1
    assert after([0], frequency_penalty=0.04) == 0 and after([0] * 3, frequency_penalty=0.04) == 1
    assert after([0], repetition_penalty=1.5) == 0, "both occurred, one of them in the prompt"
    assert after([0], logit_bias={2: 3.5}) == 2 and after([], logit_bias={0: -100.0}) == 1


def test_the_same_seed_gives_the_same_words(folder: Path) -> None:
    e = engine(folder)
    for name, seed in (("a", 7), ("b", 7), ("c", 8), ("d", None), ("e", None)):
        e.add(name, words(5), Sampling(max_tokens=12, seed=seed, ignore_eos=True))
    found = {name: said(events) for name, events in finished(e).items()}
    assert found["a"] == found["b"] != found["c"] and found["d"] != found["e"]


@pytest.mark.parametrize("wrong", [
    {"temperature": -0.1}, {"top_p": 0}, {"top_p": 1.1}, {"top_k": -2}, {"presence_penalty": 2.5}, {"max_tokens": -1},
    {"temperature": float("nan")}, {"frequency_penalty": "1"}, {"repetition_penalty": 0}, {"min_p": 2},
])
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sampling(**wrong)


# --- blocks and sizes -------------------------------------------------------------------------------------------------


def test_unused_blocks_keep_what_they_hold_until_they_are_needed() -> None:
    blocks = Blocks(5, 2)
    mine = [blocks.take(), blocks.take()]
    assert 0 not in mine
    for block, name in zip(mine, (b"a", b"b"), strict=True):
        blocks.name(block, name)
    blocks.give_back(mine)
    assert blocks.free == 4 and blocks.known == {b"a": mine[0], b"b": mine[1]}
    others = [blocks.take() for _ in range(3)]
    assert blocks.known == {b"a": mine[0]}, "the end of a sequence is taken before its beginning"
    blocks.hold([mine[0]])
    assert blocks.free == 0 and blocks.usage == 1
    with pytest.raises(RuntimeError, match="no block is free"):
        blocks.take()
    blocks.give_back([*others, mine[0]])
    assert blocks.free == 4


def test_steps_are_filled_up_to_few_sizes() -> None:
    assert [filled(n) for n in (1, 3, 9, 64, 65, 257, 500)] == [1, 4, 12, 64, 96, 384, 512]


@pytest.mark.parametrize("wrong", [
    {"block_size": 0}, {"block_size": 300}, {"num_blocks": 1}, {"max_num_seqs": 0}, {"chunk": 0}, {"block_size": True},
])
def test_sizes_that_make_no_engine_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(**wrong)


# --- folders ----------------------------------------------------------------------------------------------------------


def test_weights_in_several_files_are_the_same(folder: Path, tmp_path: Path) -> None:
    apart = write_llama(tmp_path / "apart", shards=3)
    found = []
    for where in (folder, apart):
        e = engine(where)
        e.add("a", words(9), Sampling(max_tokens=8, **GREEDY))
        found.append(said(finished(e)["a"]))
    assert found[0] == found[1]


def test_folders_that_are_wrong_are_refused(folder: Path, tmp_path: Path) -> None:
    def changed(name: str, **changes: Any) -> str:
        return str(write_llama(tmp_path / name, **changes))

    with pytest.raises(ValueError, match="a model of type llama"):
        read_config(changed("kind", model_type="bert"))
    with pytest.raises(ValueError, match="turned in one of the ways"):
        read_config(changed("turn", rope_scaling={"type": "spiral", "factor": 2.0}))
    with pytest.raises(ValueError, match="an activation of"):
        read_config(changed("activation", hidden_act="tanhshrink"))
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    with pytest.raises(ValueError, match="expected JSON"):
        read_config(str(broken))
    (broken / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ValueError, match="missing or of a wrong type"):
        read_config(str(broken))
    (broken / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match="got neither"):
        Engine.load(str(broken))
    (broken / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))
    with pytest.raises(ValueError, match="names of files in the folder"):
        Engine.load(str(broken))
    larger = Path(changed("larger"))
    config = json.loads((larger / "config.json").read_text())
    (larger / "config.json").write_text(json.dumps({**config, "vocab_size": 301}))
    with pytest.raises(ValueError, match=r"of shape \[301, 32\], got \[300, 32\]"):
        Engine.load(str(larger))

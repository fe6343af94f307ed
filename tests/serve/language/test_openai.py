"""OpenAI's protocol, by its own client against the real server: answers, streams, refusals, deaths."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("jinja2")
tokenizers = pytest.importorskip("tokenizers")
openai = pytest.importorskip("openai")

from rushlight.serve.language.engine import Engine
from rushlight.serve.language.sampling import Sampling
from rushlight.serve.language.settings import Settings
from tests.serve import running_server as running
from tests.serve.language.folders import write_llama, write_tokenizer

PROMPT = "the quick brown"
SIZES = ("--block-size", 4, "--max-num-seqs", 8, "--num-blocks", 400)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_llama(tmp_path_factory.mktemp("models") / "tiny", max_position_embeddings=512)
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[running.Running]:
    words_only = write_llama(folder.parent / "words")
    with running.server("--models", f"tiny={folder}", f"words={words_only}", "--no-grpc", *SIZES) as server:
        yield server


@pytest.fixture(scope="module")
def client(served: running.Running) -> Any:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{served.http}/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def direct(folder: Path, prompt: list[int], count: int) -> list[int]:
    """Greedy words, by an engine of this process."""
    engine = Engine.load(str(folder), Settings(block_size=4, max_num_seqs=2))
    engine.add("a", prompt, Sampling(max_tokens=count, temperature=0.0))
    found = []
    while engine.busy:
        found += [event.chosen.word for event in engine.step() if event.chosen is not None]
    return found


def metric(served: running.Running, name: str, model: str = "tiny") -> float:
    head = f'{name}{{model_name="{model}"}} '
    return next(float(line[len(head) :]) for line in served.counted().splitlines() if line.startswith(head))


def settled(served: running.Running) -> None:
    """Wait until nothing runs and nothing is held."""
    until = time.monotonic() + 20
    while metric(served, "requests_running") or metric(served, "kv_cache_usage"):
        assert time.monotonic() < until, "something runs on"
        time.sleep(0.02)


def test_models_are_listed(client: Any) -> None:
    assert {m.id for m in client.models.list()} == {"tiny", "words"}
    assert client.models.retrieve("tiny").object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_a_completion_is_what_the_engine_writes(client: Any, folder: Path, tokenizer: Any) -> None:
    prompt = tokenizer.encode(PROMPT).ids
    words = direct(folder, prompt, 12)
    answer = client.completions.create(model="tiny", prompt=PROMPT, max_tokens=12, temperature=0)
    ended = words[-1] == 1
    assert answer.choices[0].text == tokenizer.decode(words[:-1] if ended else words)
    assert answer.choices[0].finish_reason == ("stop" if ended else "length")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(prompt), len(words))
    by_ids = client.completions.create(model="tiny", prompt=prompt, max_tokens=12, temperature=0)
    assert by_ids.choices[0].text == answer.choices[0].text


def test_streams_say_the_same_in_pieces(client: Any) -> None:
    asked = {"model": "tiny", "prompt": [PROMPT, "a cache"], "max_tokens": 10, "temperature": 0, "n": 2}
    whole = client.completions.create(**asked)
    pieces = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    texts, ends = [""] * 4, [None] * 4
    for piece in pieces[:-1]:
        assert piece.usage is None
        for choice in piece.choices:
            texts[choice.index] += choice.text
            ends[choice.index] = choice.finish_reason or ends[choice.index]
    assert texts == [c.text for c in whole.choices] and ends == [c.finish_reason for c in whole.choices]
    assert pieces[-1].choices == [] and pieces[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert texts[0] == texts[1] and texts[2] == texts[3]


def test_a_stream_ends_as_clients_expect(served: running.Running) -> None:
    status, text = served.ask("/v1/completions", {"model": "tiny", "prompt": PROMPT, "max_tokens": 3, "stream": True})
    events = text.strip().split("\n\n")
    assert status == 200 and events[-1] == "data: [DONE]"
    assert all(json.loads(e.removeprefix("data: "))["object"] == "text_completion" for e in events[:-1])


def test_a_chat_goes_through_the_template(client: Any) -> None:
    messages = [{"role": "user", "content": "the lazy"}, {"role": "assistant", "content": "dog"},
                {"role": "user", "content": [{"type": "text", "text": "and "}, {"type": "text", "text": "pages"}]}]
    answer = client.chat.completions.create(model="tiny", messages=messages, max_completion_tokens=8, temperature=0)
    plain = client.completions.create(
        model="tiny", prompt="<s><|user|>the lazy<|assistant|>dog<|user|>and pages<|assistant|>", max_tokens=8,
        temperature=0,
    )
    assert answer.choices[0].message.content == plain.choices[0].text
    assert answer.choices[0].message.role == "assistant" and answer.object == "chat.completion"
    assert answer.usage.prompt_tokens == plain.usage.prompt_tokens
    pieces = list(client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=8, temperature=0, stream=True,
        stream_options={"include_usage": True},
    ))
    assert pieces[0].choices[0].delta.role == "assistant"
    assert "".join(p.choices[0].delta.content or "" for p in pieces[:-1]) == answer.choices[0].message.content
    assert pieces[-1].usage.total_tokens == answer.usage.total_tokens


def test_probabilities_are_told(client: Any) -> None:
    answer = client.completions.create(model="tiny", prompt=PROMPT, max_tokens=3, temperature=0, logprobs=2, echo=True)
    logs, text = answer.choices[0].logprobs, answer.choices[0].text
    assert text.startswith(PROMPT) and logs.token_logprobs[0] is None and logs.top_logprobs[0] is None
    assert len(logs.tokens) == answer.usage.total_tokens
    assert logs.text_offset[-1] <= len(text) and logs.text_offset == sorted(logs.text_offset)
    pairs = zip(logs.top_logprobs[1:], logs.token_logprobs[1:], strict=True)
    assert all(max(top.values()) >= own for top, own in pairs)
    scored = client.completions.create(model="tiny", prompt=PROMPT, max_tokens=0, logprobs=0, echo=True)
    assert scored.choices[0].text == PROMPT and scored.usage.completion_tokens == 0
    assert scored.choices[0].logprobs.token_logprobs[1:] == pytest.approx(logs.token_logprobs[1 : len(
        scored.choices[0].logprobs.tokens)], abs=1e-4)
    chat = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}], logprobs=True,
                                          top_logprobs=3, max_completion_tokens=2, temperature=0)
    first = chat.choices[0].logprobs.content[0]
    assert len(first.top_logprobs) == 3 and first.logprob == first.top_logprobs[0].logprob
    assert first.token in (bytes(first.bytes).decode(errors="replace"),
                           "bytes:" + "".join(f"\\x{b:02x}" for b in first.bytes))


def test_texts_end_where_they_are_told_to(client: Any) -> None:
    asked = {"model": "tiny", "prompt": PROMPT, "max_tokens": 40, "temperature": 0, "extra_body": {"ignore_eos": True}}
    text = client.completions.create(**asked).choices[0].text
    stop = text[10:13]
    cut = client.completions.create(**asked, stop=[stop, "never there"])
    assert cut.choices[0].text == text[: text.index(stop)] and cut.choices[0].finish_reason == "stop"
    assert cut.usage.completion_tokens < 40
    pieces = list(client.completions.create(**asked, stop=stop, stream=True))
    assert "".join(p.choices[0].text for p in pieces) == cut.choices[0].text
    assert pieces[-1].choices[0].finish_reason == "stop"


def test_seeds_and_bent_logits(client: Any) -> None:
    asked = {"model": "tiny", "prompt": PROMPT, "max_tokens": 12}
    first, second = (client.completions.create(**asked, seed=3, n=2).choices for _ in range(2))
    assert [c.text for c in first] == [c.text for c in second] and first[0].text != first[1].text
    forced = client.completions.create(**{**asked, "max_tokens": 3}, temperature=0, logit_bias={"70": 100})
    assert len(set(forced.choices[0].text)) == 1 and len(forced.choices[0].text) == 3
    nucleus = client.completions.create(**asked, top_p=1e-9, temperature=1.5, frequency_penalty=0)
    greedy = client.completions.create(**asked, temperature=0)
    assert nucleus.choices[0].text == greedy.choices[0].text


def test_answers_are_json_where_that_is_asked_for(client: Any) -> None:
    settings = {"model": "tiny", "messages": [{"role": "user", "content": "json"}], "temperature": 0.0,
                "max_completion_tokens": 100, "logit_bias": {str(n): 20 for n in range(20, 60)}}
    schema = {"type": "object", "properties": {"fox": {"enum": ["quick", "brown"]}, "age": {
        "type": "integer", "minimum": 0, "maximum": 20}}, "required": ["fox", "age"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "animal", "schema": schema, "strict": True}}
    answer = client.chat.completions.create(**settings, response_format=form).choices[0]
    found = json.loads(answer.message.content)
    assert answer.finish_reason == "stop" and found.keys() == {"fox", "age"} and found["age"] <= 20
    assert found["fox"] in ("quick", "brown")
    pieces = client.chat.completions.create(**settings, response_format=form, stream=True)
    assert "".join(p.choices[0].delta.content or "" for p in pieces) == answer.message.content
    free = client.completions.create(model="tiny", prompt="a", temperature=1.2, seed=3, max_tokens=120, n=4,
                                     extra_body={"response_format": {"type": "json_object"}})
    for choice in free.choices:
        assert choice.text.lstrip().startswith("{")
        if choice.finish_reason == "stop":
            assert isinstance(json.loads(choice.text), dict)
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="words", prompt=[5], extra_body={"response_format": {"type": "json_object"}})
    assert refused.value.param == "response_format"


def test_the_cache_is_told_of(client: Any) -> None:
    prompt = "keys and values " * 6
    answers = [client.completions.create(model="tiny", prompt=prompt, max_tokens=2, temperature=0) for _ in range(2)]
    cached = [a.usage.prompt_tokens_details.cached_tokens for a in answers]
    assert cached[0] == 0 and 0 < cached[1] < answers[1].usage.prompt_tokens
    assert answers[0].choices[0].text == answers[1].choices[0].text


def test_a_model_without_a_tokenizer_takes_words(client: Any, folder: Path) -> None:
    answer = client.completions.create(model="words", prompt=[5, 6, 7], max_tokens=4, temperature=0, logprobs=0)
    shown = [f"token_id:{w}" for w in direct(folder.parent / "words", [5, 6, 7], 4)]
    assert answer.choices[0].text == "" and answer.choices[0].logprobs.tokens == shown
    for wrong in ({"prompt": "text"}, {"prompt": [5], "stop": "x"}):
        with pytest.raises(openai.BadRequestError, match=r"tokenizer\.json"):
            client.completions.create(model="words", **wrong)
    with pytest.raises(openai.BadRequestError, match="no chat template"):
        client.chat.completions.create(model="words", messages=[{"role": "user", "content": "a"}])


def test_many_ask_at_once(served: running.Running, client: Any, folder: Path, tokenizer: Any) -> None:
    prompts = [f"{PROMPT} {n} pages" for n in range(12)]
    found: dict[int, str] = {}

    def ask(n: int) -> None:
        answer = client.completions.create(model="tiny", prompt=prompts[n], max_tokens=60, temperature=0)
        found[n] = answer.choices[0].text

    before = metric(served, "decode_steps_total")
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n in (0, 5, 11):
        words = direct(folder, tokenizer.encode(prompts[n]).ids, 60)
        assert found[n] == tokenizer.decode([w for w in words if w != 1])
    steps = metric(served, "decode_steps_total") - before
    assert steps < 12 * 60 * 0.8, "they ran together"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("model", {"model": None}, "name of a model"),
    ("prompt", {"prompt": None}, "expected a string"), ("prompt", {"prompt": ""}, "at least one token"),
    ("prompt", {"prompt": []}, "expected a string"), ("prompt", {"prompt": [1, "a"]}, "arrays of token ids"),
    ("prompt", {"prompt": [300]}, "from 0 to 299"), ("prompt", {"prompt": [-1]}, "from 0 to 299"),
    ("prompt", {"prompt": [[]]}, "at least one token"), ("prompt", {"prompt": [5] * 600}, "at most 511"),
    ("prompt", {"prompt": {"a": 1}}, "expected a string"), ("prompt", {"prompt": "a\udc00"}, "half of one"),
    ("max_tokens", {"max_tokens": -1}, "integer from 0"),
    ("max_tokens", {"max_tokens": 0}, "or echo"), ("max_tokens", {"max_tokens": 1.5}, "an integer"),
    ("max_tokens", {"max_tokens": True}, "an integer"), ("temperature", {"temperature": -1}, "from 0 to 100"),
    ("temperature", {"temperature": "hot"}, "a number"), ("top_p", {"top_p": 0}, "above 0"),
    ("n", {"n": 0}, "from 1 to 128"), ("n", {"n": 129}, "from 1 to 128"),
    ("prompt", {"prompt": [[1]] * 65, "n": 2}, "at most"),
    ("best_of", {"best_of": 3}, "not chosen among"), ("suffix", {"suffix": "a"}, "not served"),
    ("logprobs", {"logprobs": 21}, "from 0 to 20"), ("stop", {"stop": [""]}, "none empty"),
    ("stop", {"stop": 3}, "a string"),
    ("stop", {"stop": ["a"] * 17}, "up to 16"), ("logit_bias", {"logit_bias": {"a": 1}}, "token ids"),
    ("logit_bias", {"logit_bias": {"5": 101}}, "-100 to 100"), ("logit_bias", {"logit_bias": {"300": 1}}, "below 300"),
    ("logit_bias", {"logit_bias": [1]}, "an object"), ("seed", {"seed": "x"}, "an integer"),
    ("seed", {"seed": 1 << 70}, "from"), ("presence_penalty", {"presence_penalty": 3}, "from -2 to 2"),
    ("stream", {"stream": "yes"}, "true or false"),
    ("stream_options", {"stream_options": {"include_usage": True}}, "stream"),
    ("stream_options", {"stream": True, "stream_options": {"other": True}}, "include_usage"),
    ("response_format", {"response_format": {"type": "grammar"}}, "json_schema"),
    ("response_format", {"response_format": {"type": "json_schema"}}, "alone"),
    ("response_format", {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, "a schema"),
    ("response_format", {"response_format": {"type": "json_schema", "json_schema": {
        "schema": {"properties": {"a": {"type": "string", "pattern": "b"}}}}}}, "the schema.a: 'pattern'"),
    ("response_format", {"response_format": "json_object"}, "an object"),
    ("no_such_field", {"no_such_field": 1}, "no such field"), ("echo", {"echo": 1}, "true or false"),
    ("messages", {"messages": []}, "no such field"),
]


@pytest.mark.parametrize(("param", "changes", "why"), WRONG, ids=[f"{p}-{n}" for n, (p, _, _) in enumerate(WRONG)])
def test_what_is_wrong_is_refused_by_name(
    served: running.Running, param: str, changes: dict[str, Any], why: str
) -> None:
    status, said = served.ask("/v1/completions", {"model": "tiny", "prompt": "a", **changes})
    assert status == 400 and said["error"]["param"] == param and why in said["error"]["message"], said
    assert said["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(("changes", "why"), [
    ({"messages": None}, "an array"), ({"messages": "hi"}, "an array"),
    ({"messages": [{"role": "x", "content": "a"}]}, "role"),
    ({"messages": [{"role": "user"}]}, "content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "type text"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "no tools"), ({"top_logprobs": 2}, "logprobs"),
    ({"tools": [{"type": "function"}]}, "not served"), ({"prompt": "a"}, "no such field"),
    ({"max_completion_tokens": 0}, "from 1"), ({"messages": [{"role": "user", "content": "a " * 900}]}, "context"),
    ({"chat_template_kwargs": 3}, "an object"), ({"messages": [{"role": "user", "content": "\ud800"}]}, "half of one"),
])
def test_chats_that_are_wrong_are_refused(served: running.Running, changes: dict[str, Any], why: str) -> None:
    given = {"model": "tiny", "messages": [{"role": "user", "content": "a"}], **changes}
    status, said = served.ask("/v1/chat/completions", given)
    assert status == 400 and why in said["error"]["message"], said


def test_refusals_are_exceptions_of_the_client(client: Any, served: running.Running) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="other", prompt="a")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="tiny", prompt="a " * 3000)
    assert long.value.code == "context_length_exceeded"
    for body in (b"{", b"[]", b"null", b"\xff\xfe", b'{"model": ["tiny"]}', b"[" * 100000):
        status, said = served.ask("/v1/completions", body)
        assert status == 400 and "Traceback" not in json.dumps(said)
    assert served.ask("/v1/completions")[0] == 405


def test_a_client_that_hangs_up_holds_nothing(served: running.Running) -> None:
    settled(served)
    for stream in (True, False):
        before = metric(served, "generation_tokens_total")
        body = json.dumps({"model": "tiny", "prompt": PROMPT, "max_tokens": 400, "stream": stream, "ignore_eos": True,
                           "n": 4}).encode()
        with socket.create_connection(("127.0.0.1", served.http)) as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            until = time.monotonic() + 20
            while metric(served, "generation_tokens_total") == before and time.monotonic() < until:
                time.sleep(0.005)
        settled(served)
        assert metric(served, "generation_tokens_total") - before < 4 * 400, "it was cut short"


def test_counters_count(served: running.Running, client: Any) -> None:
    before = {n: metric(served, n) for n in ("generation_tokens_total", "decode_steps_total")}
    client.completions.create(model="tiny", prompt=PROMPT, max_tokens=7, temperature=0, extra_body={"ignore_eos": True})
    settled(served)
    assert metric(served, "generation_tokens_total") - before["generation_tokens_total"] == 7
    assert metric(served, "decode_steps_total") - before["decode_steps_total"] == 7
    text = served.counted()
    for name in ("time_to_first_token_seconds", "time_per_output_token_seconds", "requests_waiting"):
        assert name in text


@pytest.mark.slow
def test_an_engine_that_is_killed_is_started_again(folder: Path) -> None:
    with running.server("--models", f"tiny={folder}", "--no-grpc", *SIZES) as server:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.http}/v1", api_key="none", max_retries=0, timeout=60)
        asked = {"model": "tiny", "prompt": PROMPT, "temperature": 0, "extra_body": {"ignore_eos": True}}
        wanted = client.completions.create(**asked, max_tokens=5).choices[0].text
        with pytest.raises(openai.APIError) as lost:
            for n, _ in enumerate(client.completions.create(**asked, max_tokens=450, stream=True)):
                if n == 3:
                    kill_children(server.process.pid)
        assert "SIGKILL" in str(lost.value)
        begun = time.monotonic()
        assert client.completions.create(**asked, max_tokens=5).choices[0].text == wanted
        assert time.monotonic() - begun < 30
        children = kill_children(server.process.pid)
        with pytest.raises(openai.APIError):
            client.completions.create(**asked, max_tokens=450, n=8, timeout=0.001)
        assert client.completions.create(**asked, max_tokens=5).choices[0].text == wanted
    assert all(not is_running(pid) for pid in children)


def kill_children(parent: int) -> list[int]:
    """End the processes that another one started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                os.kill(int(entry.name), signal.SIGKILL)
                found.append(int(entry.name))
    assert found, "there is an engine"
    return found


def is_running(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_folder_that_cannot_be_loaded_ends_the_start(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "config.json").write_text((folder / "config.json").read_text())
    for name, why in (("bad", "a model of type llama"), ("empty", "expected model.safetensors")):
        done = running.refused_start("--models", f"x={tmp_path / name}", "--no-grpc")
        assert done.returncode == 1 and why in done.stderr.splitlines()[-1], done.stderr


def test_words_that_are_part_of_a_character_are_shown_by_their_bytes(client: Any, tokenizer: Any) -> None:
    """The bytes of an answer's words are the bytes of its text, wherever characters are cut."""
    said = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "hi"}], max_tokens=60, temperature=1.5, seed=3,
        logprobs=True, top_logprobs=5, extra_body={"ignore_eos": True})
    content = said.choices[0].logprobs.content
    joined = b"".join(bytes(one.bytes) for one in content if not one.token.startswith("<"))      # special words
    assert joined.decode(errors="replace") == said.choices[0].message.content
    parts = [one for entry in content for one in (entry, *entry.top_logprobs) if one.token.startswith("bytes:")]
    assert parts and all(one.token == "bytes:" + "".join(f"\\x{b:02x}" for b in one.bytes) for one in parts)
    legacy = client.completions.create(model="tiny", prompt=PROMPT, max_tokens=20, temperature=0, logprobs=5)
    assert all(len(step) >= 5 for step in legacy.choices[0].logprobs.top_logprobs)      # no two have one name


@pytest.mark.parametrize("path", ["/v2/models/tiny/infer", "/predictions/tiny", "/v2/models/tiny/stats"])
def test_a_language_model_says_where_it_answers(served: running.Running, path: str) -> None:
    status, said = served.ask(path, None if path.endswith("stats") else {"inputs": []})
    assert status == 400 and "/v1" in json.dumps(said)


def test_half_a_character_in_a_prompt_is_refused(served: running.Running) -> None:
    for body in (b'{"model": "tiny", "prompt": "\\ud800"}', b'{"model": "tiny", "prompt": "a", "stop": "\\ud800"}'):
        status, said = served.ask("/v1/completions", body)
        assert status == 400 or (b"stop" in body and status == 200), said

"""Answers that follow a grammar: JSON of any form, and JSON that fits a schema."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rushlight.serve.language.constraint import Constraint, Masks
from rushlight.serve.language.grammar import Json, Rules
from rushlight.serve.language.schema import check, compiled
from rushlight.serve.language.vocabulary import Vocabulary, byte_letters

WORDS = [bytes([b]) for b in range(256)] + [
    b'{"', b'": ', b'", "', b'"}', b'"]', b"}}", b" {", b"tr", b"true", b"null", b"12", b"-1", b"the", b'a"', b'":"',
    b", ", b"[[", b"]]", b"\n  ", "é".encode(), "é".encode()[:1] + b"x", "\N{GRINNING FACE}".encode(), b"0.5", b"e-",
    b'\\"', b"\\u00", b"00", b'x":1,"y":2}', b'"}, {"']
NODE = {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}},
                                     "required": ["next"], "additionalProperties": False}]}
PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "title": "Name"}, "age": {"type": "integer", "minimum": 0},
    "tags": {"type": "array", "items": {"enum": ["a", "é"]}, "maxItems": 2}, "chain": {"$ref": "#/$defs/node"},
}, "required": ["name"], "$defs": {"node": NODE}}


def fits(schema: Any, text: str | bytes) -> bool:
    """Whether a text is read by the grammar of a schema to its end."""
    rules = Rules()
    stacks = frozenset([(compiled(schema, Json(rules)),)])
    for byte in text.encode() if isinstance(text, str) else text:
        stacks = rules.after(stacks, byte)
    return () in rules.opened(stacks)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    letters = {b: c for c, b in byte_letters().items()}
    folder = tmp_path_factory.mktemp("words")
    pieces = {"".join(letters[b] for b in word): n for n, word in enumerate(WORDS)}
    ends = {"id": len(WORDS), "content": "</s>", "special": True}
    (folder / "tokenizer.json").write_text(json.dumps(
        {"decoder": {"type": "ByteLevel"}, "model": {"vocab": pieces}, "added_tokens": [ends]}))
    return Vocabulary(str(folder), len(WORDS) + 8)


@pytest.mark.parametrize("text", [
    "{}", '{"a": 1}', '{"a":[1,2.5,-3e10,0,true,null,"x\\n\\u00e9é\N{GRINNING FACE}"],"b":{"c":[]}}', '{"a":[[[[]]]]}',
    '{\n  "a": 0\n}', '{"":""}', r'{"a":"\ud83d\ude00"}', '{"a" : [ ] , "b":{ }}'])
def test_objects_of_any_form_are_read(text: str) -> None:
    json.loads(text)
    assert fits({"type": "object"}, text) and fits({}, text)


@pytest.mark.parametrize("text", [
    "", "{", '{"a"}', '{"a":01}', '{"a":1,}', "[1]", "1", '{"a":.5}', '{"a":1.}', '{"a":"\n"}', '{"a":tru}', "{} x",
    '{"a":"\\x"}', '{"a":+1}', r'{"a":"\ud83d"}', b'{"a":"\xff"}', b'{"a":"\xc3"}', b'{"a":"\xed\xa0\x80"}',
    "{'a':1}", '{"a":NaN}', "{" + " " * 40 + "}"])
def test_what_is_no_object_is_not(text: str | bytes) -> None:
    assert not fits({"type": "object"}, text)


@pytest.mark.parametrize(("schema", "good", "bad"), [
    (PERSON, ['{"name":"x"}', '{"name":"x","age":3}', '{"name":"", "tags":["a","é"],"chain":null}',
              '{"name":"x","chain":{"next":{"next":null}}}'],
     ["{}", '{"age":3}', '{"name":"x","age":-1}', '{"name":"x","tags":["a","a","a"]}', '{"name":1}',
      '{"age":1,"name":"x"}', '{"name":"x","chain":{}}', '{"name":"x",}']),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
     ['[1,"a"]'], ["[1]", '[1,"a",2]', '["a",1]']),
    ({"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 3, "maxItems": 3}, ['[1,"a",{}]'], ["[1,2]"]),
    ({"maxItems": 0}, ["[]", "[ ]"], ["[1]"]), ({"minItems": 1}, ["[1]", "[1,2]"], ["[]"]),
    ({"type": "array", "minItems": 2, "maxItems": 3}, ["[1,2]", "[1,2,3]"], ["[1]", "[1,2,3,4]"]),
    ({"const": "é"}, ['"é"'], ['"e"', "é"]), ({"type": ["string", "null"]}, ["null", '"a"'], ["1"]),
    ({"enum": [1, "1", None, {"a": 1}]}, ["1", '"1"', "null", '{"a": 1}'], ["2", "true"]),
    ({"type": "string", "enum": [1, "a"]}, ['"a"'], ["1"]), ({}, ["[3]", "3", '"a"', "true"], ["x"]),
    ({"required": ["q"]}, ['{"q":3}'], ["{}"]), ({"type": "boolean"}, ["true", "false"], ["null"]),
    ({"additionalProperties": {"type": "integer"}}, ['{"x":1,"y":2}', "{}"], ['{"x":"a"}']),
    ({"type": "object", "additionalProperties": False}, ["{}"], ['{"a":1}']), (True, ["1"], ["."]),
    ({"allOf": [{"type": "number"}]}, ["1.5e3"], ["null"]), ({"type": "integer"}, ["-0", "12"], ["1.5", "01"]),
])
def test_schemas_are_held_to(schema: Any, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not fits(schema, text)] == []
    assert [text for text in bad if fits(schema, text)] == []


def test_limits_of_integers() -> None:
    chance = random.Random(0)
    for _ in range(80):
        low, high = sorted(chance.randint(-1200, 1200) for _ in range(2))
        schema = {"minimum": low, "exclusiveMaximum": high + 1}
        schema = chance.choice([schema, {"minimum": low}, {"exclusiveMaximum": high + 1}])
        near = {low - 1, low, low + 1, high - 1, high, high + 1, -1, 0, 1, 9, 10, 99, 100, 999, 1000, -10, -100, 54321}
        for value in near:
            wanted = schema.get("minimum", value) <= value < schema.get("exclusiveMaximum", value + 1)
            assert fits({"type": "integer", **schema}, str(value)) == wanted, (schema, value)


@pytest.mark.parametrize("schema", [
    {"type": "string", "pattern": "a"}, {"oneOf": [{}]}, {"type": "string", "format": "date"}, {"$ref": "http://x"},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, {"type": "x"}, {"type": None},
    {"type": []}, {"type": ["string", 3]}, False, 3, "a", None, {"type": "integer", "minimum": 5, "maximum": 4},
    {"type": "array", "minItems": 3, "maxItems": 2}, {"enum": []}, {"enum": "a"}, {"minLength": 2},
    {"$ref": "#/$defs/q"}, {"anyOf": [{}], "const": 1},
    {"anyOf": [{"$ref": "#"}]}, {"properties": []}, {"type": "number", "minimum": 0}, {"anyOf": [{}], "enum": [1]},
    {"anyOf": [{}], "type": "string"}, {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
    {"properties": {"a": {}}, "required": ["b"], "additionalProperties": False}, {"required": "a"},
    {"type": "array", "maxItems": 100000}, {"allOf": [{}, {}]}, {"not": {}}, {"enum": [1], "type": "string"},
    {"type": "integer", "minimum": 0.5}, {"properties": {str(n): {} for n in range(600)}},
])
def test_what_is_not_held_to_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"^(the schema|#)"):
        check(schema)


def test_schemas_in_each_other_end() -> None:
    deep: Any = {"type": "string"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    try:
        check(deep)
    except ValueError as refused:
        assert "deep" in str(refused)
    with pytest.raises(ValueError, match="characters"):
        check({"description": "a" * 100_000})


@pytest.mark.parametrize("form", ["", json.dumps(PERSON), json.dumps({"type": "array", "items": {"type": "number"}})])
def test_masks_are_what_each_word_would_do(vocabulary: Vocabulary, form: str) -> None:
    """Against asking for every word, along texts that are drawn."""
    masks = Masks(vocabulary)
    chance, looks = random.Random(len(form)), 0
    for _ in range(6):
        walked = Constraint(masks, form)
        for _ in range(25):
            allowed = walked.allowed((len(WORDS),)).tolist()
            for word, content in enumerate(WORDS):
                stacks = walked._stacks
                for byte in content:
                    stacks = masks.rules.after(stacks, byte)
                assert allowed[word] == bool(stacks), content
            assert allowed[len(WORDS)] == walked.may_end and not any(allowed[len(WORDS) + 1 :])
            looks += 1
            likely = [n for n, word in enumerate(WORDS) if allowed[n] and (word.isascii() or chance.random() < 0.1)]
            if walked.is_done or not likely:
                break
            walked.note(chance.choice(likely))
    assert looks > 20


def test_vocabularies_that_cannot_write_json_are_refused(tmp_path: Path) -> None:
    for said, why in (({"decoder": {"type": "ByteLevel"}, "model": {"vocab": {"a": 0}}}, "no word for ' '"),
                      ({"decoder": {"type": "WordPiece"}, "model": {"vocab": {"a": 0}}}, "stand for no bytes")):
        (tmp_path / "tokenizer.json").write_text(json.dumps(said))
        with pytest.raises(ValueError, match=why):
            Vocabulary(str(tmp_path), 10)
    with pytest.raises(ValueError, match="no tokenizer.json"):
        Vocabulary(str(tmp_path / "nowhere"), 10)


def test_words_with_marks_for_spaces_and_bytes(tmp_path: Path) -> None:
    pieces = [["<unk>", 0.0], ["▁", 0.0], ["▁the", 0.0], ["<0xC3>", 0.0], *([chr(b), 0.0] for b in range(0x21, 0x7F))]
    (tmp_path / "tokenizer.json").write_text(json.dumps({
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"vocab": pieces}, "added_tokens": [{"id": 0, "content": "<unk>", "special": True}]}))
    found = Vocabulary(str(tmp_path), 200)
    assert found.bytes[1] == b" " and found.bytes[2] == b" the" and 0 not in found.bytes
    assert not found.is_wide and 3 not in found.bytes      # a byte of a character that cannot be finished
    walked = Constraint(Masks(found), json.dumps({"const": "é"}))
    for letter in '"\\u00e9"':
        word = next(n for n, content in found.bytes.items() if content == letter.encode())
        assert walked.allowed(())[word]
        walked.note(word)
    assert walked.is_done

"""JSON schemas as grammars: what a text may be so that it fits.

Enters: a schema as JSON says it, and JSON's rules. Leaves: the symbol of the values that fit it: objects with the
properties that it names, in its order, those that are not required or not. Refuses: words of schemas that a grammar
does not hold to (`pattern`, `format`, limits of lengths and sums), each by its name and place, references to elsewhere,
schemas that are too large, and those that no finite text fits.
"""

from __future__ import annotations

import json
from typing import Any

from .grammar import Json, Rules

MOST = 500               # schemas within a schema, and values of one list
MOST_TEXT = 1 << 16      # characters of a schema
MOST_ITEMS = 200         # that a limit of an array may name
MOST_DIGITS = 18         # of a limit of integers
KINDS = ("object", "array", "string", "number", "integer", "boolean", "null")
SAID = {"title", "description", "default", "examples", "$schema", "$id", "$comment", "$anchor", "deprecated",
        "readOnly", "writeOnly", "$defs", "definitions"}      # what says nothing of what fits
OF_KIND = {"object": {"properties", "required", "additionalProperties"},
           "array": {"items", "prefixItems", "minItems", "maxItems"},
           "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}}
CHOOSING = ("$ref", "const", "enum", "anyOf", "allOf")


def check(schema: Any) -> str:
    """The schema as text; ValueError where it cannot be held to."""
    try:
        text = json.dumps(schema)
        if len(text) > MOST_TEXT:
            raise ValueError(f"the schema: expected at most {MOST_TEXT} characters, got {len(text)}")
        compiled(schema, Json(Rules()))
    except RecursionError:
        raise ValueError("the schema: its parts lie too deep in each other") from None
    return text


def compiled(schema: Any, base: Json) -> int:
    """The symbol of what fits a schema."""
    found = Schema(schema, base).symbol
    if not base.rules.is_finite(found):
        raise ValueError("the schema: no finite text fits it")
    return found


def shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Schema:
    """A schema on its way to a grammar."""

    def __init__(self, whole: Any, base: Json) -> None:
        self.whole, self.base, self.count = whole, base, 0
        self.named: dict[str, int] = {}
        self.symbol = self.of(whole, "the schema")

    def of(self, said: Any, at: str) -> int:
        """The symbol of one schema within it."""
        self.count += 1
        if self.count > MOST:
            raise ValueError(f"{at}: expected at most {MOST} schemas in each other")
        if said is True or said == {}:
            return self.base.value
        if not isinstance(said, dict):
            raise ValueError(f"{at}: expected an object or true, got {shown(said)}")
        chosen = [key for key in CHOOSING if key in said]
        if said.get("type", "") is None:
            raise ValueError(f"{at}: expected a type among {', '.join(KINDS)}, got null")
        kinds = said.get("type")
        if kinds is None and not chosen:
            kinds = next(([kind] for kind, words in OF_KIND.items() if words & said.keys()), list(KINDS))
        kinds = [kinds] if isinstance(kinds, str) else kinds
        known = SAID | {"type", *chosen}.union(*(OF_KIND.get(k, set()) for k in kinds or () if isinstance(k, str)))
        unknown = [key for key in said if key not in known]
        if unknown:
            raise ValueError(f"{at}: {unknown[0]!r} cannot be held to here")
        if len(chosen) > 1:
            raise ValueError(f"{at}: expected one of {' and '.join(map(repr, chosen))}, got both")
        if chosen:
            return self.chosen(chosen[0], said, kinds, at)
        if not isinstance(kinds, list) or not kinds or any(kind not in KINDS for kind in kinds):
            raise ValueError(f"{at}: expected a type among {', '.join(KINDS)}, got {shown(said['type'])}")
        return self.base.rules.rule(*((self.kind(kind, said, at),) for kind in kinds))

    # --- one of several -----------------------------------------------------------------------------------------------

    def chosen(self, key: str, said: dict[str, Any], kinds: Any, at: str) -> int:
        rules, value, where = self.base.rules, said[key], f"{at}.{key}"
        others = [k for k in said if k not in SAID and k not in (key, "type")]
        if others or (kinds is not None and key not in ("const", "enum")):
            raise ValueError(f"{at}: expected {key!r} alone, got {(others or ['type'])[0]!r} beside it")
        if key == "$ref":
            return self.reference(value, where)
        if key in ("anyOf", "allOf"):
            if not isinstance(value, list) or not value:
                raise ValueError(f"{where}: expected a list of schemas, got {shown(value)}")
            if key == "allOf" and len(value) > 1:
                raise ValueError(f"{where}: expected one schema, got {len(value)}: several at once are not held to")
            return rules.rule(*((self.of(one, f"{where}[{n}]"),) for n, one in enumerate(value)))
        values = [value] if key == "const" else value
        if not isinstance(values, list) or not values or len(values) > MOST:
            raise ValueError(f"{where}: expected a list of values, got {shown(values)}")
        fitting = [v for v in values if kinds is None or any(is_of(v, kind) for kind in kinds)]
        if not fitting:
            raise ValueError(f"{where}: none of its values is of type {shown(kinds)}")
        return rules.rule(*(rules.text(self.written(v)) for v in fitting))

    def written(self, value: Any) -> bytes:
        text = json.dumps(value, ensure_ascii=not self.base.is_wide)
        return text.encode("utf-8", "backslashreplace")

    def reference(self, path: Any, at: str) -> int:
        """What is said elsewhere in the schema; it may refer to itself."""
        if not isinstance(path, str) or not (path == "#" or path.startswith("#/")):
            raise ValueError(f"{at}: expected a place in this schema, '#/$defs/NAME', got {shown(path)}")
        if path not in self.named:
            found: Any = self.whole
            for part in path.split("/")[1:]:
                part = part.replace("~1", "/").replace("~0", "~")
                if not isinstance(found, dict) or part not in found:
                    raise ValueError(f"{at}: the schema has no {path[:100]!r}")
                found = found[part]
            self.named[path] = self.base.rules.later()
            self.base.rules.say(self.named[path], (self.of(found, path),))
        return self.named[path]

    # --- by kind ------------------------------------------------------------------------------------------------------

    def kind(self, kind: str, said: dict[str, Any], at: str) -> int:
        if kind == "object":
            return self.object(said, at)
        if kind == "array":
            return self.array(said, at)
        if kind == "integer" and OF_KIND[kind] & said.keys():
            return self.integers(said, at)
        return int(getattr(self.base, kind))

    def object(self, said: dict[str, Any], at: str) -> int:
        named, needed = said.get("properties", {}), said.get("required", [])
        more = said.get("additionalProperties", True)
        if not isinstance(named, dict):
            raise ValueError(f"{at}.properties: expected an object, got {shown(named)}")
        if not isinstance(needed, list) or not all(isinstance(name, str) for name in needed):
            raise ValueError(f"{at}.required: expected a list of names, got {shown(needed)}")
        if not isinstance(more, (bool, dict)):
            raise ValueError(f"{at}.additionalProperties: expected a schema, true or false, got {shown(more)}")
        if more and not named and not needed:
            return self.base.mapping(self.of(more, f"{at}.additionalProperties"))
        if named and isinstance(more, dict):
            raise ValueError(f"{at}.additionalProperties: expected true or false beside 'properties', got a schema")
        unsaid = [name for name in needed if name not in named]
        if unsaid and more is False:
            raise ValueError(f"{at}.required: {unsaid[0]!r} is none of its properties")
        entries = [(name, self.of(one, f"{at}.{name}"), name in needed) for name, one in named.items()]
        others = self.of(more, f"{at}.additionalProperties") if unsaid else 0
        entries += [(name, others, True) for name in dict.fromkeys(unsaid)]
        return self.base.record([(self.written(name), symbol, must) for name, symbol, must in entries])

    def array(self, said: dict[str, Any], at: str) -> int:
        first = said.get("prefixItems", [])
        if not isinstance(first, list):
            raise ValueError(f"{at}.prefixItems: expected a list of schemas, got {shown(first)}")
        low, high = self.limit(said, "minItems", at) or 0, self.limit(said, "maxItems", at)
        items = said.get("items", True)
        before = [self.of(one, f"{at}.prefixItems[{n}]") for n, one in enumerate(first)]
        if items is False:
            high = len(before) if high is None else min(high, len(before))
        if high is not None and high < max(low, len(before)):
            raise ValueError(f"{at}: expected room for {max(low, len(before))} items, got at most {high}")
        one = self.base.value if items is False else self.of(items, f"{at}.items")
        left = None if high is None else high - len(before)
        return self.base.sequence(one, max(0, low - len(before)), left, before)

    def limit(self, said: dict[str, Any], key: str, at: str) -> int | None:
        value = said.get(key)
        if value is not None and (type(value) is not int or not 0 <= value <= MOST_ITEMS):
            raise ValueError(f"{at}.{key}: expected a number from 0 to {MOST_ITEMS}, got {shown(value)}")
        return value

    def integers(self, said: dict[str, Any], at: str) -> int:
        """Those within limits."""
        edges: dict[str, int] = {}
        for key, step in (("minimum", 0), ("exclusiveMinimum", 1), ("maximum", 0), ("exclusiveMaximum", -1)):
            if key not in said:
                continue
            if type(said[key]) is not int or len(str(abs(said[key]))) > MOST_DIGITS:
                raise ValueError(f"{at}.{key}: expected an integer of up to {MOST_DIGITS} digits, got "
                                 f"{shown(said[key])}")
            side, edge = key[-7:].lower(), said[key] + step
            edges[side] = edge if side not in edges else (max if side == "minimum" else min)(edges[side], edge)
        low, high = edges.get("minimum"), edges.get("maximum")
        if low is not None and high is not None and low > high:
            raise ValueError(f"{at}: no integer is from {low} to {high}")
        rules = self.base.rules
        choices: list[tuple[int, ...]] = []
        if high is None or high >= 0:
            choices += self.between(max(0, low or 0), high)
        if low is None or low < 0:
            below = self.between(max(1, -high) if high is not None else 1, None if low is None else -low)
            choices += [(*rules.text(b"-"), *one) for one in below]
        return rules.rule(*choices)

    def between(self, low: int, high: int | None) -> list[tuple[int, ...]]:
        """Digits of the integers from `low` >= 0 to `high`."""
        rules, digit = self.base.rules, self.base.rules.among(b"0123456789")
        found: list[tuple[int, ...]] = []
        while high is None or low <= high:
            size = len(str(low))
            last = 10**size - 1
            if high is None and (low in (0, 1) or low == 10 ** (size - 1)):
                plain = (rules.among(b"123456789"), *[digit] * (size - 1), self.base.digits)
                return [*found, *([rules.text(b"0")] if low == 0 else []), plain]
            found += self.of_size(str(low), str(last if high is None else min(high, last)))
            low = last + 1
        return found

    def of_size(self, low: str, high: str) -> list[tuple[int, ...]]:
        """Those of as many digits as both edges have."""
        rules = self.base.rules
        if not low:
            return [()]
        if low[0] == high[0]:
            return [(*rules.text(low[:1].encode()), *rest) for rest in self.of_size(low[1:], high[1:])]
        rest = len(low) - 1
        found = [(*rules.text(low[:1].encode()), *one) for one in self.of_size(low[1:], "9" * rest)]
        found += [(*rules.text(high[:1].encode()), *one) for one in self.of_size("0" * rest, high[1:])]
        if int(low[0]) + 1 < int(high[0]):
            middle = rules.among(range(ord(low[0]) + 1, ord(high[0])))
            found.append((middle, *[rules.among(b"0123456789")] * rest))
        return found


def is_of(value: Any, kind: str) -> bool:
    """Whether a value is of one of JSON's kinds."""
    if kind in ("number", "integer"):
        whole = isinstance(value, int) or (isinstance(value, float) and (kind == "number" or value.is_integer()))
        return whole and not isinstance(value, bool)
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(value, types[kind])

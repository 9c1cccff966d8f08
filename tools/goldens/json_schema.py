"""Writes testdata/golden/json_schema.json: schemas, instances, and what the jsonschema package says of them.

Usage: json_schema.py [SUITE]   (needs jsonschema, rfc3339-validator)

Random cases: a schema, and JSON texts with 1 (satisfies it) or 0. jsonschema judges the schema as src/engine/grammar
narrows it (json_schema.h): `narrowed` says how. Instances are written as our grammar writes them: members sorted, which
is the order of the schemas' properties here, no exponents, no 1.0 for 1.
SUITE is a checkout of JSON-Schema-Test-Suite (github.com/json-schema-org/JSON-Schema-Test-Suite, Copyright 2012 Julian
Berman, MIT licence); its draft 2020-12 cases for the keywords that we enforce are copied: texts with [valid, narrowed],
where narrowed is null if the schema joins others and so has no simple narrowed form.
"""

import json
import os
import random
import subprocess
import sys

from jsonschema import Draft202012Validator

import common

SEED = 11
NAMES = list("abcdefgh")
FURTHER = list("xyz")
LETTERS = ["a", "b", "z", "A", "0", "7", "-", " ", '"', "\\", "/", "\t", "\u00e9", "\u4e16", "\U0001f600", "."]
PATTERNS = {  # pattern: strings that match
    "^[a-z]{2,4}$": ["ab", "abz", "zzzz"],
    "^\\d{3}-\\d{4}$": ["123-4567", "000-0000"],
    "^(foo|ba[rz])+$": ["foo", "barbaz", "bazfoofoo"],
    "[0-9]": ["0", "a7b", "\u00e97"],
    '^[^"\\\\]*$': ["", "abc", "\u4e16\u00e9"],
    "^$": [""],
    "a|b$": ["a", "xax", "zb"],
    "^a.c$": ["abc", "a c", "a\u4e16c", "a\U0001f600c"],
    "(^x|y$)": ["x", "xzz", "zzy"],
    "^[A-Za-z_][A-Za-z0-9_]*$": ["a", "_b7", "Zz"],
    "\\S{3}": ["abc", "a bcd"],
    "^(\\+|-)?\\d+(\\.\\d+)?$": ["1", "-12.50", "+0.7"],
    "^\\u00e9+": ["\u00e9", "\u00e9\u00e9z"],
    "^(?:a?b){2,3}?$": ["abb", "bb", "ababab"],
    "^[\\x20-\\x7e\\t]*[\\]\\-]$": ["-", 'a "]', "\\\t-"],
}
FORMATS = {
    "date": (["2024-02-29", "1999-12-31", "2000-02-29"],
             ["2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31", "x"]),
    "time": (["12:00:00Z", "23:59:59.25+01:30"], ["24:00:00Z", "12:00:00", "12:60:00Z"]),
    "date-time": (["2024-02-29T12:00:00Z", "2001-01-01T00:00:00.5-08:00"],
                  ["2024-02-30T12:00:00Z", "2024-02-29"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000", "g"]),
    "ipv4": (["127.0.0.1", "255.255.255.255"], ["256.0.0.1", "1.2.3", "01.2.3.4"]),
}
SUITE_FILES = """
    additionalProperties allOf anyOf boolean_schema const default defs enum exclusiveMaximum exclusiveMinimum
    infinite-loop-detection items maxItems maxLength maximum minItems minLength minimum oneOf pattern
    prefixItems properties ref required type uniqueItems minProperties maxProperties not contains
    patternProperties
""".split()
SUBJECTS = {"properties": "object", "required": "object", "additionalProperties": "object", "minProperties": "object",
            "maxProperties": "object", "items": "array", "prefixItems": "array", "minItems": "array",
            "maxItems": "array", "minLength": "string", "maxLength": "string", "pattern": "string",
            "minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number"}
JOINING = ("allOf", "anyOf", "oneOf", "$ref")


def narrowed(schema):
    """The schema with what json_schema.h leaves out: further members, types that keywords do not speak of."""
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = narrowed(out[key])
    for key in ("prefixItems", "anyOf", "oneOf", "allOf"):
        if key in out:
            out[key] = [narrowed(s) for s in out[key]]
    for key in ("properties", "$defs"):
        if key in out:
            out[key] = {k: narrowed(s) for k, s in out[key].items()}
    if "properties" in out and "additionalProperties" not in out:
        # `required` names that are not among the properties are admitted too.
        out["additionalProperties"] = False
        out["properties"] = {**{k: True for k in out.get("required", [])}, **out["properties"]}
    if not any(k in out for k in ("type", "enum", "const")):
        if types := sorted({SUBJECTS[k] for k in out if k in SUBJECTS}):
            out["type"] = types
    return out


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def text(self):
        return "".join(self.rng.choice(LETTERS) for _ in range(self.rng.randrange(6)))

    def number(self, whole):
        if whole:
            return self.rng.choice([0, 1, -1, 5, 9, 10, 42, 99, 100, -37, 1000, self.rng.randrange(-2000, 2000)])
        return self.rng.choice([0.5, -0.25, 3.75, 99.999, -100.5, 0.001, self.rng.randrange(-4000, 4000) / 8 + 0.0625])

    def any(self, depth=2):
        kind = self.rng.randrange(7 if depth else 5)
        if kind == 0:
            return None
        if kind == 1:
            return self.rng.random() < 0.5
        if kind in (2, 3):
            return self.number(kind == 2)
        if kind == 4:
            return self.text()
        if kind == 5:
            return [self.any(depth - 1) for _ in range(self.rng.randrange(4))]
        return {k: self.any(depth - 1) for k in sorted(self.rng.sample(FURTHER, self.rng.randrange(3)))}

    def scalar(self):
        rng = self.rng
        kind = rng.randrange(10)
        if kind == 0:
            return rng.choice([{"type": "null"}, {"type": "boolean"}, {"type": ["string", "null"]}, {"type": "number"}])
        if kind in (1, 2):
            schema = {"type": rng.choice(["integer", "number"])}
            if rng.random() < 0.7:
                schema[rng.choice(["minimum", "exclusiveMinimum"])] = self.number(rng.random() < 0.6)
            if rng.random() < 0.7:
                schema[rng.choice(["maximum", "exclusiveMaximum"])] = self.number(rng.random() < 0.6)
            return schema
        if kind in (3, 4):
            schema = {"type": "string"}
            if rng.random() < 0.6:
                schema["minLength"] = rng.randrange(4)
            if rng.random() < 0.6:
                schema["maxLength"] = rng.randrange(6)
            return schema
        if kind in (5, 6):
            schema = {"type": "string", "pattern": rng.choice(list(PATTERNS))}
            if rng.random() < 0.3:
                schema["maxLength"] = rng.randrange(2, 6)
            return schema
        if kind == 7:
            return {"type": "string", "format": rng.choice(list(FORMATS))}
        if kind == 8:
            return {"enum": [self.any(1) for _ in range(rng.randrange(1, 5))]}
        return {"const": self.any(1)}

    def object(self, depth, names, closed):
        rng = self.rng
        names = sorted(rng.sample(names, rng.randrange(min(4, len(names)) + 1)))
        schema = {"type": "object", "properties": {n: self.schema(depth - 1) for n in names}}
        required = [n for n in names if rng.random() < 0.5]
        if required:
            schema["required"] = required
        further = rng.randrange(6)
        if closed or further == 0:
            schema["additionalProperties"] = False
        elif further == 1:
            schema["additionalProperties"] = self.scalar()
        elif further == 2:
            schema["additionalProperties"] = True
        return schema

    def schema(self, depth):
        rng = self.rng
        kind = rng.randrange(14) if depth > 0 else 0
        if kind < 4:
            return self.scalar()
        if kind < 7:
            return self.object(depth, NAMES, False)
        if kind < 9:
            schema = {"type": "array"}
            if rng.random() < 0.8:
                schema["items"] = self.schema(depth - 1)
            if rng.random() < 0.3:
                schema["prefixItems"] = [self.schema(depth - 1) for _ in range(rng.randrange(1, 3))]
            if rng.random() < 0.4:
                schema["minItems"] = rng.randrange(3)
            if rng.random() < 0.4:
                schema["maxItems"] = rng.randrange(4)
            return schema
        if kind == 9:
            parts = [self.scalar(), self.object(depth - 1, NAMES, True), self.object(depth - 1, NAMES, True)]
            return {"anyOf": rng.sample(parts, rng.randrange(1, 4))}
        if kind == 10:
            parts = []
            for tag in ("p", "q", "r")[: rng.randrange(2, 4)]:
                part = self.object(depth - 1, NAMES[1:], True)
                part["properties"] = {"a": {"const": tag}, **part["properties"]}
                part["required"] = ["a"] + part.get("required", [])
                parts.append(part)
            return {"oneOf": parts}
        if kind == 11:
            low, high = self.object(depth - 1, NAMES[:4], False), self.object(depth - 1, NAMES[4:], False)
            low["additionalProperties"] = high["additionalProperties"] = True
            return {"allOf": [low, high]}
        if kind == 12:
            a, b = sorted([self.number(True), self.number(True)])
            return {"type": "integer", "allOf": [{"minimum": a}, {"maximum": b}]}
        return {"$ref": "#/$defs/" + rng.choice(["node", "leaf"])}

    def sample(self, schema, defs, depth=6):
        """An instance that likely satisfies the schema."""
        rng = self.rng
        if not isinstance(schema, dict):
            return self.any(1)
        if "$ref" in schema:
            return self.sample(defs[schema["$ref"].split("/")[-1]], defs, depth - 1)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.sample(rng.choice(schema[key]), defs, depth)
        if "allOf" in schema:
            values = [self.sample(s, defs, depth) for s in schema["allOf"]]
            if all(isinstance(v, dict) for v in values):
                return dict(sorted({k: v for part in values for k, v in part.items()}.items()))
            return self.number(True)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        kind = schema.get("type")
        kind = rng.choice(kind) if isinstance(kind, list) else kind
        if kind == "string":
            if "pattern" in schema:
                return rng.choice(PATTERNS[schema["pattern"]])
            if "format" in schema:
                return rng.choice(FORMATS[schema["format"]][0])
            return self.text()
        if kind in ("integer", "number"):
            return self.number(kind == "integer" or rng.random() < 0.4)
        if kind == "array":
            items = []
            for i in range(rng.randrange(4) if depth > 0 else 0):
                prefix = schema.get("prefixItems", [])
                items.append(self.sample(prefix[i] if i < len(prefix) else schema.get("items", True), defs, depth - 1))
            return items
        if kind == "object":
            value = {}
            for name, sub in schema.get("properties", {}).items():
                if name in schema.get("required", []) or (rng.random() < 0.6 and depth > 0):
                    value[name] = self.sample(sub, defs, depth - 1)
            if schema.get("additionalProperties", False) is not False and rng.random() < 0.5:
                value[rng.choice(FURTHER)] = self.sample(schema["additionalProperties"], defs, depth - 1)
            return value
        return rng.choice([None, True, False]) if kind in (None, "null", "boolean") else self.any()

    def mutated(self, value):
        """The same with one part changed."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.8:
            out, name = dict(value), rng.choice(list(value))
            action = rng.randrange(3)
            if action == 0:
                del out[name]
            elif action == 1:
                out[name] = self.mutated(out[name])
            else:
                out[rng.choice(FURTHER)] = self.any(1)
            return dict(sorted(out.items()))
        if isinstance(value, list) and rng.random() < 0.8:
            out = list(value)
            if out and rng.random() < 0.4:
                del out[rng.randrange(len(out))]
            elif out and rng.random() < 0.6:
                at = rng.randrange(len(out))
                out[at] = self.mutated(out[at])
            else:
                out.append(self.any(1))
            return out
        if isinstance(value, str) and rng.random() < 0.8:
            at = rng.randrange(len(value) + 1)
            return value[:at] + rng.choice(LETTERS + [""]) + value[at + rng.randrange(2):]
        if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.8:
            return value + rng.choice([-1, 1, 10, -1000])
        if isinstance(value, str):
            return rng.choice([bad for _, wrong in FORMATS.values() for bad in wrong])
        return self.any()


def write(rng, value):
    separators, indent = rng.choice([((",", ":"), None), ((", ", ": "), None), ((",", ": "), 2)])
    return json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)


def random_cases(rng, count):
    maker = Maker(rng)
    for _ in range(count):
        defs = {"leaf": maker.scalar(), "node": {"type": "object", "properties": {
            "a": {"$ref": "#/$defs/leaf"}, "b": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["a"]}}
        schema = maker.schema(3)
        if '"$ref"' in json.dumps(schema):
            schema["$defs"] = defs
        checker = Draft202012Validator(narrowed(schema), format_checker=Draft202012Validator.FORMAT_CHECKER)
        tests = {}
        for i in range(24):
            value = maker.any() if i % 6 == 5 else maker.sample(schema, defs)
            if i % 3 == 1:
                value = maker.mutated(value)
            tests[write(rng, value)] = int(checker.is_valid(value))
        yield {"schema": schema, "tests": sorted(tests.items())}


def joins(schema):
    if isinstance(schema, dict):
        return any(k in JOINING for k in schema) or any(joins(v) for v in schema.values())
    return isinstance(schema, list) and any(joins(v) for v in schema)


def as_written(schema, value):
    """Whether our grammar writes the value so: the order of members, no 1.0."""
    if isinstance(value, float) and value.is_integer():
        return False
    if isinstance(schema, dict) and isinstance(value, (dict, list)):
        constants = [json.dumps(v) for v in schema.get("enum", []) + [schema[k] for k in ("const",) if k in schema]]
        if constants and json.dumps(value) not in constants:
            return False
    if isinstance(value, dict):
        order = list(schema.get("properties", {})) if isinstance(schema, dict) else []
        order += [n for n in value if n not in order]
        names = [n for n in order if n in value]
        return names == list(value) and all(as_written(schema.get("properties", {}).get(n, {}) if isinstance(
            schema, dict) else {}, v) for n, v in value.items())
    return not isinstance(value, list) or all(as_written({}, v) for v in value)


def suite_cases(folder):
    for name in SUITE_FILES:
        with open(os.path.join(folder, "tests", "draft2020-12", name + ".json"), encoding="utf-8") as f:
            groups = json.load(f)
        for group in groups:
            tests = []
            for test in group["tests"]:
                verdict = None
                if not joins(group["schema"]) and "\\\\p{" not in json.dumps(group["schema"]):  # unknown to Python's re
                    verdict = Draft202012Validator(narrowed(group["schema"])).is_valid(test["data"])
                    if verdict and not as_written(group["schema"], test["data"]):
                        verdict = None
                tests.append([json.dumps(test["data"], ensure_ascii=False), test["valid"], verdict])
            yield {"file": name, "description": group["description"], "schema": group["schema"], "tests": tests}


def main():
    rng = random.Random(SEED)
    value = common.provenance(__file__, SEED, "jsonschema", "rfc3339-validator")
    value["cases"] = list(random_cases(rng, 450))
    if len(sys.argv) > 1:
        commit = subprocess.run(["git", "-C", sys.argv[1], "rev-parse", "HEAD"], capture_output=True, text=True).stdout
        value["suite"] = {"source": "github.com/json-schema-org/JSON-Schema-Test-Suite", "commit": commit.strip(),
                          "licence": "MIT, Copyright (c) 2012 Julian Berman", "cases": list(suite_cases(sys.argv[1]))}
    common.save_json(os.path.join(common.TESTDATA, "golden", "json_schema.json"), value, compact=True)
    verdicts = [v for case in value["cases"] for _, v in case["tests"]]
    print(len(value["cases"]), "schemas,", sum(verdicts), "of", len(verdicts), "instances valid")


if __name__ == "__main__":
    main()

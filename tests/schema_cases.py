"""Fifty JSON schemas of the kinds that people ask for, for tests/test_constraints.py. Each can be ended
soon even by a model of random weights: lengths and lists are bounded."""

TEXT = {"type": "string", "maxLength": 12}
WORD = {"type": "string", "minLength": 1, "maxLength": 6}


def record(properties, required=None, **more):
    return {"type": "object", "properties": properties,
            "required": list(properties) if required is None else required,
            "additionalProperties": False, **more}


def listed(items, least=0, most=3):
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


EMOTIONS = ["愤怒", "喜悦", "悲伤", "平静"]
TREE = record({"name": WORD, "kids": listed({"$ref": "#/$defs/tree"}, most=2)})
CHAIN = record({"value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/chain"}, {"type": "null"}]}})
CAT = record({"kind": {"const": "猫"}, "lives": {"type": "integer", "minimum": 0, "maximum": 9}})
DOG = record({"kind": {"const": "狗"}, "good": {"type": "boolean"}})

CASES = {
    # Single values
    "string": TEXT,
    "string_of_length": {"type": "string", "minLength": 5, "maxLength": 8},
    "long_string": {"type": "string", "minLength": 60, "maxLength": 70},
    "empty_string": {"type": "string", "maxLength": 0},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "kinds": {"type": ["integer", "null", "boolean"]},
    "enum_chinese": {"enum": EMOTIONS},
    "enum_mixed": {"enum": ["a\"b", 1, -2.5, True, None, [1, "二"], {"k": {"深": []}}]},
    "enum_of_type": {"type": "string", "enum": ["x", 1, "y"]},
    "const": {"const": {"版本": 2, "on": [True, None]}},
    # Bounds
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "around_zero": {"type": "integer", "minimum": -17, "maximum": 203},
    "negative": {"type": "integer", "maximum": -1},
    "above": {"type": "integer", "exclusiveMinimum": 99},
    "half_bounds": {"type": "integer", "minimum": 1.5, "maximum": 12.5},
    "probability": {"type": "number", "minimum": 0, "maximum": 1},
    "open_probability": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "temperature": {"type": "number", "minimum": -273.15, "maximum": 1000.5},
    "tiny_range": {"type": "number", "minimum": 0.125, "maximum": 0.25},
    # Patterns and formats
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3,4}$"},
    "pattern_chinese": {"type": "string", "pattern": "^[一-龥]{2,4}$"},
    "pattern_escapes": {"type": "string", "pattern": "^(\"|\\\\|\\n|/|[^a-z]){1,6}$"},
    "date": {"type": "string", "format": "date"},
    "date_time": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"},
    "uuid": {"type": "string", "format": "uuid"},
    "ipv4": {"type": "string", "format": "ipv4"},
    # Lists
    "integers": listed({"type": "integer"}, 1, 4),
    "exactly_two": listed({"enum": EMOTIONS}, 2, 2),
    "nested_lists": listed(listed({"type": "boolean"}, 1, 2), 1, 2),
    "any_list": {"type": "array", "maxItems": 2, "items": {"type": ["null", "boolean"]}},
    # Objects
    "person": record({"name": WORD, "age": {"type": "integer", "minimum": 0, "maximum": 150}}),
    "chinese_keys": record({"名字": WORD, "心情": {"enum": EMOTIONS}, "可信度": {"type": "number", "minimum": 0, "maximum": 1}}),
    "optional": record({"a": {"type": "integer"}, "b": WORD, "c": {"type": "null"}}, ["b"]),
    "all_optional": record({"a": {"type": "boolean"}, "b": {"type": "boolean"}, "c": {"type": "null"}}, []),
    "odd_keys": record({"a\"b": {"type": "null"}, "c\\d\n": {"type": "null"}, "": {"type": "boolean"}, "😀": {"const": "😁"}}),
    "closed_empty": {"type": "object", "additionalProperties": False},
    "others": {"type": "object", "properties": {"id": {"type": "integer"}, "idea": {"type": "null"}},
               "required": ["id"], "additionalProperties": {"type": "boolean"}},
    "undeclared": {"type": "object", "required": ["x", "y"], "additionalProperties": {"type": "integer"}},
    "nested": record({"user": record({"id": {"type": "integer"}, "tags": listed(WORD, 0, 2)}),
                      "ok": {"type": "boolean"}}),
    "nullable": record({"note": {"anyOf": [WORD, {"type": "null"}], "default": None, "title": "Note"}}),
    # Combined
    "one_of": {"oneOf": [CAT, DOG]},
    "one_of_kinds": {"oneOf": [{"type": "integer"}, {"enum": ["无", "none"]}, {"type": "null"}]},
    "referred": {"$defs": {"Mood": {"enum": EMOTIONS}},
                 **record({"first": {"$ref": "#/$defs/Mood"}, "then": {"allOf": [{"$ref": "#/$defs/Mood"}]}})},
    "chain": {"$ref": "#/$defs/chain", "$defs": {"chain": CHAIN}},
    "tree": {"$ref": "#/$defs/tree", "$defs": {"tree": TREE}},
    "pets": {"$defs": {"cat": CAT, "dog": DOG},
             **record({"pets": listed({"anyOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}]}, 1, 2)})},
}
assert len(CASES) == 50

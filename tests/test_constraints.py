"""Replies that must have a form (docs/constraints.md): JSON schemas, regular expressions, choices. What
comes out whole is read by Python's json and judged by the jsonschema package, re by Python's re; the
program's own idea of a schema counts for nothing here."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import munia_process
import pytest
from munia_cli import json_lines
from munia_server import Server
from schema_cases import CASES

TINY = munia_process.MODELS / "qwen2-tied-bf16"
PATTERNS = [
    r"\d{4}-\d{2}-\d{2}", r"(?:是|否|不确定)", r"[一-龥]{2,5}[。！？]", r"^(?:\+86)?1[3-9]\d{9}$",
    r"#[0-9a-f]{6}|rgb\((?:\d{1,3},){2}\d{1,3}\)", r"[^\x00-\x7f]{1,4}", r"(a|b){3}c?", r"",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("constraints"), model=TINY) as server:
        yield server


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    model = munia_process.real_model("qwen2.5-coder-0.5b")
    with Server(tmp_path_factory.mktemp("real"), model=model) as server:
        yield server


def strict(text):
    """JSON without what Python's reader allows beyond it."""
    def refuse(constant):
        raise ValueError(constant)
    return json.loads(text, parse_constant=refuse)


def ask(server, text="用 JSON 回答。", **fields):
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 300} | fields
    response = server.post("/v1/chat/completions", body)
    assert response.status == 200, response.text
    return [(choice["message"]["content"], choice["finish_reason"]) for choice in response.json["choices"]]


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "case", "strict": True, "schema": schema}}


def judge(name, text):
    """Parses, validates; no white space but the one space behind a colon or a comma."""
    schema = CASES[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    value = strict(text)
    jsonschema.Draft202012Validator(schema).validate(value)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    assert not re.search(r"(?<![:,])\s|\s\s|[\t\n\r]", outside), text


@pytest.fixture(scope="module")
def bias():
    """A model of random weights ends few texts and lists by itself."""
    lines = [{"text": text} for text in ('"', "}", "]")]
    return {str(ids[0]): 5 for ids in munia_process.run("tokenize", "--jsonl", model=TINY, lines=lines)}


@pytest.mark.parametrize("name", CASES)
def test_fifty_schemas_parse_and_validate(tiny, bias, name):
    replies = ask(tiny, temperature=1, seed=7, n=8, logit_bias=bias,
                  response_format=schema_format(CASES[name]))
    whole = [text for text, reason in replies if reason == "stop"]
    assert len(whole) >= 4, replies
    for text in whole:
        judge(name, text)


def test_fifty_schemas_on_the_real_model(real):
    n_whole = 0
    for seed, name in enumerate(CASES):
        replies = ask(real, f"Give an example of {name.replace('_', ' ')} as JSON.", temperature=1, seed=seed,
                      n=2, max_tokens=120, response_format=schema_format(CASES[name]))
        for text, reason in replies:
            if reason == "stop":
                judge(name, text)
                n_whole += 1
    assert n_whole >= 90


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("temperature", [0, 1.5])
def test_expressions_match_as_pythons(tiny, pattern, temperature):
    for text, reason in ask(tiny, temperature=temperature, seed=3, n=4, guided_regex=pattern):
        assert reason == "stop" and re.fullmatch(pattern, text), text


def test_every_name_of_a_field_means_the_same(tiny):
    schema = {"enum": ["愤怒", "喜悦"]}
    spellings = [
        {"response_format": schema_format(schema)}, {"response_format": {"type": "json_object", "schema": schema}},
        {"guided_json": schema}, {"guided_json": json.dumps(schema)}, {"json_schema": schema},
        {"structured_outputs": {"json": schema}},
        {"response_format": {"type": "regex", "pattern": "\"(愤怒|喜悦)\""}}, {"guided_regex": "\"(愤怒|喜悦)\""},
        {"structured_outputs": {"regex": "\"(愤怒|喜悦)\""}}, {"guided_choice": ["\"愤怒\"", "\"喜悦\""]},
        {"structured_outputs": {"choice": ["\"愤怒\"", "\"喜悦\""]}},
    ]
    replies = {json.dumps(ask(tiny, temperature=1, seed=5, n=4, **fields)) for fields in spellings}
    assert len(replies) == 1
    for text, reason in json.loads(replies.pop()):
        assert reason == "stop" and text in ('"愤怒"', '"喜悦"')


def test_streams_completions_and_the_command_line_agree(tiny):
    schema, ids = CASES["chinese_keys"], list(range(60, 90))
    body = {"prompt": ids, "temperature": 1, "seed": 4, "max_tokens": 200}
    format_ = {"response_format": schema_format(schema)}
    whole = tiny.post("/v1/completions", body | format_).json["choices"][0]
    assert whole["finish_reason"] == "stop"
    judge("chinese_keys", whole["text"])
    events = tiny.post("/v1/completions", body | format_ | {"stream": True}).events
    assert "".join(e["choices"][0]["text"] for e in events[:-1]) == whole["text"]
    line = {"ids": ids, "temperature": 1, "seed": 4, "max_tokens": 200}
    (same,) = munia_process.run("generate", "--jsonl", model=TINY, lines=[line | {"json_schema": schema}])
    assert same["text"] == whole["text"]
    number, choice = munia_process.run("generate", "--jsonl", model=TINY, lines=[
        line | {"regex": r"\d{3}"}, line | {"choice": ["愤怒", "喜悦"]}])
    assert re.fullmatch(r"\d{3}", number["text"]) and choice["text"] in ("愤怒", "喜悦")


def test_a_reply_cut_short_says_so(tiny):
    ((text, reason),) = ask(tiny, max_tokens=4, response_format=schema_format(CASES["person"]))
    assert reason == "length" and text.startswith("{")


@pytest.mark.parametrize("fields, param, message", [
    ({"response_format": {"type": "json_schema"}}, "response_format", 'must have an object "json_schema"'),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, "response_format", "has no schema"),
    ({"response_format": schema_format({"type": "integer", "multipleOf": 3})}, "response_format",
     "the JSON schema at #/multipleOf: this keyword is not supported; leave it out"),
    ({"response_format": schema_format({"type": "object", "properties": {"a/b": {"not": {}}}})}, "response_format",
     "the JSON schema at #/properties/a~1b/not: this keyword"),
    ({"response_format": schema_format({"$ref": "#/$defs/none"})}, "response_format", "names nothing in the schema"),
    ({"response_format": schema_format({"$ref": "#"})}, "response_format", "refers to itself"),
    ({"response_format": schema_format({"oneOf": [{"type": "integer"}, {"type": "number"}]})}, "response_format",
     "may fulfil both schema 0 and schema 1"),
    ({"response_format": schema_format({"type": "integer", "minimum": 2, "maximum": 1})}, "response_format",
     "no text at all can fulfil it"),
    ({"response_format": schema_format({"enum": ["x" * 70000]})}, "response_format", "more than 65536 states"),
    ({"response_format": {"type": "regex"}}, "response_format", "must have its regular expression as a string"),
    ({"response_format": {"type": "xml"}}, "response_format", 'it must be "text", "json_object", "json_schema"'),
    ({"guided_json": "{"}, "guided_json", "the JSON schema is not JSON"),
    ({"guided_json": 3}, "guided_json", "a schema must be an object, true or false"),
    ({"guided_regex": "(?=a)b"}, "guided_regex", "at character 3 of the regular expression: look-around"),
    ({"guided_regex": "a{3,1}"}, "guided_regex", "limits the wrong way round"),
    ({"guided_regex": 3}, "guided_regex", "as a string"),
    ({"guided_choice": "a"}, "guided_choice", "as a list of strings"),
    ({"guided_grammar": "root ::= a"}, "guided_grammar", "is not supported"),
    ({"structured_outputs": {"grammar": "root ::= a"}}, "structured_outputs", "is not supported"),
    ({"structured_outputs": 3}, "structured_outputs", "must be an object"),
    ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice", "a second rule for the form of the reply"),
])
def test_what_cannot_be_kept_is_refused(tiny, fields, param, message):
    for path in ("/v1/chat/completions", "/v1/completions"):
        for stream in (False, True):
            body = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "stream": stream} | fields
            response = tiny.post(path, body)
            assert response.status == 400, response.text
            assert response.error["param"] == param and message in response.error["message"], response.text


def ways(n_levels, wrap):
    """Each level's two schemas may be either of the next level's: 2 ** n_levels ways to the last one."""
    levels = {f"{name}{i}": {"anyOf": [wrap({"$ref": f"#/$defs/{to}{i + 1}"}) for to in "pq"]}
              for i in range(n_levels) for name in "pq"}
    return {"$ref": "#/$defs/p0", "$defs": levels | {f"p{n_levels}": {"const": 1}, f"q{n_levels}": {"const": 2}}}


def listed(schema):
    return {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}


TWO = [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]
HEAVY = {
    "alternatives of nothing": ({"guided_regex": "(?:" + "|" * 4080 + "){10000}"}, "steps between states"),
    "lists that are read again and again": (
        {"response_format": schema_format({"oneOf": [{"anyOf": TWO[:1] * 2000}, {"anyOf": TWO[1:] * 2000}], "$defs": {
            "a": {"enum": [1] * 40000}, "b": {"enum": ["x"]}}})}, "may fulfil both"),
    "long values": (
        {"response_format": schema_format({
            "oneOf": [{"anyOf": TWO[:1] * 500}, {"anyOf": TWO[1:] * 500}],
            "$defs": {"a": {"const": [1] * 40000 + [2]}, "b": {"const": [1] * 40000 + [3]}}})}, "may fulfil both"),
}


@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize("stream", [False, True])
def test_what_would_take_very_long_is_refused_while_others_are_served(tiny, name, stream):
    fields, message = HEAVY[name]
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": stream, "max_tokens": 100}
    with ThreadPoolExecutor(4) as pool:
        heavy = [pool.submit(tiny.post, "/v1/chat/completions", body | fields) for _ in range(3)]
        beside = pool.submit(ask, tiny, max_tokens=8, guided_choice=["愤怒", "喜悦"])
        assert beside.result(timeout=60)[0][1] == "stop"
        for response in [future.result(timeout=60) for future in heavy]:
            assert response.status == 400, response.text
            assert message in response.error["message"], response.text
    assert ask(tiny, max_tokens=8, guided_choice=["愤怒", "喜悦"])[0][1] == "stop"


def test_many_ways_to_the_same_place_are_served(tiny):
    """The ways meet before a byte is read, so they are one."""
    ((text, reason),) = ask(tiny, response_format=schema_format(ways(40, lambda schema: schema)))
    assert reason == "stop" and text in ("1", "2")
    many = [{}] * 20000
    for schema in ({"enum": many}, {"anyOf": many[:1500]}):
        response = tiny.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20, "response_format": schema_format(schema)})
        assert response.status in (200, 400), response.text


def test_what_becomes_too_much_ends_its_own_reply(tiny):
    """The mistake shows only after tokens were drawn, and is told as the form's, whole or in a stream."""
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 400,
            "response_format": schema_format(ways(30, listed))}
    whole = tiny.post("/v1/chat/completions", body)
    assert whole.status == 400
    assert (whole.error["code"], whole.error["param"]) == ("unsupported_constraint", "response_format")
    error = tiny.post("/v1/chat/completions", body | {"stream": True}).events[-1]["error"]
    assert (error["code"], error["param"]) == ("unsupported_constraint", "response_format")
    named = tiny.post("/v1/chat/completions", body | {"response_format": None, "guided_json": ways(30, listed)})
    assert (named.error["code"], named.error["param"]) == ("unsupported_constraint", "guided_json")
    assert ask(tiny, max_tokens=8, guided_choice=["愤怒", "喜悦"])[0][1] == "stop"


@pytest.mark.parametrize("fields, message", [
    ({"json_schema": {"multipleOf": 3}}, "the JSON schema at #/multipleOf"),
    ({"regex": "("}, "at character 1 of the regular expression"), ({"choice": "a"}, "a list of strings"),
    ({"regex": "a", "choice": ["a"]}, "only one of"),
])
def test_the_command_line_refuses_by_line(munia, fields, message):
    error = munia.fails(4, "generate", "--jsonl", stdin=json_lines({"text": "hi"} | fields))
    assert "line 1: " in error and message in error

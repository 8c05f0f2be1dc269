"""OpenAI's API as its official Python client, LangChain and raw requests use it (demands.md part 2),
on the running service. Tiny model: shapes, streams, limits. Real model: the answers themselves."""

import json
import math

import munia_process
import openai
import pytest
from munia_server import Server

TINY = munia_process.MODELS / "qwen2-tied-bf16"
SENTENCE = "今天的实验终于成功了，太棒了！"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("openai"), model=TINY) as server:
        yield server


def openai_client(server):
    return openai.OpenAI(base_url=address(server), api_key="unused", max_retries=0)


def address(server):
    return f"http://127.0.0.1:{server.port}/v1"


@pytest.fixture(scope="module")
def client(tiny):
    with openai_client(tiny) as client:
        yield client


@pytest.fixture(scope="module")
def real_client(tmp_path_factory):
    model = munia_process.real_model("qwen2.5-coder-0.5b")
    with Server(tmp_path_factory.mktemp("real"), model=model) as server, openai_client(server) as client:
        yield client


def chat(client, text=SENTENCE, **fields):
    fields.setdefault("model", TINY.name)
    return client.chat.completions.create(messages=[{"role": "user", "content": text}], **fields)


def test_models(client):
    listed = client.models.list().data
    assert [model.id for model in listed] == [TINY.name]
    assert isinstance(listed[0].created, int) and listed[0].object == "model"
    assert client.models.retrieve(TINY.name).id == TINY.name
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("gpt-4o")
    assert refused.value.code == "model_not_found"


def test_addresses_without_v1_answer_too(tiny):
    assert tiny.get("/models").json["data"][0]["id"] == TINY.name
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    assert tiny.post("/chat/completions", body).json["object"] == "chat.completion"


def test_chat_has_the_shape_that_clients_check(client):
    reply = chat(client, max_tokens=5)
    assert reply.object == "chat.completion" and reply.model == TINY.name
    assert reply.id.startswith("chatcmpl-")
    assert reply.choices[0].message.role == "assistant"
    assert isinstance(reply.choices[0].message.content, str)
    assert reply.choices[0].finish_reason in ("stop", "length")
    usage = reply.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens <= 5
    assert usage.prompt_tokens_details.cached_tokens >= 0


@pytest.mark.parametrize("fields", [
    {"max_tokens": 3}, {"max_completion_tokens": 3},
    {"max_tokens": 50, "max_completion_tokens": 3}, {"max_tokens": 3, "max_completion_tokens": 50},
])
def test_both_names_of_the_limit_count(client, fields):  # demands.md row 21
    reply = chat(client, extra_body={"ignored_field": 1}, **fields)
    assert reply.usage.completion_tokens <= 3


def test_content_may_come_in_parts(client):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    reply = client.chat.completions.create(
        model=TINY.name, max_tokens=2,
        messages=[{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}])
    assert reply.choices[0].finish_reason


def test_a_stream_joins_to_the_whole_answer(client):
    whole = chat(client, max_tokens=24)
    chunks = list(chat(client, max_tokens=24, stream=True, stream_options={"include_usage": True}))
    assert len({chunk.id for chunk in chunks}) == 1 and len({chunk.created for chunk in chunks}) == 1
    assert all(chunk.object == "chat.completion.chunk" for chunk in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[0].choices[0].delta.content == ""
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    text = "".join(c.choices[0].delta.content or "" for c in chunks[:-1])
    assert text == whole.choices[0].message.content


def test_events_have_the_strictest_form(tiny):  # demands.md 4.5
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "stream": True}
    response = tiny.post("/v1/chat/completions", body)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert "\r" not in response.text and response.text.endswith("data: [DONE]\n\n")
    events = response.text.split("\n\n")[:-1]
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    chunks = [json.loads(event[6:]) for event in events[:-1]]
    assert all(chunk["choices"] for chunk in chunks), "no empty choices unless usage is asked for"
    assert chunks[-1]["choices"][0]["delta"] == {}


def test_logprobs_of_a_chat(client):
    reply = chat(client, max_tokens=8, logprobs=True, top_logprobs=3)
    content = reply.choices[0].logprobs.content
    assert len(content) == reply.usage.completion_tokens
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        # Greedy: the taken token is the likeliest.
        assert math.isclose(token.top_logprobs[0].logprob, token.logprob, abs_tol=1e-9)
    joined = b"".join(bytes(token.bytes) for token in content)
    assert joined.decode("utf-8", "replace").startswith(reply.choices[0].message.content[:1])
    chunks = chat(client, max_tokens=8, logprobs=True, top_logprobs=3, stream=True)
    streamed = [t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.content]
    assert streamed == content


def test_several_choices_differ_by_seed_and_repeat(client):
    fields = {"max_tokens": 12, "n": 3, "temperature": 1.5, "seed": 7}
    first, second = chat(client, **fields), chat(client, **fields)
    texts = [choice.message.content for choice in first.choices]
    assert [choice.index for choice in first.choices] == [0, 1, 2]
    assert len(set(texts)) > 1
    assert texts == [choice.message.content for choice in second.choices]
    streamed = ["", "", ""]
    for chunk in chat(client, stream=True, **fields):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts


def test_logit_bias_decides(client):
    (token,) = tiny_ids("x")
    reply = chat(client, max_tokens=3, logit_bias={str(token): 100})
    assert reply.choices[0].message.content == "xxx"


def tiny_ids(text):
    (ids,) = munia_process.run("tokenize", "--jsonl", model=TINY, lines=[{"text": text}])
    return ids


def test_stop_text_is_dropped(client):
    whole = chat(client, max_tokens=24).choices[0].message.content
    assert len(whole) > 3
    stop = whole[2:4]
    cut = chat(client, max_tokens=24, stop=[stop]).choices[0]
    assert cut.message.content == whole[: whole.index(stop)] and cut.finish_reason == "stop"
    for chunk in chat(client, max_tokens=24, stop=stop, stream=True):
        assert stop not in (chunk.choices[0].delta.content or "")


def test_json_object_parses(client):  # demands.md rows 39, 40
    n_whole = 0
    # A random model closes few strings and objects by itself.
    bias = {str(tiny_ids(text)[0]): 8 for text in ('"', "}", "]")}
    for seed in range(12):
        reply = chat(client, max_tokens=200, temperature=1, seed=seed, logit_bias=bias,
                     response_format={"type": "json_object"})
        if reply.choices[0].finish_reason == "stop":
            assert isinstance(json.loads(reply.choices[0].message.content), dict)
            n_whole += 1
    assert n_whole > 0


@pytest.mark.parametrize("extra", [
    {"guided_choice": ["愤怒", "喜悦"]},
    {"response_format": {"type": "choice", "choices": ["愤怒", "喜悦"]}},
])
def test_a_choice_is_one_of_the_list(client, extra):
    for seed in range(6):
        reply = chat(client, temperature=2, seed=seed, extra_body=extra)
        assert reply.choices[0].message.content in ("愤怒", "喜悦")
        assert reply.choices[0].finish_reason == "stop"


def test_beams_give_the_command_lines_texts(client, tiny):
    options = {"max_tokens": 12, "num_beams": 4, "length_penalty": 0.5, "early_stopping": "never"}
    for prompts in (["hello"], ["hello", "好"]):
        lines = [{"text": prompt, "n": 3, **options} for prompt in prompts]
        expected = munia_process.generate(TINY, lines)
        body = {"prompt": prompts, "n": 3, "stream": False, **options}
        reply = tiny.post("/v1/completions", body).json
        assert [choice["index"] for choice in reply["choices"]] == list(range(3 * len(prompts)))
        texts = [choice["text"] for result in expected for choice in result["choices"]]
        assert [choice["text"] for choice in reply["choices"]] == texts
        for key in ("prompt_tokens", "completion_tokens"):
            assert reply["usage"][key] == sum(result["usage"][key] for result in expected)
    message = [{"role": "user", "content": "hello"}]
    (line,) = munia_process.generate(TINY, [{"messages": message, **options}])
    chosen = chat(client, "hello", max_tokens=12, extra_body=options).choices
    assert [choice.message.content for choice in chosen] == [line["text"]]


@pytest.mark.parametrize("path, body, param", [
    ("/v1/chat/completions", {"num_beams": 17}, "num_beams"),
    ("/v1/chat/completions", {"num_beams": 2, "stream": True}, "num_beams"),
    ("/v1/chat/completions", {"num_beams": 2, "n": 3}, "num_beams"),
    ("/v1/chat/completions", {"num_beams": 2, "temperature": 1}, "num_beams"),
    ("/v1/chat/completions", {"num_beams": 2, "logprobs": True}, "logprobs"),
    ("/v1/chat/completions", {"num_beams": 2, "guided_choice": ["a", "b"]}, "num_beams"),
    ("/v1/chat/completions", {"num_beams": 2, "response_format": {"type": "json_object"}},
     "num_beams"),
    ("/v1/chat/completions", {"use_beam_search": True}, "use_beam_search"),
    ("/v1/chat/completions", {"best_of": 4}, "best_of"),
    ("/v1/chat/completions", {"max_tokens": 2, "min_tokens": 3}, "min_tokens"),
    ("/v1/completions", {"num_beams": 2, "stream": True}, "num_beams"),
    ("/v1/completions", {"num_beams": 2, "logprobs": 0}, "logprobs"),
    ("/v1/completions", {"use_beam_search": True, "n": 2}, "use_beam_search"),
    ("/v1/completions", {"best_of": 4, "n": 2}, "best_of"),
])
def test_what_beams_cannot_do_is_refused_by_name(tiny, path, body, param):
    prompt = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}
    reply = tiny.post(path, prompt | body)
    assert reply.status == 400 and reply.json["error"]["param"] == param, reply.text
    assert reply.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("fields, param", [
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"top_k": -2}, "top_k"), ({"seed": -2}, "seed"),
    ({"n": 0}, "n"), ({"n": 1000}, "n"), ({"temperature": -1}, "temperature"),
    ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": "5"}, "max_tokens"),
    ({"top_logprobs": 3}, "top_logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logit_bias": {"1": 101}}, "logit_bias"), ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"999999999": 1}}, "logit_bias"), ({"stop": [1]}, "stop"),
    ({"stream": "yes"}, "stream"), ({"messages": "hello"}, "messages"), ({"messages": []}, "messages"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages"),
    ({"response_format": {"type": "choice", "choices": []}}, "response_format"),
    ({"response_format": "json"}, "response_format"),
])
def test_what_cannot_be_done_is_refused_by_name(tiny, fields, param):  # demands.md row 23
    for stream in (False, True):
        body = {"messages": [{"role": "user", "content": "hi"}], "stream": stream} | fields
        response = tiny.post("/v1/chat/completions", body)
        assert response.status == 400, response.text
        assert response.json["error"]["param"] == param


def test_null_is_absent_and_unknown_fields_are_ignored(tiny):
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "stop": None,
            "tools": None, "logit_bias": None, "response_format": None, "n": None, "user": "u",
            "metadata": {"a": 1}, "store": False, "reasoning_effort": "low", "service_tier": "auto",
            "parallel_tool_calls": True, "prompt_cache_key": "k", "tool_choice": "none", "xyz": []}
    assert tiny.post("/v1/chat/completions", body).status == 200


def test_another_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as refused:
        chat(client, model="gpt-4o")
    assert refused.value.code == "model_not_found" and TINY.name in str(refused.value)


def test_a_prompt_beyond_the_context_is_400_before_any_header(tiny):
    body = {"messages": [{"role": "user", "content": "好" * 20000}], "stream": True}
    response = tiny.post("/v1/chat/completions", body)
    assert response.status == 400
    assert response.json["error"]["code"] == "context_length_exceeded"


def test_completions_take_every_form_of_prompt(client):
    ids = tiny_ids("hello")
    one = client.completions.create(model=TINY.name, prompt="hello", max_tokens=6)
    assert one.object == "text_completion" and one.id.startswith("cmpl-")
    for prompt in (["hello"], ids, [ids]):
        again = client.completions.create(model=TINY.name, prompt=prompt, max_tokens=6)
        assert again.choices[0].text == one.choices[0].text
    two = client.completions.create(model=TINY.name, prompt=["hello", "好"], max_tokens=6, n=2)
    assert [choice.index for choice in two.choices] == [0, 1, 2, 3]
    assert two.choices[0].text == two.choices[1].text == one.choices[0].text
    stream = client.completions.create(model=TINY.name, prompt="hello", max_tokens=6, stream=True)
    assert "".join(c.choices[0].text for c in stream) == one.choices[0].text


def test_echo_with_logprobs_scores_the_prompt(client):  # demands.md row 37
    ids = tiny_ids("hello world")
    reply = client.completions.create(model=TINY.name, prompt=ids, max_tokens=0, echo=True, logprobs=1)
    choice = reply.choices[0]
    assert choice.text == "hello world"
    assert len(choice.logprobs.tokens) == len(ids)
    assert choice.logprobs.token_logprobs[0] is None and choice.logprobs.top_logprobs[0] is None
    assert choice.logprobs.text_offset[0] == 0
    (scored,) = munia_process.score(TINY, [{"ids": ids[:1], "continuations": [ids[1:]]}])
    total = sum(choice.logprobs.token_logprobs[1:])
    assert math.isclose(total, scored["logprobs"][0], abs_tol=1e-6)


def test_many_choices_come_in_order_and_log_probabilities_have_a_limit(client, tiny):
    many = client.completions.create(model=TINY.name, prompt=["a", "b", "c"], n=16, max_tokens=2,
                                     temperature=1, seed=-1, extra_body={"top_k": -1})
    assert [choice.index for choice in many.choices] == list(range(48))
    body = {"prompt": [[5] * 1000] * 20, "echo": True, "logprobs": 20, "max_tokens": 0}
    refused = tiny.post("/v1/completions", body)
    assert refused.status == 400 and refused.json["error"]["param"] == "logprobs"


def test_echo_comes_before_the_new_text(client):
    plain = client.completions.create(model=TINY.name, prompt="hello", max_tokens=4)
    echoed = client.completions.create(model=TINY.name, prompt="hello", max_tokens=4, echo=True)
    assert echoed.choices[0].text == "hello" + plain.choices[0].text
    stream = client.completions.create(model=TINY.name, prompt="hello", max_tokens=4, echo=True,
                                       stream=True)
    assert "".join(c.choices[0].text for c in stream) == echoed.choices[0].text


def test_langchain(tiny):
    langchain_openai = pytest.importorskip("langchain_openai")
    model = langchain_openai.ChatOpenAI(base_url=address(tiny), api_key="unused", model=TINY.name,
                                        max_tokens=8, temperature=0, max_retries=0)
    reply = model.invoke(SENTENCE)
    assert reply.response_metadata["finish_reason"] in ("stop", "length")
    assert reply.usage_metadata["output_tokens"] <= 8
    assert "".join(chunk.content for chunk in model.stream(SENTENCE)) == reply.content
    assert [r.content for r in model.batch([SENTENCE, SENTENCE])] == [reply.content] * 2
    biased = model.bind(logprobs=True, top_logprobs=2).invoke(SENTENCE)
    assert len(biased.response_metadata["logprobs"]["content"]) == biased.usage_metadata["output_tokens"]


def test_the_real_model_answers(real_client):
    name = real_client.models.list().data[0].id
    messages = [{"role": "system", "content": "你是一个温暖、简洁、有同理心的助手。"},
                {"role": "user", "content": SENTENCE}]
    reply = real_client.chat.completions.create(model=name, messages=messages, max_tokens=40)
    text = reply.choices[0].message.content
    assert len(text) >= 4 and "<|" not in text
    stream = real_client.chat.completions.create(model=name, messages=messages, max_tokens=40,
                                                 stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in stream) == text


def test_the_real_model_keeps_to_a_choice(real_client):
    name = real_client.models.list().data[0].id
    for text, expected in ((SENTENCE, "喜悦"), ("气死我了，又被骗了！", "愤怒")):
        reply = real_client.chat.completions.create(
            model=name, extra_body={"guided_choice": ["愤怒", "喜悦"]},
            messages=[{"role": "user", "content": f"这句话是愤怒还是喜悦？只回答一个词。\n{text}"}])
        assert reply.choices[0].message.content == expected


def test_the_real_model_writes_json(real_client):
    name = real_client.models.list().data[0].id
    reply = real_client.chat.completions.create(
        model=name, response_format={"type": "json_object"}, max_tokens=120,
        messages=[{"role": "user", "content": "用 JSON 写出一本书的 title 和 year。"}])
    assert reply.choices[0].finish_reason == "stop"
    assert isinstance(json.loads(reply.choices[0].message.content), dict)

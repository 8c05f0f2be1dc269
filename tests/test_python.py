"""The Python package: results, kinds, errors. What it computes must be the same bytes as from the
command line and the service, whose numbers are compared with the reference elsewhere."""

import hashlib
import inspect
import json
import re

import numpy as np
import pytest
from munia_cli import Munia, json_lines
from munia_process import GOLDENS, MODELS, TinyGolden, hash_of
from munia_server import Server
from python_package import QWEN

import munia

TEXTS = ["今天的实验终于成功了，太棒了！", "糟糕，又失败了。", "It is fine.", "😀 é\n\t中文", "<|im_end|>好"]
MESSAGES = [{"role": "system", "content": "简短回答。"}, {"role": "user", "content": "你好<|im_end|>"}]


@pytest.fixture(scope="module")
def model():
    with munia.Model(QWEN) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    return Munia(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


def test_tokenize_and_render_as_the_program(model, cli):
    for flags, special in (((), False), (("--special",), True)):
        lines = cli.lines("tokenize", "--jsonl", *flags,
                          stdin=json_lines(*({"text": text} for text in TEXTS)))
        assert [model.tokenize(text, special=special) for text in TEXTS] == lines
    assert model.tokenize("<|im_end|>") != model.tokenize("<|im_end|>", special=True)
    for text in TEXTS:
        assert model.detokenize(model.tokenize(text)) == text
        assert model.detokenize(np.array(model.tokenize(text))) == text
    assert model.detokenize(model.tokenize("<|im_end|>好", special=True), skip_special=True) == "好"
    (line,) = cli.lines("render", stdin=json_lines({"messages": MESSAGES}))
    rendered = model.render(MESSAGES, add_generation_prompt=False)
    assert line == {"text": rendered.text, "ids": rendered.ids} or line == {
        "text": model.render(MESSAGES).text, "ids": model.render(MESSAGES).ids}
    assert model.render(MESSAGES).text.startswith(rendered.text)


@pytest.mark.parametrize("settings", [
    {},
    {"max_tokens": 7, "repetition_penalty": 1.3},
    {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.01, "seed": 11},
    {"presence_penalty": 0.5, "frequency_penalty": 0.25, "stop": ["C"]},
])
def test_generate_as_the_program(model, cli, settings):
    requests = [{"text": text, "max_tokens": 32, **settings} for text in TEXTS]
    requests.append({"ids": [5, 6, 7], "max_tokens": 32, **settings})
    lines = cli.lines("generate", "--jsonl", stdin=json_lines(*requests))
    for request, line in zip(requests, lines, strict=True):
        prompt = request.get("text") or np.array(request["ids"])
        options = {key: value for key, value in request.items() if key not in ("text", "ids")}
        done = model.generate(prompt, **options)
        assert (done.text, done.ids, done.finish_reason) == (
            line["text"], line["ids"], line["finish_reason"])
        assert done.usage.completion_tokens == line["usage"]["completion_tokens"]
        assert done.first_token_ms <= done.total_ms
        with model.generate(prompt, stream=True, **options) as stream:
            assert "".join(stream) == done.text
        assert stream.result.ids == done.ids


PERSON = {"type": "object", "properties": {"名": {"enum": ["小明", "小红"]}, "n": {"type": "integer", "maximum": 99}},
          "required": ["名", "n"], "additionalProperties": False}


@pytest.mark.parametrize("settings", [
    {"num_beams": 4},
    {"num_beams": 3, "num_return_sequences": 3, "length_penalty": 0.5, "early_stopping": True},
    {"num_beams": 2, "early_stopping": "never", "length_penalty": -1},
    {"json_schema": PERSON},
    {"regex": r"[a-z]{3,20}\.", "temperature": 0.9, "seed": 3},
    {"choice": ["愤怒", "喜悦"]},
    {"min_tokens": 20},
])
def test_beams_and_forms_as_the_program(model, cli, settings):
    requests = [{"text": text, "max_tokens": 24, **settings} for text in TEXTS]
    given = dict(settings)
    returned = given.pop("num_return_sequences", 1)  # the program's name of it is n
    lines = cli.lines("generate", "--jsonl", stdin=json_lines(
        *({"text": text, "max_tokens": 24, **given} | ({"n": returned} if returned > 1 else {}) for text in TEXTS)))
    for request, line in zip(requests, lines, strict=True):
        options = {key: value for key, value in request.items() if key != "text"}
        done = model.generate(request["text"], **options)
        texts = line.get("choices", [line])
        assert (done.text, done.finish_reason) == (texts[0]["text"], texts[0]["finish_reason"])
        if "num_beams" not in settings:
            assert done.beams == []
            continue
        assert done.ids == done.beams[0].ids and done.text == done.beams[0].text
        assert [beam.text for beam in done.beams] == [one["text"] for one in texts]
        assert [beam.score for beam in done.beams] == sorted((beam.score for beam in done.beams), reverse=True)
    if "json_schema" in settings:
        value = json.loads(model.chat(TEXTS[0], json_schema=json.dumps(PERSON), max_tokens=64).text)
        assert value["名"] in ("小明", "小红") and value["n"] <= 99


@pytest.mark.parametrize("settings, kind, message", [
    ({"num_beams": 2, "temperature": 1}, ValueError, "temperature"),
    ({"num_beams": 2, "num_return_sequences": 3}, ValueError, "3"),
    ({"num_beams": 2, "stream": True}, ValueError, "cannot be streamed"),
    ({"num_beams": 2, "regex": "a"}, ValueError, "num_beams 1"),
    ({"num_beams": 1.5}, TypeError, "num_beams must be an integer"),
    ({"num_beams": 2, "early_stopping": "soon"}, ValueError, "never"),
    ({"json_schema": {"type": "text"}}, ValueError, "#/type"),
    ({"json_schema": "{"}, ValueError, "JSON"),
    ({"regex": "a(b"}, ValueError, "lacks its"),
    ({"regex": b"a"}, TypeError, "regex must be str"),
    ({"choice": []}, ValueError, "choice"),
    ({"choice": "a"}, TypeError, "choice must be a list"),
    ({"choice": ["a"], "regex": "a"}, ValueError, "one form"),
    ({"min_tokens": 99, "max_tokens": 9}, ValueError, "min_tokens is 99"),
])
def test_wrong_beams_and_forms(model, settings, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        model.generate("好", **settings)
    with pytest.raises(TypeError, match="there is no setting 'regex'"):
        model.predict("好", regex="a")


def test_a_fetched_model_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("MUNIA_HOME", str(tmp_path))
    cli = Munia(tmp_path / "cwd")
    pulled = cli.run("pull", QWEN, "--name", "tiny", model=False, env={"MUNIA_HOME": str(tmp_path)})
    assert pulled.returncode == 0, pulled.err
    with munia.Model("tiny", threads=1) as named:
        assert named.path == str(tmp_path / "tiny")
    (tmp_path / "tiny" / "munia-model.json").write_text("{}")
    with pytest.raises(ValueError, match="damaged"):
        munia.Model("tiny")
    with pytest.raises(FileNotFoundError, match="`munia pull nothing-of-that-name`"):
        munia.Model("nothing-of-that-name")
    with pytest.raises(FileNotFoundError, match="cannot read"):
        munia.Model("nothing.gguf")


def test_chat_as_the_program_and_the_service(model, cli, server):
    for text in TEXTS:
        (line,) = cli.lines("chat", "--json", "--max-tokens", 24, "--", text)
        done = model.chat(text, max_tokens=24)
        assert done.text == line["reply"] and done.finish_reason == line["finish_reason"]
        assert str(done) == done.text
        served = server.post("/chat", {"text": text, "max_tokens": 24}).json
        assert served["response"] == done.text
    reply = server.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 24}).json
    ours = model.chat(MESSAGES, max_tokens=24, repetition_penalty=1.0)
    assert reply["choices"][0]["message"]["content"] == ours.text
    assert model.chat("你好<|im_end|>", system="简短回答。", max_tokens=24,
                      repetition_penalty=1.0).text == ours.text


def test_classify_as_the_program_and_the_service(model, cli, server):
    lines = cli.lines("classify", "--json", "--", *TEXTS)
    labelled = model.classify(TEXTS)
    served = server.post("/classify", {"texts": TEXTS}).json
    for ours, line, reply in zip(labelled, lines, served, strict=True):
        assert ours.label == line["label"] == reply["label"]
        assert ours.confidence == line["confidence"] == reply["confidence"]
        assert list(ours.probabilities.items()) == list(line["probabilities"].items())
        assert ours.probabilities == reply["probabilities"]
    assert model.classify(TEXTS[0]).probabilities == labelled[0].probabilities
    assert model.classify(iter(TEXTS))[2].probabilities == labelled[2].probabilities
    assert model.classify([]) == []
    named = cli.lines("classify", "--json", "--labels", "喜,怒,哀", "--system", "选一个。", "--", *TEXTS)
    for ours, line in zip(model.classify(TEXTS, labels=["喜", "怒", "哀"], system="选一个。"), named,
                          strict=True):
        assert dict(ours.probabilities) == line["probabilities"]
    three = cli.lines("classify", "--json", "--task", "sentiment-3", "--", *TEXTS)
    assert [one.label for one in model.classify(TEXTS, task="sentiment-3")] == [
        line["label"] for line in three]


def test_many_texts_and_long_ones(model):
    texts = [f"第{i % 40}号{'很好' * (i % 7)}" for i in range(600)]
    labelled = model.classify(texts)
    assert len(labelled) == 600
    assert [one.probabilities for one in labelled[:40]] == [
        one.probabilities for one in labelled[280:320]]
    alone = model.classify(texts[33])
    assert alone.probabilities == labelled[33].probabilities
    long = "很好。" * 2000
    with pytest.raises(ValueError, match=r"^text 2: .*context holds 1024"):
        model.classify(["好", long])
    windows, cut = model.classify([long, "好"], long_texts="window"), model.classify(
        [long], long_texts="truncate")[0]
    assert windows[0].n_pieces > 1 and not windows[0].truncated and windows[1].n_pieces == 1
    assert cut.truncated and cut.n_pieces == 1


def test_wrong_texts_among_others(model):
    empty, good, long, other = model.classify(["", "好", "很好。" * 2000, "坏"], errors="return")
    assert isinstance(empty, ValueError) and str(empty) == "the text is empty"
    assert isinstance(long, ValueError) and "context holds 1024" in str(long)
    alone = model.classify(["好", "坏"])
    assert [good.probabilities, other.probabilities] == [one.probabilities for one in alone]
    assert model.classify([], errors="return") == []
    with pytest.raises(TypeError, match="^text 2 must be str"):
        model.classify(["好", None], errors="return")
    with pytest.raises(ValueError, match="^errors is 'ignore'"):
        model.classify(["好"], errors="ignore")


def test_predict_as_the_program_and_the_service(model, cli, server):
    for text in TEXTS:
        (line,) = cli.lines("predict", "--json", "--max-tokens", 16, "--", text)
        done = model.predict(text, max_tokens=16)
        assert (done.emotion, done.reply, done.finish_reason) == (
            line["emotion"], line["reply"], line["finish_reason"])
        assert dict(done.probabilities) == line["probabilities"]
        assert done.usage.prompt_tokens == line["usage"]["prompt_tokens"]
        served = server.post("/predict", {"text": text, "max_tokens": 16}).json
        assert (served["emotion"], served["reply"]) == (done.emotion, done.reply)
    (line,) = cli.lines("predict", "--json", "--max-tokens", 16, "--num-beams", 3, "--", TEXTS[0])
    assert model.predict(TEXTS[0], max_tokens=16, num_beams=3).reply == line["reply"]
    alone = model.predict(TEXTS[0], reply=False)
    assert alone.reply is None and alone.emotion == model.classify(TEXTS[0]).label
    shared = cli.lines("predict", "--json", "--prompt", "shared", "--max-tokens", 4, "--", TEXTS[0])[0]
    assert dict(model.predict(TEXTS[0], prompt="shared", max_tokens=4).probabilities) == (
        shared["probabilities"])


def test_score_as_the_program(model, cli):
    continuations = ["好", "坏了", "fine", [7, 8]]
    requests = [{"prompt": text, "continuations": continuations} for text in TEXTS]
    lines = cli.lines("score", "--jsonl", stdin=json_lines(*requests))
    for text, line in zip(TEXTS, lines, strict=True):
        scores = model.score(text, continuations)
        assert scores.dtype == np.float64 and scores.tolist() == line["logprobs"]


def test_logits_as_the_program(model, cli, tmp_path):
    lines = cli.lines("logits", "--jsonl", stdin=json_lines(*({"text": text} for text in TEXTS)))
    for text, line in zip(TEXTS, lines, strict=True):
        row = model.logits(text)
        assert row.dtype == np.float32 and row.shape == (model.info.vocab_size,)
        assert hash_of(row) == line["hash"] and int(row.argmax()) == line["argmax"]
        rows = model.logits(model.tokenize(text), all=True)
        assert rows.shape == (len(model.tokenize(text)), model.info.vocab_size)
        assert rows[-1].tobytes() == row.tobytes()
        row[0] = 7  # the array is the caller's own
        assert hash_of(model.logits(text)) == line["hash"]
    path = tmp_path / "all.npy"
    cli.lines("logits", "--jsonl", "--all", path, stdin=json_lines({"text": TEXTS[0]}))
    assert np.load(path).tobytes() == model.logits(TEXTS[0], all=True).tobytes()


@pytest.mark.parametrize("name", ["qwen2-tied-bf16", "llama-tied-bf16", "qwen2-tied-q4_0"])
def test_hidden_states_as_the_reference(name):
    """Against transformers' hidden states in float64; the figure is the error of torch's float32."""
    golden = TinyGolden(GOLDENS / "tiny" / name)
    truth = golden.array("hidden_f64")  # [n_layers + 2, n_tokens, hidden_dim]
    torch = golden.array("hidden_f32")
    with munia.Model(MODELS / golden.json["models"][0]) as one:
        ids = golden.json["prompts"][0]
        layers = one.hidden_layers(ids, range(one.info.n_layers + 1))
        for layer, states in enumerate(layers):
            assert states.dtype == np.float32 and states.shape == truth[layer].shape
            error = np.abs(states - truth[layer]).max()
            scale = np.abs(truth[layer]).max()
            assert error <= max(8 * np.abs(torch[layer] - truth[layer]).max(), 1e-5 * scale), layer
        assert one.hidden(ids).tobytes() == layers[-1].tobytes()
        assert one.hidden(ids, -2).tobytes() == layers[-2].tobytes()
        assert one.hidden(ids, 0).tobytes() == layers[0].tobytes()
        twice = one.hidden_layers(ids, [1, 1, -1])
        assert twice[0].tobytes() == twice[1].tobytes() == layers[1].tobytes()


def test_arrays_of_ids(model):
    ids = model.tokenize(TEXTS[0])
    wanted = model.logits(ids).tobytes()
    for kind in (np.int32, np.int64, np.uint16):
        assert model.logits(np.array(ids, kind)).tobytes() == wanted
    assert model.logits(tuple(ids)).tobytes() == wanted
    assert model.logits(np.array(ids * 2)[::2][: len(ids)] * 0 + ids).tobytes() == wanted


def test_info(model):
    info = model.info
    assert (info.name, info.architecture, info.n_layers, info.vocab_size) == (
        "qwen2-tied-bf16", "qwen2", 2, 400)
    assert "qwen2-tied-bf16" in repr(model) and model.path == str(QWEN)
    assert munia.Model(QWEN, threads=1).info.threads == 1
    assert munia.Model(QWEN, context=64).info.context == 64
    assert munia.Model(MODELS / "qwen2-tied-bf16.gguf", weights="int8").info.weights != info.weights


def test_packed_models(model, cli, tmp_path):
    packed = tmp_path / "m.munia"
    assert cli.run("pack", packed).returncode == 0 or cli.run("pack", "-o", packed).returncode == 0
    wanted = hashlib.sha256(model.logits(TEXTS[0]).tobytes()).digest()
    for options in ({}, {"map_packed": True}, {"verify": True}):
        with munia.Model(packed, **options) as one:
            assert hashlib.sha256(one.logits(TEXTS[0]).tobytes()).digest() == wanted


@pytest.mark.parametrize("call, kind, words", [
    (lambda m: m.tokenize(5), TypeError, "the text must be str, not int"),
    (lambda m: m.generate(""), ValueError, "the prompt is empty"),
    (lambda m: m.generate([]), ValueError, "the prompt has no tokens"),
    (lambda m: m.generate([1, 2.5]), TypeError, "the prompt must hold integers, not float"),
    (lambda m: m.generate(np.array([1.0])), TypeError, "must hold integers"),
    (lambda m: m.generate(np.array([[1, 2]])), TypeError, "must hold integers, not .*ndarray"),
    (lambda m: m.generate([10**30]), ValueError, "no token id"),
    (lambda m: m.generate([-1]), ValueError, "no token id"),
    (lambda m: m.generate([400]), ValueError, "token id 400 .* outside 0 to 399"),
    (lambda m: m.generate(5), TypeError, "a list or an array of ids, not int"),
    (lambda m: m.generate(b"abc"), TypeError, "not bytes"),
    (lambda m: m.generate("a" * 5000), ValueError, "the context holds 1024"),
    (lambda m: m.generate("\ud800"), UnicodeEncodeError, "surrogates"),
    (lambda m: m.generate("a", max_tokens=0), ValueError, "max_tokens is 0"),
    (lambda m: m.generate("a", max_tokens=2**70), ValueError, "max_tokens is 1180"),
    (lambda m: m.generate("a", max_tokens=1.5), TypeError, "max_tokens must be an integer, not float"),
    (lambda m: m.generate("a", max_tokens="5"), TypeError, "not str"),
    (lambda m: m.generate("a", temperature=float("nan")), ValueError, "temperature is nan"),
    (lambda m: m.generate("a", temperature="1"), TypeError, "temperature must be a number, not str"),
    (lambda m: m.generate("a", top_p=0), ValueError, "top_p"),
    (lambda m: m.generate("a", top_k=-1), ValueError, "top_k is -1"),
    (lambda m: m.generate("a", seed=-1), ValueError, "seed is -1"),
    (lambda m: m.generate("a", logit_bias={400: 1}), ValueError, "400"),
    (lambda m: m.generate("a", stop=[5]), TypeError, "stop must be str"),
    (lambda m: m.generate("a", tempreature=1), TypeError, "no setting 'tempreature'"),
    (lambda m: m.chat([{"role": "user"}]), ValueError, "content"),
    (lambda m: m.generate("a", stop=["\ud800"]), UnicodeEncodeError, "surrogates"),
    (lambda m: m.chat("\ud800"), UnicodeEncodeError, "surrogates"),
    (lambda m: m.classify(["a"], labels=["\ud800", "b"]), UnicodeEncodeError, "surrogates"),
    (lambda m: m.chat(5), TypeError, "messages must be"),
    (lambda m: m.chat([5]), TypeError, "messages must be"),
    (lambda m: m.chat([{"role": "user", "content": {1, 2}}]), TypeError, "set"),
    (lambda m: m.render("a", bad=float("nan")), ValueError, "JSON"),
    (lambda m: m.classify(["好", ""]), ValueError, "^text 2: the text is empty"),
    (lambda m: m.classify(["好", None]), TypeError, "^text 2 must be str, not NoneType"),
    (lambda m: m.classify(5), TypeError, "iterable"),
    (lambda m: m.classify(["好"], task="nope"), ValueError, "there is no task"),
    (lambda m: m.classify(["好"], task="nope.toml"), FileNotFoundError, "nope.toml"),
    (lambda m: m.classify(["好"], labels=["a"]), ValueError, "at least two labels"),
    (lambda m: m.classify(["好"], labels="ab"), TypeError, "not one str"),
    (lambda m: m.classify(["好"], labels=["a", "b"], task="sentiment"), ValueError, "not both"),
    (lambda m: m.classify(["好"], system="x"), ValueError, "system needs labels"),
    (lambda m: m.classify(["好"], long_texts="drop"), ValueError, "long_texts is \"drop\""),
    (lambda m: m.predict(""), ValueError, "the text is empty"),
    (lambda m: m.predict("a", prompt="both"), ValueError, "prompt is \"both\""),
    (lambda m: m.score("a", []), ValueError, "no continuations"),
    (lambda m: m.score("a", ["b", ""]), ValueError, "continuation 2 is empty"),
    (lambda m: m.hidden("a", 3), ValueError, "layer 3 is outside -3 to 2"),
    (lambda m: m.hidden_layers("a", []), ValueError, "layers is empty"),
    (lambda m: m.detokenize([399]), ValueError, "outside the vocabulary"),
    (lambda m: m.learn(["a"], ["x"]), ValueError, "at least two labels"),
    (lambda m: m.learn(["a", "b"], ["x", "y"]), ValueError, "at least 8"),
    (lambda m: m.learn(["a", "b"], ["x"]), ValueError, "at least two labels|each text needs one"),
    (lambda m: m.learn(["a"], ["x"], task="sentiment"), ValueError, "none of the task's"),
    (lambda m: m.learn(["a", "b"], ["x", "y"], recipe="best"), ValueError, "recipe is \"best\""),
])
def test_errors_of_requests(model, call, kind, words):
    with pytest.raises(kind, match=words) as caught:
        call(model)
    assert type(caught.value) is kind
    assert model.generate("a", max_tokens=1)  # the model goes on


@pytest.mark.parametrize("path, options, kind, words", [
    ("none.gguf", {}, FileNotFoundError, "none.gguf"),
    (".", {}, FileNotFoundError, "config.json"),
    ("broken.gguf", {}, munia.ModelError, "broken.gguf"),
    (QWEN, {"weights": "int2"}, ValueError, "int2"),
    (QWEN, {"weights": ""}, ValueError, "weights is empty"),
    (QWEN, {"threads": 0}, ValueError, "threads is 0"),
    (QWEN, {"threads": "2"}, TypeError, "threads must be an integer, not str"),
    (QWEN, {"context": 10**9}, ValueError, "1000000000"),
    (QWEN, {"cpus": [4000]}, ValueError, "CPU 4000"),
    (QWEN, {"isa": "mmx"}, ValueError, "mmx"),
    (QWEN, {"max_sequences": 0}, ValueError, "max_sequences is 0"),
    (b"m.gguf", {}, TypeError, "not bytes"),
    ("a\0b", {}, ValueError, "null character"),
    ("\udcff.gguf", {}, FileNotFoundError, "gguf"),
    (5, {}, TypeError, "PathLike"),
])
def test_errors_of_loading(tmp_path, path, options, kind, words):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + b"\xff" * 64)
    with pytest.raises(kind, match=words) as caught:
        munia.Model(tmp_path / path if isinstance(path, str) else path, **options)
    assert type(caught.value) is kind
    assert issubclass(munia.ModelError, RuntimeError)


def test_tasks(model, tmp_path):
    task = munia.Task.find("sentiment")
    assert task is munia.Task.find("sentiment")
    assert (task.name, task.labels, task.method) == ("sentiment", ["正面", "负面"], "score")
    path = tmp_path / "mine.toml"
    munia.Task.from_labels(["好", "坏"], system="选一个。").save(path, name="mine")
    read = munia.Task.find(path)
    assert (read.name, read.labels) == ("mine", ["好", "坏"]) and "mine" in repr(read)
    wanted = [one.probabilities for one in
              model.classify(TEXTS, labels=["好", "坏"], system="选一个。")]
    for same in (read, path, str(path)):
        assert [one.probabilities for one in model.classify(TEXTS, task=same)] == wanted
    with pytest.raises(ValueError, match="must end in .toml"):
        task.save(tmp_path / "mine.txt")
    with pytest.raises(OSError, match="cannot write"):
        task.save(tmp_path / "no" / "mine.toml")
    path.write_text("labels = 5\n")
    with pytest.raises(ValueError, match="line 1"):
        munia.Task.find(path)
    for i in range(40):  # more tasks than a model keeps prepared
        model.classify("好", task=munia.Task.from_labels([f"甲{i}", f"乙{i}"]))
    assert model.classify("好").label in ("正面", "负面")


def test_everything_public_is_documented():
    for name in munia.__all__:
        thing = getattr(munia, name)
        if not inspect.isclass(thing):
            continue
        assert thing.__doc__, name
        for member, value in vars(thing).items():
            if not member.startswith("_") and callable(value) and thing in (
                    munia.Model, munia.Stream):
                assert inspect.getdoc(value), f"{name}.{member}"

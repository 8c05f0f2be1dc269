"""What goes wrong: each fault ends in one clear sentence and the exit status of the contract."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from munia_cli import QWEN, QWEN_GGUF, environment, json_lines


# --- models (3) -----------------------------------------------------------------------------


def test_path_that_does_not_exist(munia, tmp_path):
    missing = tmp_path / "no" / "model.gguf"
    assert str(missing) in munia.fails(3, "predict", "--model", missing, "hi", model=False)


@pytest.mark.parametrize("n_bytes", [0, 3, 24, 1000, -100])
def test_cut_off_gguf(munia, tmp_path, n_bytes):
    path = tmp_path / "cut.gguf"
    path.write_bytes(QWEN_GGUF.read_bytes()[:n_bytes])
    munia.fails(3, "predict", "--model", path, "hi", model=False)


def test_cut_off_safetensors(munia, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(QWEN, path)
    weights = path / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    munia.fails(3, "predict", "--model", path, "hi", model=False)


def test_not_a_model(munia, tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("this is no model\n" * 100)
    munia.fails(3, "predict", "--model", path, "hi", model=False)
    (tmp_path / "empty").mkdir()
    munia.fails(3, "predict", "--model", tmp_path / "empty", "hi", model=False)


def test_memory_limit_shows_the_arithmetic(munia):
    error = munia.fails(3, "predict", "--max-memory", "1M", "hi", model=False,
                        env={"MUNIA_MODEL": str(QWEN)})
    parts = {name: float(size) * {"KiB": 1 / 1024, "MiB": 1}[unit] for name, size, unit in re.findall(
        r"(is too small: weights|KV of one context|scratch|=) ([\d.]+) (KiB|MiB)", error)}
    assert len(parts) == 4
    assert sum(parts.values()) - parts["="] == pytest.approx(parts["="], abs=0.1)
    assert munia.run("predict", "--no-reply", "--max-memory", "1G", "好").returncode == 0


# --- usage (2) ------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, word", [
    (["predict", "--foo", "hi"], "--foo"),
    (["predict", "--threads", "0", "hi"], "--threads 0"),
    (["predict", "--threads", "many", "hi"], "many"),
    (["predict", "--threads"], "--threads"),
    (["predict", "--task", "no-such-task", "hi"], "no-such-task"),
    (["predict", "--labels", "one", "hi"], "label"),
    (["predict", "--weights", "int2", "hi"], "int8"),
    (["predict", "--weights", "int3", "hi"], "int3"),
    (["predict", "--isa", "mmx", "hi"], "mmx"),
    (["predict", "--max-memory", "much", "hi"], "much"),
    (["predict", "--prefix-cache", "much", "hi"], "much"),
    (["predict", "--context", "1", "hi"], "--context 1"),
    (["predict", "--max-tokens", "0", "hi"], "--max-tokens 0"),
    (["predict", "--lang", "fr", "hi"], "fr"),
    (["predict"], "no text"),
    (["predict", "-i", "reviews.csv"], "classify reads files"),
    (["classify", "-i", "reviews.doc"], ".csv"),
    (["classify", "-i", "reviews.csv", "hi"], "not both"),
    (["classify", "-i", "reviews.csv", "-o", "out.txt"], "out.txt"),
    (["classify", "-i", "reviews.csv", "-o", "out.csv", "--long", "cut"], "--long cut"),
    (["classify", "-i", "reviews.csv", "--resume"], "-o OUT"),
    (["classify", "--resume", "hi"], "--resume"),
    (["classify", "-i", "-", "--format", "xls"], "--format xls"),
    (["chat", "one", "two"], "two"),
    (["generate", "--temperature", "-1", "hi"], "-1"),
    (["generate", "--num-beams", "33", "hi"], "--num-beams 33"),
    (["generate", "--num-beams", "2", "-n", "3", "hi"], "n is 3"),
    (["generate", "--num-beams", "2", "--temperature", "1", "hi"], "temperature"),
    (["generate", "--num-beams", "2", "--length-penalty", "11", "hi"], "--length-penalty 11"),
    (["generate", "--early-stopping", "soon", "hi"], "soon"),
    (["generate", "--max-tokens", "4", "--min-tokens", "5", "hi"], "min_tokens is 5"),
    (["predict", "--num-beams", "0", "hi"], "--num-beams 0"),
    (["predict", "--early-stopping", "soon", "hi"], "soon"),
    (["generate"], "TEXT"),
    (["generate", "--top-p", "0", "hi"], "top_p"),
    (["eval"], "FILE"),
])
def test_usage(munia, arguments, word):
    assert word in munia.fails(2, *arguments)


@pytest.mark.parametrize("command", ["quantise", "nonsense"])
def test_unknown_command_lists_what_exists(munia, command):
    error = munia.fails(2, command, model=False)
    assert command in error and "predict" in error and "bench" in error


def test_no_command_at_all(munia):
    result = subprocess.run([munia.command("x")[0]], capture_output=True, text=True,
                            env=environment(munia.home))
    assert result.returncode == 2 and result.stdout == "" and "predict" in result.stderr


def test_bad_environment_and_config_name_their_place(munia, tmp_path):
    assert "MUNIA_THREADS" in munia.fails(2, "predict", "hi", env={"MUNIA_THREADS": "0"})
    config = tmp_path / "c.toml"
    config.write_text("threads = 0\n")
    assert str(config) in munia.fails(2, "predict", "hi", "--config", config)
    config.write_text("threads = \n")
    error = munia.fails(3, "predict", "hi", "--config", config)
    assert str(config) in error and "line 1" in error
    config.write_text("\n\ntreads = 2\n")
    error = munia.fails(3, "predict", "hi", "--config", config)
    assert "treads" in error and "line 3" in error
    assert "none.toml" in munia.fails(3, "predict", "hi", "--config", tmp_path / "none.toml")


# --- input (4) ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "   ", "\n"])
@pytest.mark.parametrize("command", ["predict", "classify"])
def test_empty_text(munia, command, text):
    assert "empty" in munia.fails(4, command, text)


@pytest.mark.parametrize("command", ["predict", "classify", "chat"])
def test_hundred_thousand_characters(munia, command):
    text = "今天的实验终于成功了。" * 9091
    assert len(text) > 100_000
    # A command-line argument holds 128 KiB at most; standard input takes it whole.
    if command == "chat":
        error = munia.fails(4, command, stdin=text)
    else:
        error = munia.fails(4, command, "-i", "-", stdin=text)
    numbers = [int(word.strip(";,")) for word in error.split() if word.strip(";,").isdigit()]
    assert len(numbers) >= 2 and max(numbers) > 10_000, error


def test_long_prompt_of_generate_names_both_numbers(munia):
    error = munia.fails(4, "generate", "--jsonl", stdin=json_lines({"ids": [20] * 100_000}))
    assert "100001" in error and "1024" in error and "line 1" in error


@pytest.mark.parametrize("data, words", [
    (b"good\n\xff\xfe\x00bad\n", ["line 2"]),
    (b"good\nab\xffcd\n", ["line 2", "byte 2", "byte 7", "gb18030"]),
    (bytes(range(256)) * 40, ["line 1", "binary"]),
    (b"\x7fELF\x02\x01\x01" + b"\0" * 100, ["line 1", "binary"]),
])
def test_binary_junk(munia, data, words):
    for command in ("tokenize", "classify"):
        arguments = ["-i", "-"] if command == "classify" else []
        error = munia.fails(4, command, *arguments, stdin=data)
        assert all(word in error for word in words), error


def test_lines_before_a_broken_one_are_answered(munia):
    result = munia.run("classify", "--json", "-i", "-", stdin=b"good\n\xff\n")
    assert result.returncode == 4
    assert [json.loads(line)["text"] for line in result.out.split("\n") if line] == ["good"]


def test_line_longer_than_the_limit(munia):
    error = munia.fails(4, "tokenize", stdin=b"a" * ((16 << 20) + 1))
    assert "16777216" in error


def test_argument_that_is_not_utf8(munia):
    result = subprocess.run([os.fsencode(part) for part in munia.command("predict")] + [b"ab\xff"],
                            capture_output=True, env=environment(munia.home))
    assert result.returncode == 4 and b"byte 2" in result.stderr


@pytest.mark.parametrize("line, word", [
    ("{", "not valid JSON"),
    ('{"text": "a"} x', "not valid JSON"),
    ("[" * 1000, "not valid JSON"),
    ("[1]", "JSON object"),
    ("{}", "exactly one of"),
    ('{"text": "a", "ids": [1]}', "exactly one of"),
    ('{"text": 5}', "must be a string"),
    ('{"text": ""}', "empty"),
    ('{"ids": []}', "empty"),
    ('{"ids": [1, -1]}', "token ids"),
    ('{"ids": [1.5]}', "token ids"),
    ('{"ids": [100000000]}', "100000000"),
    ('{"text": "a", "max_tokens": 0}', "max_tokens"),
    ('{"text": "a", "max_tokens": 1e999}', "max_tokens"),
    ('{"text": "a", "temperature": "hot"}', "temperature"),
    ('{"text": "a", "temperature": 1e999}', "temperature"),
    ('{"text": "a", "top_p": 0}', "top_p"),
    ('{"text": "a", "num_beams": 33}', "num_beams"),
    ('{"text": "a", "num_beams": 2, "n": 3}', "n is 3"),
    ('{"text": "a", "num_beams": 2, "temperature": 1}', "temperature"),
    ('{"text": "a", "num_beams": 2, "length_penalty": 1e9}', "length_penalty"),
    ('{"text": "a", "num_beams": 2, "early_stopping": "soon"}', "early_stopping"),
    ('{"text": "a", "max_tokens": 4, "min_tokens": 5}', "min_tokens"),
    ('{"text": "a", "stop": 1}', "stop"),
    ('{"text": "a", "n": 1000}', '"n"'),
    ('{"text": "\\ud800"}', "not valid JSON"),
    ('{"messages": 5}', ""),
    ('{"messages": []}', ""),
])
def test_bad_json_line(munia, line, word):
    good = '{"text": "今天", "max_tokens": 1}\n\n'
    result = munia.run("generate", "--jsonl", stdin=good + line + "\n")
    assert result.returncode == 4, (result.returncode, result.err)
    assert "line 3" in result.err and word in result.err
    assert result.out.count("\n") == 1, "the good line before it has its answer"


def test_bad_lines_of_the_other_commands(munia):
    assert "line 1" in munia.fails(4, "score", stdin='{"prompt": "a"}')
    assert "line 1" in munia.fails(4, "score", stdin='{"prompt": "a", "continuations": [""]}')
    assert "line 1" in munia.fails(4, "detokenize", stdin="[1, 999999]")
    assert "line 2" in munia.fails(4, "detokenize", stdin='[20]\n{"x": 1}')
    assert "line 1" in munia.fails(4, "render", stdin='{"x": 1}')
    assert "line 2" in munia.fails(4, "logits", "--all", "/dev/null",
                                   stdin=json_lines({"text": "a"}, {"text": "b"}))


def test_eval_files(munia, tmp_path):
    munia.fails(3, "eval", tmp_path / "none.csv")
    path = tmp_path / "x.csv"
    path.write_text("label,text\n正面,好\n")
    assert "review" in munia.fails(4, "eval", path)
    path.write_text("label,review\n五星,好\n")
    assert "五星" in munia.fails(4, "eval", path)
    munia.fails(2, "eval", tmp_path / "x.pdf")


# --- output, signals, sockets -----------------------------------------------------------------


def test_closed_standard_output(munia):
    result = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *munia.command("classify", "好")],
                            capture_output=True, env=environment(munia.home))
    assert result.returncode == 1 and b"standard output" in result.stderr


def test_full_disk(munia):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        result = subprocess.run(munia.command("classify", "好"), stdout=full,
                                stderr=subprocess.PIPE, env=environment(munia.home))
    assert result.returncode == 1 and b"standard output" in result.stderr


def test_reader_that_goes_away(munia):
    process = subprocess.Popen(munia.command("generate", "--jsonl"), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment(munia.home))
    process.stdout.close()
    try:
        process.stdin.write(json_lines(*[{"text": "今天", "max_tokens": 4}] * 200).encode())
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert process.wait(60) == 0
    assert process.stderr.read() == b""


def test_interrupt_leaves_complete_lines(munia):
    """SIGINT while many generations run: status 130, and what is printed is whole lines."""
    process = subprocess.Popen(munia.command("generate", "--jsonl", "--threads", "1"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment(munia.home))
    request = json_lines({"ids": [20, 21], "max_tokens": 200})
    process.stdin.write(request.encode() * 100)
    process.stdin.flush()  # and stays open: the program can't be done
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(60) == 130
    for line in (first + rest).splitlines(keepends=True):
        assert line.endswith(b"\n")
        json.loads(line)


def test_interrupt_ends_a_streamed_line(munia):
    process = subprocess.Popen(munia.command("predict", "-i", "-", "--max-tokens", "100"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=environment(munia.home))
    process.stdin.write("好\n".encode())
    process.stdin.flush()
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(60) == 130 and rest.endswith(b"\n")


def test_no_network_is_needed(munia):
    """Runs in a network namespace without any interface: nothing may try to leave the machine."""
    probe = subprocess.run(["unshare", "-rn", "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("unshare -n is not permitted here: " + probe.stderr.decode().strip())
    result = subprocess.run(["unshare", "-rn", *munia.command("predict", "--json", "--max-tokens",
                                                              "4", "好")],
                            capture_output=True, env=environment(munia.home))
    assert result.returncode == 0, result.stderr
    json.loads(result.stdout)


def test_no_socket_is_opened(munia):
    """While a model is loaded and answers, the process has no socket among its descriptors."""
    process = subprocess.Popen(munia.command("generate", "--jsonl"), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env=environment(munia.home))
    process.stdin.write(json_lines({"text": "好", "max_tokens": 2}).encode())
    process.stdin.flush()
    process.stdout.readline()
    descriptors = f"/proc/{process.pid}/fd"
    targets = [os.readlink(os.path.join(descriptors, fd)) for fd in os.listdir(descriptors)]
    process.stdin.close()
    assert process.wait(60) == 0
    assert not any(target.startswith("socket:") for target in targets), targets


def test_pull_offline_fails_before_any_socket(munia):
    error = munia.fails(3, "pull", "--offline", "smollm2-135m-instruct", model=False)
    assert "offline" in error

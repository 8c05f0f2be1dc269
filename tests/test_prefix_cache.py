"""The prefix cache through the program: cached_tokens as users see them, and answers that do not
depend on it. The rules of the cache itself are tested in src/engine/prefix_cache_test.cpp and
tests/engine_test.cpp."""

import json
import subprocess

import pytest

import munia_process
from munia_cli import QWEN, Munia, environment, json_lines

INSTRUCTION = ("你是一家书店的客服助手，说话温和、简短、具体。先用一句话复述客人的意思，再给出一个可以马上去做的建议。"
               "不要许诺赔偿，不要编造订单号，不要透露其他客人的信息；遇到退货、换货和快递丢失的问题，请客人把订单号和照片发到"
               "店里的邮箱，并说明两个工作日内会有人回复。客人生气时先道歉，再处理；客人高兴时表示感谢，并推荐一本同类的书。"
               "如果客人问的是书的内容，只谈前三章，不透露结局；如果客人问的事情与书店无关，就礼貌地说明你只能回答书店的问题。"
               "会员每月可以换书两次，生日当月全场九折，满九十九元包邮；偏远地区的快递要多等三到五天，节假日顺延。"
               "店里周一休息，其余日子上午十点开门，晚上八点关门；读书会在每月最后一个星期六的下午，不收费，但要提前报名。"
               "回答用中文，不超过三句话，不用表情符号，也不用列表。")
TITLE = "请为下面的对话起一个不超过十个字的标题，只输出标题本身，不要引号，也不要句号。"


class OneByOne:
    """`munia generate` that answers a line before the next one is written."""

    def __init__(self, home, model, *flags):
        munia = Munia(home, model)
        self.process = subprocess.Popen(
            munia.command("generate", "--jsonl", *flags), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=environment(home))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()

    def ask(self, **request):
        self.process.stdin.write(json_lines(request).encode())
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def chat(*contents):
    roles = ["system"] + ["user", "assistant"] * len(contents)
    return [{"role": role, "content": content} for role, content in zip(roles, contents)]


def check_conversations(home, model, instruction, real):
    """Demands rows 8 and 9. Returns the replies."""
    with OneByOne(home, model) as munia:
        first = munia.ask(messages=chat(instruction, "书到了，很喜欢！"), max_tokens=12)
        assert first["usage"]["cached_tokens"] == 0
        second = munia.ask(messages=chat(instruction, "快递丢了。"), max_tokens=12)
        prompt = second["usage"]["prompt_tokens"]
        assert second["usage"]["cached_tokens"] >= min(190, prompt - 20)  # row 8
        assert second["usage"]["cached_tokens"] < prompt

        title = munia.ask(messages=chat(TITLE, "书到了，很喜欢！"), max_tokens=12)
        turn = munia.ask(messages=chat(instruction, "书到了，很喜欢！", first["text"], "还有同类的吗？"),
                         max_tokens=12)
        # Row 9: the prompt, and the reply as far as its text comes back as the same tokens.
        n_prompt, n_reply = first["usage"]["prompt_tokens"], first["usage"]["completion_tokens"]
        assert turn["usage"]["cached_tokens"] >= n_prompt + (n_reply - 1 if real else 0)
        again = munia.ask(messages=chat(instruction, "书到了，很喜欢！"), max_tokens=12)
        assert again["usage"]["cached_tokens"] == again["usage"]["prompt_tokens"] - 1
        assert again["text"] == first["text"]
    return [answer["text"] for answer in (first, second, title, turn)]


def test_conversations(tmp_path):
    check_conversations(tmp_path, QWEN, INSTRUCTION[:80], real=False)


def test_real_conversations(tmp_path):
    model = munia_process.real_model("qwen2.5-coder-0.5b")
    replies = check_conversations(tmp_path, model, INSTRUCTION, real=True)
    with OneByOne(tmp_path, model, "--prefix-cache", "off") as munia:
        cold = [munia.ask(messages=chat(INSTRUCTION, "书到了，很喜欢！"), max_tokens=12),
                munia.ask(messages=chat(INSTRUCTION, "快递丢了。"), max_tokens=12)]
        assert cold[1]["usage"]["prompt_tokens"] > 200
        assert cold[1]["usage"]["cached_tokens"] == 0
        assert [answer["text"] for answer in cold] == replies[:2]


@pytest.mark.parametrize("flags", [("--prefix-cache", "off"), ("--kv-cache", "off"),
                                   ("--prefix-cache", "20K"), ("--prefix-cache", "1G"),
                                   ("--prefix-cache", "20K", "--prefill-chunk", "5")])
def test_answers_do_not_depend_on_it(munia, flags):
    stem = "今天下雨，我们没有出门。"
    requests = [{"text": stem * (1 + i % 4) + str(i % 3), "max_tokens": 9, "seed": i,
                 "temperature": 0.7 * (i % 2)} for i in range(12)]

    def answers(*flags):
        return [{key: row[key] for key in ("ids", "text", "finish_reason")}
                for row in munia.lines("generate", "--jsonl", *flags, stdin=json_lines(*requests))]

    assert answers(*flags) == answers()
    usages = [row["usage"] for row in munia.lines("generate", "--jsonl", *flags,
                                                  stdin=json_lines(*requests))]
    assert any(usage["cached_tokens"] for usage in usages) == ("off" not in flags)


def test_settings(munia, tmp_path):
    for value in ("lots", "-1", "2Q"):
        assert value in munia.fails(2, "predict", "--prefix-cache", value, "hi")
    config = tmp_path / "config.toml"
    config.write_text("prefix_cache = false\n")
    rows = {row["key"]: row for row in munia.lines("config", "--json", "--config", config)}
    assert (rows["prefix_cache"]["value"], rows["prefix_cache"]["origin"]) == ("off", "config file")
    assert "--prefix-cache" in munia.run("predict", "--help").out


# --- predict --prompt shared -----------------------------------------------------------------

TEXT = "今天的实验终于成功了，太棒了！大家忙了一个月，晚上一起去吃火锅庆祝。"


def check_shared_prompt(munia, n_text):
    """The reply is that of separate prompts; the text is computed once."""
    (separate,) = munia.lines("predict", "--json", "--max-tokens", "8", TEXT)
    (shared,) = munia.lines("predict", "--json", "--max-tokens", "8", "--prompt", "shared", TEXT)
    assert shared["reply"] == separate["reply"]
    assert list(shared) == list(separate)
    assert shared["usage"]["cached_tokens"] >= n_text
    assert separate["usage"]["cached_tokens"] < n_text
    return shared


def test_shared_prompt(munia):
    ids = munia.run("tokenize", stdin=TEXT).out
    check_shared_prompt(munia, len(json.loads(ids)))
    (row,) = munia.lines("predict", "--json", "--no-reply", "--prompt", "shared", "--labels",
                         "愤怒,喜悦", TEXT)
    assert list(row["probabilities"]) == ["愤怒", "喜悦"]


def test_real_shared_prompt(tmp_path):
    munia = Munia(tmp_path, munia_process.real_model("qwen2.5-coder-0.5b"))
    ids = json.loads(munia.run("tokenize", stdin=TEXT).out)
    shared = check_shared_prompt(munia, len(ids))
    assert shared["emotion"] == "正面"
    (bad,) = munia.lines("predict", "--json", "--no-reply", "--prompt", "shared",
                         "排队两个小时，饭菜还是凉的，再也不来了。")
    assert bad["emotion"] == "负面"


def test_shared_prompt_usage(munia):
    assert "--prompt both" in munia.fails(2, "predict", "--prompt", "both", "hi")
    assert "sentiment-raw" in munia.fails(2, "predict", "--prompt", "shared", "--task",
                                          "sentiment-raw", "hi")

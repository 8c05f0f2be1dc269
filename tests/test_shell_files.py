"""`munia describe`, and the manual pages and completions that are made from it: every command and flag
of the help stands in each of them, and bash completes with them."""

import gzip
import json
import re
import shutil
import subprocess
import sys

import pytest

from munia_cli import BIN, LLAMA_GGUF, ROOT, Munia, environment
from package_root import checked, describe

sys.path.insert(0, str(ROOT / "tools"))
import make_completions  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(description, folder with the pages and completions)."""
    out = tmp_path_factory.mktemp("shell")
    for language in ("en", "zh"):
        (out / f"{language}.json").write_text(json.dumps(describe(language)), encoding="utf-8")
    checked(ROOT / "tools" / "make_man.py", out / "en.json", out / "zh.json", out / "man")
    checked(ROOT / "tools" / "make_completions.py", out / "en.json", out)
    return describe(), out


def flags_of(command):
    return [name for option in command["options"] for name in option["names"]]


def test_description_is_the_help(munia):
    description = describe()
    program, *commands = description["commands"]
    listed = re.split(r"\n\S*[Cc]ommands:\n", munia.run("--help", model=False).out)[-1]
    assert re.findall(r"^  ([a-z]+) ", listed, re.M) == [command["name"] for command in commands]
    for command in description["commands"]:
        arguments = [command["name"]] if command["name"] else []
        text = munia.run(*arguments, "--help", model=False).out
        heads = re.findall(r"^  (-\S+)", text, re.M)
        # The help shows the common flags last.
        options = sorted(command["options"], key=lambda option: option["common"])
        assert [",".join(option["names"]) for option in options] == heads
        for option in command["options"]:
            assert option["help"] in text
            assert f"{','.join(option['names'])} {option['value']}".strip() in text
        for argument in command["arguments"]:
            assert re.search(rf"^  {argument['name']}\b.*{re.escape(argument['help'])}", text, re.M)
    assert "describe" not in munia.run("--help", model=False).out
    assert "describe" not in munia.fails(2, "nothing-of-this-name", model=False)


def test_description_in_chinese():
    english, chinese = describe("en"), describe("zh")
    assert [c["name"] for c in english["commands"]] == [c["name"] for c in chinese["commands"]]
    for one, other in zip(english["commands"], chinese["commands"]):
        assert one["help"] != other["help"] and flags_of(one) == flags_of(other)


@pytest.mark.parametrize("name", ["munia.bash", "_munia", "munia.fish"])
def test_completions_list_everything(made, name):
    description, out = made
    text = (out / name).read_text(encoding="utf-8")
    program, *commands = description["commands"]
    for command in commands:
        assert re.search(rf"\b{command['name']}\b", text), command["name"]
        for flag in flags_of(command):
            shown = flag
            if name == "munia.fish":
                shown = f" -l {flag[2:]} " if flag.startswith("--") else f" -s {flag[1:]} "
            assert shown in text, (command["name"], flag)
    for task in description["tasks"]:
        assert task in text
    for model in description["models"]:
        assert model in text


def complete(out, home, *words):
    """What bash offers for the last word."""
    script = (f"source {out}/munia.bash\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$(($# - 1))\n_munia\n"
              "printf '%s\\n' \"${COMPREPLY[@]}\"\n")
    variables = environment(home)
    variables["PATH"] = f"{BIN.parent}:{variables['PATH']}"
    result = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], capture_output=True, text=True,
                            env=variables, cwd=home)
    # compopt complains outside of a real completion; the script hides that.
    assert result.returncode == 0 and not result.stderr, result.stderr
    return result.stdout.split()


def test_bash_completes(made, tmp_path):
    description, out = made
    program, *commands = description["commands"]
    offered = complete(out, tmp_path, "munia", "")
    assert set(offered) == {command["name"] for command in commands} | set(flags_of(program))
    assert complete(out, tmp_path, "munia", "se") == ["serve"]
    for command in commands:
        assert set(complete(out, tmp_path, "munia", command["name"], "-")) == set(flags_of(command))
    assert complete(out, tmp_path, "munia", "serve", "--por") == ["--port"]
    assert complete(out, tmp_path, "munia", "predict", "--por") == []
    assert complete(out, tmp_path, "munia", "predict", "--kv-cache", "") == ["on", "off"]
    assert complete(out, tmp_path, "munia", "predict", "--kv-cache", "=", "of") == ["off"]
    assert complete(out, tmp_path, "munia", "--lang", "zh", "serve", "--log-format", "j") == ["json"]
    assert complete(out, tmp_path, "munia", "serve", "--port", "") == []
    assert complete(out, tmp_path, "munia", "predict", "") == [], "a text is the user's own"
    assert set(complete(out, tmp_path, "munia", "pull", "q")) == \
        {model for model in description["models"] if model.startswith("q")}
    (tmp_path / "rows of mine.csv").touch()
    assert complete(out, tmp_path, "munia", "eval", "rows") == ["rows", "of", "mine.csv"]
    assert "sentiment-3" in complete(out, tmp_path, "munia", "serve", "--task", "sentiment-")


def test_bash_offers_the_models_of_this_machine(made, tmp_path):
    _, out = made
    named = Munia(tmp_path, model=None).run("pull", "--offline", "--name", "mine", LLAMA_GGUF)
    assert named.returncode == 0, named.err
    assert complete(out, tmp_path, "munia", "rm", "") == ["mine"]
    assert complete(out, tmp_path, "munia", "predict", "--model", "mi") == ["mine"]


def test_values_of_flags():
    description = {"tasks": ["sentiment"]}
    kinds = make_completions.kinds_of_value
    assert kinds("N", description) == () and kinds("BYTES|off", description) == ("off",)
    assert kinds("utf-8|gb18030", description) == ("utf-8", "gb18030")
    assert kinds("FILE|-", description) == ("files",) and kinds("A,B,…", description) == ()
    assert kinds("NAME|FILE", description) == ("sentiment", "files")
    assert make_completions.short("a; b (c) [8]") == "a"


def plain(path, width=200):
    """The page as `man` shows it, without bold."""
    # The width from the environment: piped, man would take 80 columns.
    result = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", path], capture_output=True, text=True,
                            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MANWIDTH": str(width)})
    assert result.returncode == 0 and not result.stderr, result.stderr
    return re.sub(r".\x08", "", result.stdout)


@pytest.mark.parametrize("folder", ["man1", "zh_CN/man1"])
def test_manual_pages_hold_everything(made, folder):
    description, out = made
    pages = out / "man" / folder
    for command in description["commands"]:
        name = f"munia-{command['name']}" if command["name"] else "munia"
        text = gzip.decompress((pages / f"{name}.1.gz").read_bytes()).decode("utf-8")
        for option in command["options"]:
            if not command["name"] or not option["common"]:
                for flag in option["names"]:
                    assert make_man_escaped(flag) in text, (name, flag)
    main = gzip.decompress((pages / "munia.1.gz").read_bytes()).decode("utf-8")
    for command in description["commands"][1:]:
        assert f"munia {command['name']}" in main
    for setting in description["settings"]:
        assert setting["environment"] in main


def make_man_escaped(text):
    return text.replace("-", "\\-")


def test_manual_pages_are_shown_as_written(made):
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man and groff are not installed")
    description, out = made
    for page in sorted((out / "man").rglob("*.gz")):
        assert plain(page).strip()
    text = plain(out / "man" / "man1" / "munia-serve.1.gz", 500)
    serve = next(command for command in description["commands"] if command["name"] == "serve")
    for option in serve["options"]:
        if not option["common"]:
            assert option["help"] in text
            assert f"{', '.join(option['names'])} {option['value']}".strip() in text
    assert "读取" in plain(out / "man" / "zh_CN" / "man1" / "munia.1.gz")


def test_same_description_same_bytes(made, tmp_path):
    _, out = made
    checked(ROOT / "tools" / "make_man.py", out / "en.json", out / "zh.json", tmp_path)
    for page in tmp_path.rglob("*.gz"):
        assert page.read_bytes() == (out / "man" / page.relative_to(tmp_path)).read_bytes()

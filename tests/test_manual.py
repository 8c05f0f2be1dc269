"""The manual (docs/, docs/zh/) and the READMEs: what they show runs and prints what they say, both languages
have the same, links lead somewhere, and nothing of the program is left out. manual.py tells how blocks are
run; those that need the Python package run in test_python_manual.py."""

import html.parser
import json
import re
import shutil
import subprocess
import sys
from urllib.parse import unquote, urlparse

import pytest
from manual import (DOCS, RUN, SHOWN, Block, Session, blocks_of, commands_of, english_pages, read_options,
                    without_comments)
from munia_cli import BIN
from munia_process import ROOT, real_model

sys.path.insert(0, str(ROOT / "tools"))
import make_reference  # noqa: E402

READMES = [ROOT / "README.md", ROOT / "README.zh.md"]
PAGES = english_pages()
ALL_PAGES = [*PAGES, *sorted((DOCS / "zh").glob("*.md")), *READMES]
VENV = ROOT / "build" / "venv-docs" / "bin" / "python"


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def runs_here(block):
    return block.is_run and (block.language != "python" or "client" in block.options) or "file" in block.options


def needs_real(page):
    return page in READMES or any("real" in block.options and runs_here(block) for block in blocks_of(page))


@pytest.fixture(scope="session")
def packed(tmp_path_factory):
    """The real model as a packed file, which each command of a page loads at once."""
    source = real_model("qwen2.5-coder-0.5b")
    path = tmp_path_factory.mktemp("packed") / "qwen2.5-coder-0.5b-packaged.munia"
    subprocess.run([BIN, "pack", "--model", source, "-o", path], check=True, capture_output=True)
    return path


def run_page(page, tmp_path, request):
    model = request.getfixturevalue("packed") if needs_real(page) else None
    wrong = []
    with Session(tmp_path, model) as session:
        if page in READMES:  # its reviews have no labels yet
            reviews = session.work / "reviews.csv"
            lines = reviews.read_text(encoding="utf-8").splitlines()
            reviews.write_text("".join(line.split(",")[0] + "\n" for line in lines), encoding="utf-8")
        for block in blocks_of(page):
            if page in READMES:
                block.options.setdefault("real", "")
            if runs_here(block):
                try:
                    session.run(block)
                except AssertionError as error:
                    wrong.append(str(error))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", [*PAGES, READMES[0]], ids=name_of)
def test_what_a_page_shows(page, tmp_path, request):
    """Every block of the English page; the Chinese one has the same blocks (test_same_blocks)."""
    if not any(runs_here(block) for block in blocks_of(page)):
        assert page.name in {"architectures.md", "decisions.md", "index.md", "limits.md", "operations.md",
                             "python.md", "reference.md", "scale.md"}, "a page without examples"
        return
    run_page(page, tmp_path, request)


SKIPPED = [block for page in [*PAGES, READMES[0]] for block in blocks_of(page) if "skip" in block.options]


@pytest.mark.parametrize("block", SKIPPED, ids=lambda block: block.place)
def test_what_is_not_run(block):
    """What can be known of a block that is not run: its files exist, Python compiles, and the reason is told."""
    assert block.options["skip"], f"{block.place}: skipped without a reason"
    for path in re.findall(r"(?<![\w./-])(?:tools|tests|bench|deploy)/[\w./-]+", block.code):
        assert (ROOT / path).exists(), f"{block.place}: {path} does not exist"
    if block.language == "python":
        compile(block.code, block.place, "exec")
    pytest.skip(f"not run: {block.options['skip']}")


# ---- Both languages -----------------------------------------------------------------------------


def chinese(page):
    return ROOT / "README.zh.md" if page == READMES[0] else DOCS / "zh" / page.name


PAIRS = pytest.mark.parametrize(
    "page", [*PAGES, READMES[0]], ids=name_of)


def test_both_languages_are_complete():
    assert {page.name for page in PAGES} == {page.name for page in (DOCS / "zh").glob("*.md")}


@PAIRS
def test_same_blocks(page):
    """The same code, comments aside, with the same marks: so running one language runs both."""
    if page.name == "reference.md":
        return  # the program's own words (test_reference_is_current)
    ours, theirs = blocks_of(page), blocks_of(chinese(page))
    assert [(b.language, without_comments(b)) for b in ours] == [(b.language, without_comments(b)) for b in theirs]
    assert [b.options for b in ours] == [b.options for b in theirs]


def shape(page):
    """Levels of headings, and sizes of tables, lists left out: sentences may be cut otherwise."""
    text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    shape, rows = [], 0
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows += 1
            continue
        if rows:
            shape.append(f"table of {rows}")
            rows = 0
        if heading := re.match(r"#+ ", line):
            shape.append(heading.group())
    return shape


@PAIRS
def test_same_shape(page):
    assert shape(page) == shape(chinese(page))


def test_chinese_pages_are_chinese():
    for page in (DOCS / "zh").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        paragraphs = re.sub(r"^(`{3,}).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE).split("\n\n")
        for paragraph in paragraphs:
            words = re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>|\|[^\n]*", "", paragraph)
            if len(words) > 120:
                assert re.search(r"[\u4e00-\u9fff]", words), f"{name_of(page)}: {paragraph[:200]}"


# ---- Nothing is left out ------------------------------------------------------------------------


def test_every_command_has_a_section_and_an_example():
    page = DOCS / "commands.md"
    text = page.read_text(encoding="utf-8")
    headings = " ".join(re.findall(r"^## (.*)$", text, re.MULTILINE))
    run = "\n".join(block.code for block in blocks_of(page) if runs_here(block))
    for command in make_reference.commands_of(BIN):
        assert f"`{command}`" in headings, f"{command} has no section"
        assert re.search(rf"munia {command}\b", run), f"{command} has no example that runs"


def test_every_route_is_named():
    """By the lines that add routes to the service's router."""
    routes = set()
    for source in (ROOT / "src" / "server").glob("*.cpp"):
        if source.name.endswith(("_test.cpp", "_fuzz.cpp")):
            continue
        text = source.read_text(encoding="utf-8")
        routes |= {(method, path.replace("*", "{id}")) for method, path in
                   re.findall(r'router\.add\(\s*\{"(\w+)", (?:prefix \+ )?"([^"]+)"', text)}
    assert len(routes) >= 14, routes
    page = (DOCS / "http.md").read_text(encoding="utf-8")
    openai = {"/models", "/models/{id}", "/chat/completions", "/completions"}
    for method, path in routes:
        shown = f"/v1{path}" if path in openai else path
        assert f"`{method} {shown}`" in page, f"{method} {shown} is not on docs/http.md"


def test_every_setting_is_named(munia):
    rows = (DOCS / "settings.md").read_text(encoding="utf-8")
    for line in munia.lines("config", "--json", model=False):
        key = line["key"]
        assert f"| `{key}` |" in rows and f"`MUNIA_{key.upper()}`" in rows, key


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reference_is_current(language):
    assert make_reference.page(language).read_text(encoding="utf-8") == make_reference.reference(
        BIN, language), "run tools/make_reference.py"


def test_flags_exist():
    """Every flag that follows `munia COMMAND` anywhere in a block is one of that command's."""
    helps = {name: make_reference.help_of(BIN, "en", name) for name in make_reference.commands_of(BIN)}
    seen = 0
    for page in ALL_PAGES:
        for block in blocks_of(page):
            for command, rest in re.findall(r"\bmunia (\w+)((?:[^|;&\n]|\\\n)*)", block.code):
                if command in helps and block.language in RUN:
                    for flag in re.findall(r"(?<=\s)--?[a-z][\w-]*", re.sub(r"\"[^\"]*\"|'[^']*'| # .*", "", rest)):
                        seen += 1
                        assert re.search(rf"(^|[\s,]){re.escape(flag)}\b", helps[command]), \
                            f"{block.place}: munia {command} has no {flag}"
    assert seen > 60


def test_languages_of_blocks_are_known():
    for page in ALL_PAGES:
        for block in blocks_of(page):
            assert block.language in RUN | SHOWN, f"{block.place}: `{block.language}`"
            assert set(block.options) <= {"skip", "serve", "file", "client", "real", "tiny"}, block.place


# ---- Links --------------------------------------------------------------------------------------

MARKDOWN = sorted(path for pattern in ("*.md", "docs/*.md", "docs/zh/*.md", "docs/decisions/*.md", "web/*.md",
                                       "tests/*/SOURCE.md", "bench/results/*.md")
                  for path in ROOT.glob(pattern))


def anchors_of(path):
    """The anchors of a page's headings, as viewers of Markdown make them."""
    text = re.sub(r"^(`{3,}).*?^\1", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    anchors = set()
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").strip().lower()
        anchors.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return anchors


@pytest.mark.parametrize("page", MARKDOWN, ids=name_of)
def test_links(page):
    text = re.sub(r"^(`{3,}).*?^\1|`[^`\n]*`", lambda m: "" if "\n" in m.group() else "`x`",
                  page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", text):
        url = urlparse(target)
        if url.scheme:
            assert url.scheme in ("http", "https") and url.netloc and " " not in target, target
            continue
        file = (page.parent / unquote(url.path)).resolve() if url.path else page
        assert file.exists(), f"{name_of(page)}: {target} leads nowhere"
        assert file.is_relative_to(ROOT), target
        if url.fragment and file.suffix == ".md":
            assert unquote(url.fragment) in anchors_of(file), f"{name_of(page)}: {target}: no such heading"


# ---- The manual as it is built ------------------------------------------------------------------


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    if not VENV.exists():
        pytest.skip("build/venv-docs is not there: tools/venv.sh docs makes it")
    out = tmp_path_factory.mktemp("manual")
    done = subprocess.run([ROOT / "tools" / "build_docs.sh", VENV, out], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


class Links(html.parser.HTMLParser):
    """What a page loads, where it leads, and its own anchors."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.leads, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.add(values.get("id"))
        if tag in ("script", "img", "iframe", "source") and values.get("src"):
            self.loads.append(values["src"])
        if tag == "link" and values.get("href") and values.get("rel") not in ("next", "prev", "search", "index"):
            self.loads.append(values["href"])
        if tag == "a" and values.get("href"):
            self.leads.append(values["href"])


def test_the_built_manual_is_whole(built):
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}
    assert len(pages) > 2 * len(PAGES)
    for path, page in pages.items():
        for target in [*page.loads, *page.leads]:
            url = urlparse(target)
            if url.scheme:
                assert target not in page.loads, f"{path}: asks another host for {target}"
                continue
            file = (path.parent / unquote(url.path)).resolve() if url.path else path
            assert file.exists(), f"{path.relative_to(built)}: {target}"
            if url.fragment and file in pages:
                assert unquote(url.fragment) in pages[file].ids, f"{path.relative_to(built)}: {target}"
    for style in [*built.rglob("*.css"), *built.rglob("*.js")]:
        text = style.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"url\(\s*[\"']?https?:|@import [\"']https?:|fetch\([\"']https?:", text), style


def test_each_page_leads_to_the_other_language(built):
    for page in PAGES:
        for path, other in ((page.stem, f"zh/{page.stem}.html"), (f"zh/{page.stem}", f"../{page.stem}.html")):
            text = (built / f"{path}.html").read_text(encoding="utf-8")
            assert f'<a href="{other}">' in text, path
            assert f'lang="{"zh" if path.startswith("zh/") else "en"}' in text
            prose = re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
            assert not re.search("[\u3400-\u9fff，。；：、]\n[\u3400-\u9fff]", prose), f"{path}: a space in Chinese"


SEARCH = """
const fs = require("fs"), vm = require("vm");
const [directory, ...queries] = process.argv.slice(1);
const page = { Search: { setIndex: (index) => { page.index = index; } } };
page.window = page;
vm.createContext(page);
for (const name of ["_static/language_data.js", "searchindex.js"])
  vm.runInContext(fs.readFileSync(`${directory}/${name}`, "utf8"), page);
if (!page.splitQuery) page.splitQuery = (query) => query.split(/[^\\p{L}\\p{N}_]+/u).filter(Boolean);
const stemmer = new page.Stemmer();
const found = queries.map((query) => {
  const pages = page.splitQuery(query).map((word) => {
    const term = stemmer.stemWord(word.toLowerCase());
    return new Set([page.index.terms[term] ?? [], page.index.titleterms[term] ?? []].flat());
  });
  return page.index.docnames.filter((_, i) => pages.length && pages.every((set) => set.has(i)));
});
console.log(JSON.stringify(found));
"""


def test_search_finds_chinese(built):
    """By the index and the query splitter that the pages load."""
    if not shutil.which("node"):
        pytest.skip("node is not installed: make web installs it")
    cases = {"zh": {"束搜索": "beams", "置信区间": "labels", "前缀缓存": "tuning", "没有网络的机器": "pull",
                    "压力测试": "http", "resume": "bulk", "文章里的说法": "tuning"},
             ".": {"beam search": "beams", "confidence": "bulk", "ladder": "tuning"}}
    for language, expected in cases.items():
        done = subprocess.run(["node", "-e", SEARCH, str(built / language), *expected], capture_output=True,
                              text=True, check=True)
        for (query, page), pages in zip(expected.items(), json.loads(done.stdout), strict=True):
            assert page in pages, f"{query}: {pages}"
            assert len(pages) < 12, f"{query} is found everywhere"


# ---- The reader of blocks itself ----------------------------------------------------------------


def test_a_page_that_lies_is_found(tmp_path):
    def block(code, language="console", options=""):
        return Block(DOCS / "x.md", 1, language, code, read_options(options))

    assert commands_of(block("$ a \\\n    b\nx\n$ c\n")) == [("a \\\n    b", ["x"]), ("c", None)]
    with Session(tmp_path) as session:
        session.run(block("$ echo one; echo 2\none\n…\n"))
        session.run(block("$ echo abc 12\na…c …\n"))
        session.run(block("$ munia config --nothing\nmunia: …--nothing…\n"))
        for lie in ("$ echo one\ntwo\n", "$ echo one; echo two\none\n", "$ false\n", "$ echo a\na\nb\n"):
            with pytest.raises(AssertionError):
                session.run(block(lie))
        with pytest.raises(AssertionError):
            session.run(block("false\ntrue\n", "sh"))
        with pytest.raises(AssertionError):
            session.run(block("make nothing-like-it\n", "sh"))

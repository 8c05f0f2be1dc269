"""How Sphinx makes the manual (`make docs`, decision 10): English from docs/, Chinese from docs/zh/ with the
same file (tools/build_docs.sh runs both, with `language` set for the second).

The pages are plain Markdown that reads as well in any viewer of repositories. What that leaves open is
done here: index.md's lists become the navigation, links that leave the source directory are resolved
(the other language's pages, files of the repository, which are copied), each page links to the same page
in the other language, and Chinese is searched by pairs of characters.
"""

import html
import re
import shutil
from pathlib import Path
from urllib.parse import quote

from pygments.lexers.special import TextLexer
from sphinx.search import SearchLanguage

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project = "munia"
author = "the munia authors"
project_copyright = "the munia authors, Apache-2.0"
extensions = ["myst_parser"]
exclude_patterns = ["zh", "plan.md", "_*"]
templates_path = [str(DOCS / "_templates")]
nitpicky = True
highlight_language = "text"

myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4  # as deep as links may go
# "out:" is written by leave_the_sources alone: an address as it stands, relative to the page.
myst_url_schemes = {"http": None, "https": None, "out": {"url": "{{path}}"}}

html_theme = "furo"
html_title = "munia"
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
html_static_path = []
html_css_files = []
html_sidebars = {"**": [
    "sidebar/brand.html", "language.html", "sidebar/search.html", "sidebar/scroll-start.html",
    "sidebar/navigation.html", "sidebar/scroll-end.html",
]}

LINK = re.compile(r"(?<!\\)(!?)(\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(([^)\s]+)\)")
CHINESE = "[\u2014\u2018-\u201d\u2026\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"  # and its punctuation
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1`*$", re.DOTALL | re.MULTILINE)


def is_chinese(app):
    return app.config.language.startswith("zh")


def outside_fences(text, change):
    """`text` with change(part) in place of each part that is not a fenced block."""
    parts, begin = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[begin:fence.start()]), fence.group()]
        begin = fence.end()
    return "".join([*parts, change(text[begin:])])


def join_chinese(text):
    """A line break between Chinese characters would be shown as a space: they are joined, but for a heading."""
    return re.sub(rf"^((?!#)[^\n]*{CHINESE})\n *(?={CHINESE})", r"\1", text, flags=re.MULTILINE)


def navigation(text):
    """Hidden tables of contents, one a section of the page, of the pages that its lists link to."""
    trees = []
    for section in re.split(r"^##? ", text, flags=re.MULTILINE)[1:]:
        caption = section.split("\n", 1)[0].strip()
        pages = re.findall(r"^- \[[^\]]+\]\(([\w./-]+)\.md\)", section, re.MULTILINE)
        if pages:
            trees.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]))
    return "\n\n".join(trees)


def leave_the_sources(app, docname, source):
    """Markdown links to what is not a page of this build become addresses in the finished manual."""
    page = Path(app.srcdir) / f"{docname}.md"
    up = "../" * (docname.count("/") + is_chinese(app))  # from this page to the manual's root

    def resolve(match):
        image, words, target = match.groups()
        path, _, anchor = target.partition("#")
        if image or not path or re.match(r"[a-z]+:", target):
            return match.group()
        file = (page.parent / path).resolve()
        if not file.exists() or not file.is_relative_to(ROOT):
            return match.group()  # Sphinx says that it is missing
        within = file.is_relative_to(app.srcdir)
        name = file.relative_to(ROOT).as_posix()
        if file.suffix == ".md" and file.is_relative_to(DOCS) and file.name != "plan.md":
            if within and not (file.is_relative_to(DOCS / "zh") and not is_chinese(app)):
                return match.group()
            there = file.relative_to(DOCS).with_suffix(".html").as_posix()
            return f"{words}(out:{up}{there}{'#' + anchor if anchor else ''})"
        if file.is_dir():
            return words[1:-1]  # a folder has no page
        # A browser shows a text file, where it would offer to save Markdown or a script.
        copy = f"files/{name}" + ("" if file.suffix in (".svg", ".png", ".csv", ".txt", ".json") else ".txt")
        out = Path(app.outdir) / ("../" if is_chinese(app) else "") / copy
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, out)
        return f"{words}(out:{up}{quote(copy)})"

    text = outside_fences(source[0], lambda part: LINK.sub(resolve, part))
    if is_chinese(app):
        while (joined := outside_fences(text, join_chinese)) != text:
            text = joined  # a line that was joined may be joined with the next
    if docname in ("index", "decisions"):
        text += "\n" + navigation(text)
    if docname == "index":  # a page that no list names is still to be found
        named = set(re.findall(r"\]\(([\w./-]+)\.md\)", text)) | {"index"}
        others = sorted({path.stem for path in page.parent.glob("*.md")} - named - {"plan"})
        if others:
            text += "\n\n" + "\n".join(["```{toctree}", ":hidden:", "", *others, "```"])
    source[0] = text


def link_the_languages(app, pagename, templatename, context, doctree):
    """What language.html shows: the address of this page in the other language, or of its index."""
    up = "../" * pagename.count("/")
    chinese = is_chinese(app)
    other = DOCS / ("" if chinese else "zh") / f"{pagename}.md"
    name = f"{pagename}.html" if other.exists() or pagename == "search" else "index.html"
    if pagename.startswith("decisions/"):
        name = "decisions.html"
    context["other_language"] = html.escape(f"{up}../{name}" if chinese else f"{up}zh/{name}")
    context["other_language_name"] = "English" if chinese else "中文"


class ChineseByPairs(SearchLanguage):
    """Chinese has no spaces: its texts and queries are cut into all pairs of neighbouring characters, so a
    query finds the pages that have all of its pairs. Other letters make words."""

    lang = "zh"
    language_name = "Chinese"
    _pieces = re.compile(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+")
    js_splitter_code = """
var splitQuery = (query) => (query.match(/[\\u3400-\\u9fff]+|(?:(?![\\u3400-\\u9fff])[\\p{L}\\p{N}_])+/gu) || [])
  .flatMap((piece) => /^[\\u3400-\\u9fff]{2,}$/.test(piece)
    ? Array.from({ length: piece.length - 1 }, (_, i) => piece.slice(i, i + 2))
    : [piece]);
"""

    def split(self, text):
        words = []
        for piece in self._pieces.findall(text):
            if len(piece) > 1 and "\u3400" <= piece[0] <= "\u9fff":
                words += [piece[i:i + 2] for i in range(len(piece) - 1)]
            else:
                words.append(piece)
        return words


def setup(app):
    app.add_search_language(ChineseByPairs)
    app.add_lexer("haproxy", TextLexer)  # Pygments has none
    app.connect("source-read", leave_the_sources)
    app.connect("html-page-context", link_the_languages)
    return {"parallel_read_safe": False, "parallel_write_safe": True}

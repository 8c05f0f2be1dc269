"""The Python of the manual's pages: all blocks of a page that need the package, in their order, as one
program with a tiny model. What speaks to the service instead runs in test_manual.py."""

import os
import subprocess
import sys

import pytest
from manual import DOCS, blocks_of, english_pages
from munia_process import ROOT
from python_package import QWEN

import munia

PACKAGE = os.path.dirname(os.path.dirname(munia.__file__))


def python_blocks(page):
    return [block for block in blocks_of(page)
            if block.language == "python" and block.is_run and "client" not in block.options]


PAGES = [page for page in english_pages() if python_blocks(page)]


def test_some_pages_have_python():
    assert {DOCS / "python.md", DOCS / "articles.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_page_runs(page, tmp_path):
    program = tmp_path / "page.py"
    program.write_text("\n".join(block.code for block in python_blocks(page))
                       .replace('"MODEL"', repr(str(QWEN))), encoding="utf-8")
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path,
                            env=os.environ | {"PYTHONPATH": PACKAGE}, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr

"""tools/check_layers.py must see each kind of violation, and none where there is none."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import check_layers  # noqa: E402

ARROWS = """
# munia_room(commented munia_nothing)
function(munia_room name)
endfunction()
munia_room(base Threads::Threads)
munia_room(kernels munia_base)
munia_room(model munia_kernels
  munia_base)   # over two lines
munia_room(server munia_model)
munia_room(hub munia_base CURL::libcurl)
"""


@pytest.fixture
def tree(tmp_path):
    """A clean source tree; call it with a path and a text to plant a file."""
    (tmp_path / "CMakeLists.txt").write_text(ARROWS, encoding="utf-8")

    def plant(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return check_layers.check_tree(tmp_path)

    plant("base/error.h", "#pragma once\n#ifdef __linux__\n#endif\n")
    plant("kernels/kernels.h", '#pragma once\n#include "base/error.h"\n')
    plant("kernels/matmul_avx2.cpp", '#include "kernels/kernels.h"\n#include <immintrin.h>\n')
    plant("model/forward.h", '#pragma once\n#include "kernels/kernels.h"\n')
    plant("server/http_server.cpp", '#include "model/forward.h"\n#include <boost/asio/read.hpp>\n')
    plant("hub/fetch.cpp", '#include <curl/curl.h>\n#include "base/error.h"\n')
    assert check_layers.check_tree(tmp_path) == []
    return plant


def test_arrows_are_read_transitively():
    arrows = check_layers.read_arrows(ARROWS)
    assert arrows == {"base": set(), "kernels": {"base"}, "model": {"kernels", "base"},
                      "server": {"model"}, "hub": {"base"}}
    assert check_layers.reachable(arrows)["server"] == {"server", "model", "kernels", "base"}


def test_a_cycle_is_seen():
    with pytest.raises(ValueError, match="cycle"):
        check_layers.reachable({"a": {"b"}, "b": {"a"}})


@pytest.mark.parametrize("name, text, line, words", [
    ("base/pool.cpp", '\n#include "model/forward.h"\n', 2, "no arrow leads to model"),
    ("hub/pull.cpp", '#include "kernels/kernels.h"\n', 1, "no arrow leads to kernels"),
    ("model/qwen2.cpp", '#include "kernels/pack.h"\n', 1, "private to kernels"),
    ("model/qwen2.cpp", "#  if defined(__AVX2__)\n#endif\n", 1, "__AVX2__"),
    ("model/qwen2.cpp", "#ifdef _WIN32\n#endif\n", 1, "_WIN32"),
    ("model/qwen2.cpp", "int x;\n#include <immintrin.h>\n", 2, "<immintrin.h>"),
    ("model/qwen2.cpp", "#include <arm_neon.h>\n", 1, "<arm_neon.h>"),
    ("server/openai.cpp", "#include <boost/beast/http.hpp>\n", 1, "server/http_server only"),
    ("model/load.cpp", "#include <curl/curl.h>\n", 1, "hub/, cli/load_client.cpp only"),
    ("model/load.cpp", '#include "forward.h"\n', 1, "model/forward.h"),
    ("stray/thing.cpp", "int x;\n", None, "no munia_room(stray"),
    ("model/sub/deep.cpp", '#include "server/router.h"\n', 1, "no arrow leads to server"),
])
def test_a_planted_violation_is_seen(tree, name, text, line, words):
    lines = tree(name, text)
    assert len(lines) == 1, lines
    assert words in lines[0]
    if line is not None:
        assert f"{name}:{line}:" in lines[0]


def test_comments_are_not_code(tree):
    assert tree("model/a.cpp", '// #include "server/x.h"\n/*\n#ifdef _WIN32\n*/\nint x;\n') == []


def test_an_undeclared_dependency_is_seen(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("munia_room(a munia_b)\n", encoding="utf-8")
    assert "b, which is not declared" in check_layers.check_tree(tmp_path)[0]


def test_this_repository_keeps_its_layers():
    assert check_layers.check_project(ROOT) == []


def test_a_binding_has_its_arrows(tree, tmp_path, tmp_path_factory):
    binding = tmp_path_factory.mktemp("project") / "python"  # beside the rooms, not among them
    binding.mkdir()
    (binding / "CMakeLists.txt").write_text("munia_binding(python munia_model)\n", encoding="utf-8")
    (binding / "ok.cpp").write_text('#include "model/forward.h"\n#include <nanobind/nanobind.h>\n')
    assert check_layers.check_tree(tmp_path, [binding]) == []
    (binding / "bad.cpp").write_text('#include "python/ok.h"\n#include "server/app.h"\n')
    (line,) = check_layers.check_tree(tmp_path, [binding])
    assert "bad.cpp:2: python may not include server/app.h: no arrow leads to server" in line
    assert "<nanobind/nb.h> may be included in python/" in tree(
        "base/bad.h", "#include <nanobind/nb.h>\n")[0]

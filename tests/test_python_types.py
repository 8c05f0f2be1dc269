"""The package's types, and what its documents show."""

import ast
import os
import re
import subprocess
import sys

import pytest
from munia_process import ROOT, real_model
from python_package import QWEN

import munia


def check(*command, env=None):
    result = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True,
                            cwd=ROOT, env=os.environ | (env or {}))
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def mypy(tmp_path, *arguments):
    return check("-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir",
                 tmp_path / "cache", *arguments)


USE = """
from collections.abc import Sequence
import asyncio
import numpy as np
import numpy.typing as npt
import munia
from typing import assert_type

def use(model: munia.Model) -> None:
    assert_type(model.tokenize("a"), list[int])
    assert_type(model.chat("a"), munia.Generated)
    assert_type(model.chat([{"role": "user", "content": "a"}], stream=True), munia.Stream)
    assert_type(model.generate(np.array([1, 2]), max_tokens=3, stream=False), munia.Generated)
    assert_type(model.classify("a"), munia.Labelled)
    assert_type(model.classify(["a"], labels=["b", "c"]), list[munia.Labelled])
    assert_type(model.predict("a").reply, str | None)
    assert_type(model.score("a", ["b"]), npt.NDArray[np.float64])
    assert_type(model.logits([1, 2], all=True), npt.NDArray[np.float32])
    assert_type(model.hidden("a", 3), npt.NDArray[np.float32])
    assert_type(model.learn(["a"], ["b"]), munia.Task)
    for piece in model.generate("a", stream=True):
        assert_type(piece, str)

async def read(model: munia.Model) -> None:
    async with model.chat("a", stream=True) as stream:
        async for piece in stream:
            assert_type(piece, str)
    assert_type(stream.result, munia.Generated | None)
"""


def test_types_are_strict(tmp_path):
    mypy(tmp_path)
    user = tmp_path / "use.py"
    user.write_text(USE)
    mypy(tmp_path, user)
    user.write_text(USE + "\nmunia.Model('m').tokenize(5)\n")
    with pytest.raises(AssertionError, match="arg-type"):
        mypy(tmp_path, user)


def stub_members(body):
    """{name: its parameters' names without self, or None of what is no function}."""
    members = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            is_property = any(ast.unparse(one) == "property" for one in node.decorator_list)
            names = [one.arg for one in node.args.args if one.arg != "self"]
            members[node.name] = None if is_property else names
        elif isinstance(node, ast.AnnAssign):
            members[ast.unparse(node.target)] = None
    return members


def real_members(thing):
    members = {}
    for name, value in vars(thing).items():
        signature = getattr(value, "__nb_signature__", None)
        if isinstance(value, staticmethod):
            signature = getattr(value.__func__, "__nb_signature__", None)
        if signature and (not name.startswith("_") or name == "__init__"):
            names = re.findall(r"(\w+):", signature[0][0].split("->")[0])
            members[name] = [one for one in names if one != "self"]
        elif not name.startswith("_"):
            members[name] = None
    return members


def test_the_stub_has_what_the_extension_has():
    """mypy's stubtest does not know nanobind's functions, so names are compared here."""
    from munia import _munia

    stub = ast.parse((ROOT / "python" / "munia" / "_munia.pyi").read_text(encoding="utf-8"))
    classes = {node.name: stub_members(node.body) for node in stub.body
               if isinstance(node, ast.ClassDef)}
    real = {name: real_members(value) for name, value in vars(_munia).items()
            if isinstance(value, type)}
    assert set(classes) == set(real)
    for name, members in classes.items():
        assert members == real[name], name


def tour(model, path):
    out = check(ROOT / "docs" / "python_tour.py", model, path,
                env={"MPLCONFIGDIR": str(path.parent / "matplotlib")})
    assert path.read_bytes().startswith(b"\x89PNG")
    return out


def test_the_tour_runs(tmp_path):
    out = tour(QWEN, tmp_path / "plot.png")
    assert re.search(r"as it is: \d+% right", out) and re.search(r"with a head: \d+% right", out)
    assert "method='head'" in out and out.count("async: ") == 2


@pytest.mark.long
def test_the_tour_of_a_real_model(tmp_path):
    out = tour(real_model("qwen2.5-coder-0.5b"), tmp_path / "plot.png")
    assert int(re.search(r"with a head: (\d+)% right", out).group(1)) >= 70, out

"""`munia bench --serve` against the running service: the articles' load test, and its failures."""

import json

import pytest
from munia_server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("load")) as server:
        yield server


@pytest.mark.parametrize("route", ["predict", "completions", "chat"])
def test_load(munia, server, tmp_path, route):
    plot = tmp_path / "load.svg"
    (row,) = munia.lines("bench", "--serve", server.address, "--route", route, "--requests", "24",
                         "--concurrency", "6", "--max-tokens", "12", "--check", "--plot", plot,
                         "--json", model=False)
    assert row["good"] == 24 and row["errors"] == {} and row["differ_from_alone"] == 0
    assert row["total_ms"]["p50"] <= row["total_ms"]["p95"] <= row["total_ms"]["p99"]
    if route == "chat":
        assert row["first_token_ms"] is None
    else:
        assert row["first_token_ms"]["p99"] <= row["total_ms"]["p99"]
        assert row["tokens_per_second"] > 0
    assert plot.read_text(encoding="utf-8").startswith("<svg")


def test_texts_from_a_file(munia, server, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("今天真开心\n\n太糟了\n", encoding="utf-8")
    (row,) = munia.lines("bench", "--serve", server.address, "--requests", "5", "--texts", texts,
                         "--max-tokens", "3", "--json", model=False)
    assert row["good"] == 5


def test_failed_requests_are_counted_by_reason(munia, tmp_path):
    with Server(tmp_path, "--api-key", "secret") as guarded:
        done = munia.run("bench", "--serve", guarded.address, "--requests", "3", "--json", model=False)
        assert done.returncode == 1
        row = json.loads(done.stdout)
        assert row["good"] == 0 and list(row["errors"].values()) == [3]
        (row,) = munia.lines("bench", "--serve", guarded.address, "--requests", "3", "--max-tokens",
                             "2", "--api-key", "secret", "--json", model=False)
        assert row["good"] == 3


@pytest.mark.parametrize("arguments, word", [
    (["--serve", "https://127.0.0.1"], "http://"), (["--serve", "nowhere"], "http://"),
    (["--serve", "http://127.0.0.1:1", "--route", "x"], "completions"),
    (["--serve", "http://example.org", "--offline"], "--offline"),
])
def test_refused(munia, arguments, word):
    assert word in munia.fails(2, "bench", *arguments, model=False)

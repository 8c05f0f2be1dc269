"""The service as a whole under ThreadSanitizer (`make test-long` builds it): many users on every
route, clients that leave in the middle, the monitors beside them, and a drain. One race anywhere,
kernels included, is a failure."""

import os
import threading
from pathlib import Path

import pytest
from munia_cli import Munia
from munia_process import ROOT
from munia_server import Server

PROGRAM = Path(os.environ.get("MUNIA_TSAN_BIN") or ROOT / "build" / "tsan" / "munia")
N_ROUNDS = 40
TEXTS = ["今天真开心", "太糟了", "nothing special", "好" * 300]


def leave_in_the_middle(server):
    connection = server.begin("/stream", {"text": TEXTS[3], "max_tokens": 400})
    connection.recv(64)
    connection.close()


def ask_everything(server):
    chat = {"messages": [{"role": "user", "content": TEXTS[0]}], "max_tokens": 8}
    requests = [
        ("/predict", {"text": TEXTS[1], "max_tokens": 4}),
        ("/classify", {"texts": TEXTS}),
        ("/v1/chat/completions", chat | {"n": 2, "seed": 1, "temperature": 1.0, "logprobs": True}),
        ("/v1/chat/completions", chat | {"stream": True}),
        ("/v1/completions", {"prompt": TEXTS[:2], "max_tokens": 6, "echo": True, "logprobs": 2}),
        ("/v1/completions", {"prompt": "", "max_tokens": 6}),  # may be refused, never a race
    ]
    for path, body in requests:
        reply = server.post(path, body)
        assert reply.status == 200 or not body.get("prompt", True), (path, reply.text)


def watch(server):
    for path in ("/metrics", "/stats", "/health", "/v1/models"):
        assert server.get(path).status == 200


@pytest.mark.long
def test_no_race_under_load(tmp_path, monkeypatch):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built: make test-long builds it")
    monkeypatch.setenv("TSAN_OPTIONS", "halt_on_error=0:exitcode=66")
    with Server(tmp_path, "--parallel", 4, "--threads", 2, program=PROGRAM) as server:
        problems = []

        def repeat(action):
            try:
                for _ in range(N_ROUNDS):
                    action(server)
            except Exception as problem:  # noqa: BLE001: shown below
                problems.append(problem)

        users = [threading.Thread(target=repeat, args=(action,))
                 for action in (leave_in_the_middle, ask_everything, ask_everything, watch)]
        for user in users:
            user.start()
        for route in ("chat", "completions", "predict"):
            (row,) = Munia(tmp_path).lines(
                "bench", "--serve", server.address, "--route", route, "--requests", "120",
                "--concurrency", "6", "--max-tokens", "12", "--timeout", "300", "--json", model=False,
                timeout=600)
            assert row["errors"] == {} and row["good"] == 120
        for user in users:
            user.join()
        assert problems == []
        running = server.begin("/stream", {"text": TEXTS[0], "max_tokens": 20})
        status = server.stop()
        running.close()
        assert "ThreadSanitizer" not in server.read_log(), server.read_log()
        assert status == 0

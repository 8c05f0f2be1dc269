"""What goes wrong between the service and its clients: each fault, and then the next request is
served. Nothing here measures time; long work is made long by --kv-cache off (munia_server)."""

import json
import random
import signal
import socket
import threading

import pytest

from munia_cli import Munia
from munia_server import PATIENCE, SLOW, SLOW_FLAGS, Server, parse_events, read_all

HEAD = b"POST /chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LONG_TEXT = "好" * 600  # a prompt of many steps with --prefill-chunk 1


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("home"), "--max-header", 4096, "--max-body", 65536) as running:
        yield running


@pytest.fixture
def slow(tmp_path):
    with Server(tmp_path, "--parallel", 1, "--queue", 2, *SLOW_FLAGS) as running:
        yield running


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


# ---- The client goes away (demands 22) ------------------------------------------------------------


def cancelled(server):
    return server.metric('munia_request_finished_total{reason="cancelled"}')


def test_gone_while_queued(slow):
    running = slow.begin("/chat", SLOW)
    slow.wait_running(1)
    queued = slow.begin("/chat", SLOW)
    slow.wait_waiting(1)
    queued.close()
    slow.wait_waiting(0)
    assert slow.stats()["requests"]["running"] == 1 and cancelled(slow) == 1
    running.close()
    slow.wait_running(0)
    assert cancelled(slow) == 2
    assert slow.metric("munia_stream_client_disconnects_total") == 2
    slow.still_serves()


def test_gone_in_prefill(tmp_path):
    with Server(tmp_path, "--prefill-chunk", 1, *SLOW_FLAGS) as server:
        connection = server.begin("/chat", {"text": LONG_TEXT, "max_tokens": 400,
                                            "repetition_penalty": 1.0})
        server.wait_running(1)
        assert server.stats()["tokens"]["generated"] == 0
        connection.close()
        server.wait_running(0)
        assert cancelled(server) == 1 and server.stats()["tokens"]["generated"] == 0
        server.still_serves()


@pytest.mark.parametrize("path, body", [("/chat", SLOW), ("/predict", SLOW)])
def test_gone_in_decode(slow, path, body):
    connection = slow.begin(path, body)
    slow.wait_until(lambda: slow.metric("munia_inter_token_latency_seconds_count") >= 2)
    connection.close()
    slow.wait_running(0)
    assert cancelled(slow) == 1
    slow.still_serves()


def test_gone_in_a_beam_search(slow):
    """Its text would come at the end: only the engine's steps tell that it is under way."""
    before = slow.stats()["engine"]["steps"]
    connection = slow.begin("/chat", SLOW | {"num_beams": 4})
    slow.wait_until(lambda: slow.stats()["engine"]["steps"] >= before + 5)
    assert slow.stats()["engine"]["kv_used_bytes"] > 0
    connection.close()
    slow.wait_running(0)
    assert cancelled(slow) == 1
    slow.wait_until(lambda: slow.stats()["engine"]["kv_used_bytes"] == 0)
    slow.still_serves()


def test_gone_in_a_stream(slow):
    connection = slow.begin("/predict", SLOW | {"stream": True})
    data = b""
    while data.count(b'{"token"') < 3:
        data += connection.recv(4096)
    connection.close()
    slow.wait_running(0)
    assert cancelled(slow) == 1
    slow.still_serves()


def test_gone_in_bulk(slow):
    connection = slow.begin("/classify", {"texts": [f"{i}好" for i in range(1000)]})
    slow.wait_running(1)
    connection.close()
    slow.wait_running(0)
    slow.still_serves()


# ---- Slow and half clients ------------------------------------------------------------------------


def test_slow_reader_blocks_nobody(slow):
    reader = slow.begin("/predict", SLOW | {"stream": True})  # never read
    slow.wait_running(1)
    assert slow.get("/health").status == 200
    reader.close()
    slow.wait_running(0)
    slow.still_serves()


def test_half_request(server):
    for part in (b"POST /chat HT", HEAD, HEAD + b"Content-Length: 100\r\n\r\n{\"text\""):
        with server.connect() as connection:
            connection.sendall(part)
            server.still_serves()  # while it hangs
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection) == b""
    server.still_serves()


def test_slow_request_is_cut(tmp_path):
    with Server(tmp_path, "--read-timeout", 0.3, "--idle-timeout", 0.3) as server:
        assert server.raw(HEAD) == b""  # no end of the header: closed by the time-out
        assert server.raw(HEAD + b"Content-Length: 9\r\n\r\n{") == b""
        assert server.raw(b"") == b""  # idle
        server.still_serves()


def test_keep_alive_and_pipelining(server):
    one = HEAD + b"Content-Length: 11\r\n\r\n" + b'{"text":""}'
    with server.connect() as connection:
        connection.sendall(one * 3 + b"GET /health HTTP/1.1\r\nHost: a.localhost\r\nConnection: close\r\n\r\n")
        answer = read_all(connection)
    assert answer.count(b"HTTP/1.1 400") == 3 and answer.count(b"HTTP/1.1 200") == 1
    client = server.connection()
    for _ in range(3):
        client.request("GET", "/health")
        assert client.getresponse().read() == b'{"status":"ok"}'
    client.close()


# ---- Too large, malformed ---------------------------------------------------------------------------


def test_header_too_large(server):
    assert status_of(server.raw(HEAD + b"X-A: " + b"a" * 5000 + b"\r\n\r\n")) == 431
    server.still_serves()


def test_body_too_large(server):
    head = HEAD + b"Content-Length: 65537\r\n\r\n"
    assert status_of(server.raw(head)) == 413  # told by the header alone
    assert status_of(server.raw(head + b"x" * 65537)) == 413
    chunks = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    assert status_of(server.raw(chunks + b"8000\r\n" + b"x" * 0x8000 + b"\r\n1\r\nx\r\n0\r\n\r\n")) == 413
    fits = json.dumps({"text": "", "pad": "x" * 65000}).encode()
    assert server.post("/chat", fits + b" " * (65536 - len(fits))).status == 400  # "No input provided"
    server.still_serves()


@pytest.mark.parametrize("request_bytes", [
    b"\x00\x01\x02\x03\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    HEAD + b"Content-Length: x\r\n\r\n", HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\n", HEAD + b"Bad Header: 1\r\n\r\n",
])
def test_bad_http(server, request_bytes):
    if b"Connection: close" not in request_bytes and b"HTTP/1.1\r\n\r\n" in request_bytes:
        request_bytes = request_bytes.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert status_of(server.raw(request_bytes)) == 400
    server.still_serves()


@pytest.mark.parametrize("body", [
    b"", b"{", b"null", b"[]", b'"text"', b'{"text":"\xff"}', b'{"text":"\xed\xa0\x80"}',
    b'{"text":"\\ud800"}', b'{"text":"a"} x', b"\xef\xbb\xbf{}", b"[" * 30000, b'{"a":' * 10000,
    b'{"text":1e999}',
])
def test_bad_json(server, body):
    reply = server.post("/predict", body)
    assert reply.status == 400 and reply.error["type"] == "invalid_request_error"
    server.still_serves()


def test_ten_thousand_malformed(server):
    random.seed(5)
    good = HEAD + b"Content-Length: 33\r\n\r\n" + b'{"text":"hi","max_tokens":"none"}'
    threads_before = server.stats()["cpu"]["threads"]

    def break_some(seed, n):
        rand = random.Random(seed)
        for _ in range(n):
            data = bytearray(good)
            for _ in range(rand.randint(1, 4)):
                where = rand.randrange(len(data))
                data[where:where + rand.randint(0, 3)] = rand.randbytes(rand.randint(0, 3))
            with server.connect() as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                answer = read_all(connection)
                assert answer == b"" or answer.startswith(b"HTTP/1."), answer

    failures = []

    def run(seed):
        try:
            break_some(seed, 2500)
        except BaseException as error:  # told by the test, not by the thread
            failures.append(error)

    workers = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures
    server.still_serves()
    server.wait_running(0)
    assert server.stats()["cpu"]["threads"] == threads_before


# ---- Limits (demands 29) ------------------------------------------------------------------------------


def test_queue_full(slow):
    first = slow.begin("/chat", SLOW)
    slow.wait_running(1)
    others = [slow.begin("/chat", SLOW) for _ in range(9)]
    slow.wait_until(lambda: slow.metric('munia_queue_rejected_total{why="queue_full"}') == 7)
    assert slow.stats()["requests"]["waiting"] == 2
    refused = slow.post("/chat", SLOW)
    assert refused.status == 429 and refused.error["code"] == "queue_full"
    assert int(refused.headers["retry-after"]) >= 1
    for connection in [first, *others]:
        connection.close()
    slow.wait_running(0)
    slow.still_serves()


def test_waited_too_long(tmp_path):
    with Server(tmp_path, "--parallel", 1, "--queue-timeout", 0.2, *SLOW_FLAGS) as server:
        running = server.begin("/chat", SLOW)
        server.wait_running(1)
        reply = server.post("/chat", SLOW)
        assert reply.status == 503 and reply.headers["x-should-retry"] == "false"
        assert reply.error["code"] == "deadline_exceeded"
        running.close()
        server.wait_running(0)
        server.still_serves()


def test_deadline(slow):
    reply = slow.post("/chat", SLOW | {"timeout": 0.3})
    assert reply.status == 503 and reply.error["code"] == "deadline_exceeded"
    assert reply.headers["x-should-retry"] == "false"
    assert slow.metric('munia_request_finished_total{reason="deadline"}') == 1
    events = slow.post("/predict", SLOW | {"timeout": 0.5, "stream": True}).events
    assert "emotion" in events[0] and events[-1]["error"]["code"] == "deadline_exceeded"
    slow.wait_running(0)
    slow.still_serves()


def test_too_many_connections(tmp_path):
    with Server(tmp_path, "--max-connections", 4) as server:
        held = []
        for _ in range(4):
            client = server.connection()
            client.request("GET", "/health")
            assert client.getresponse().read()
            held.append(client)
        answer = server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status_of(answer) == 503 and b"too_many_connections" in answer
        for client in held:
            client.close()
        server.wait_until(lambda: b" 200 " in server.raw(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
        server.still_serves()


def test_idle_connections_are_cheap(tmp_path):
    n = 1000
    with Server(tmp_path) as server:
        server.still_serves()
        before = server.stats()
        held = []
        for _ in range(n):
            connection = server.connect()
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
            held.append(connection)
        after = server.stats()
        assert after["cpu"]["threads"] == before["cpu"]["threads"]
        grown = after["memory"]["resident_bytes"] - before["memory"]["resident_bytes"]
        assert grown < n * 65536, f"{grown / n:.0f} bytes for each idle connection"
        for connection in held:
            connection.close()
        server.still_serves()


# ---- The end (demands 31) -----------------------------------------------------------------------------


def test_term_in_a_stream(tmp_path):
    with Server(tmp_path, *SLOW_FLAGS) as server:
        stream = server.begin("/predict", {"text": "好", "max_tokens": 300, "stream": True})
        data = b""
        while b'{"token"' not in data:
            data += stream.recv(4096)
        idle = server.connection()
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: server.get("/ready").status == 503)
        idle.request("POST", "/chat", json.dumps(SLOW), {"Content-Type": "application/json"})
        refused = idle.getresponse()
        assert refused.status == 503 and refused.getheader("connection") == "close"
        body = read_all(stream)
        assert b'"finish_reason"' in body and b"data: [DONE]" in body
        assert server.process.wait(PATIENCE) == 0


def test_term_ends_in_time(tmp_path):
    with Server(tmp_path, "--drain-timeout", 0.2, *SLOW_FLAGS) as server:
        stream = server.begin("/predict", SLOW | {"stream": True})
        server.wait_running(1)
        queued = server.begin("/chat", SLOW)
        server.wait_running(2)
        assert server.stop() == 0
        assert b'"unavailable"' in read_all(stream)
        assert status_of(read_all(queued)) == 503


def test_interrupt(tmp_path):
    with Server(tmp_path) as server:
        assert server.stop(signal.SIGINT) == 130


def test_two_servers_on_one_port(server, tmp_path):
    second = Munia(tmp_path).run("serve", "--port", server.port)
    assert second.returncode == 1
    assert "another program uses this port" in second.err and str(server.port) in second.err
    server.still_serves()


def test_model_that_is_not_there(tmp_path):
    result = Munia(tmp_path, model=tmp_path / "none").run("serve", "--port", 0)
    assert result.returncode == 3


def test_socket_left_behind(tmp_path):
    path = tmp_path / "munia.sock"
    with Server(tmp_path, "--unix", path) as server:
        server.process.kill()
        server.process.wait()
    assert path.exists()
    with Server(tmp_path, "--unix", path) as server:
        server.still_serves()
    (tmp_path / "file").write_text("mine")
    assert Munia(tmp_path).run("serve", "--unix", tmp_path / "file").returncode == 1
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("flags", [
    ("--port", "70000"), ("--log-format", "xml"), ("--api-key", ""), ("--parallel", "0"),
])
def test_wrong_flags(tmp_path, flags):
    assert Munia(tmp_path).run("serve", *flags).returncode == 2


def test_empty_key_file(tmp_path):
    (tmp_path / "keys").write_text("\n# none\n")
    assert Munia(tmp_path).run("serve", "--api-key-file", tmp_path / "keys").returncode == 2


def test_same_answers_in_a_crowd(server):
    """Every answer equals the one served alone (demands 32)."""
    bodies = [{"text": f"{word}好", "max_tokens": 40} for word in "甲乙丙丁戊己庚辛壬癸"]
    alone = [server.post("/chat", body).json["response"] for body in bodies]
    crowd = [None] * len(bodies)

    def ask(i):
        crowd[i] = server.post("/chat", bodies[i]).json["response"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert crowd == alone


def test_streams_are_strict(server):
    """Chunks may come in any cut; the events are the same (demands 12, 25)."""
    with server.begin("/predict", {"text": "好", "max_tokens": 60, "stream": True}) as connection:
        data = b""
        while b"0\r\n\r\n" not in data:
            data += connection.recv(7)
    body, rest = b"", data.split(b"\r\n\r\n", 1)[1]
    while not rest.startswith(b"0\r\n"):
        size, rest = rest.split(b"\r\n", 1)
        body += rest[:int(size, 16)]
        rest = rest[int(size, 16) + 2:]
    assert parse_events(body.decode("utf-8", "strict"))[-1] == "[DONE]"

"""Starts the real service for tests, and speaks HTTP to it: well (request) and badly (raw)."""

import http.client
import json
import signal
import socket
import subprocess
import time

from munia_cli import BIN, QWEN, environment

# With --kv-cache off every token recomputes its past: on the tiny model this request takes many
# seconds and more than 900 steps, so that a test can act in its middle.
SLOW_FLAGS = ("--kv-cache", "off", "--threads", "1")
SLOW = {"text": "好", "max_tokens": 4000, "repetition_penalty": 1.0}
PATIENCE = 60  # seconds until a test gives up; no test measures time
JSON = {"Content-Type": "application/json"}


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def text(self):
        return self.body.decode("utf-8", "strict")

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def error(self):
        """The envelope's content; every error must have exactly this form."""
        assert self.headers["content-type"] == "application/json"
        error = self.json["error"]
        assert list(error) == ["message", "type", "param", "code"], error
        assert error["message"] and "x-request-id" in self.headers
        return error

    @property
    def events(self):
        """The events of a stream, each `data: ` and one line, parsed except for [DONE]."""
        assert self.headers["content-type"] == "text/event-stream; charset=utf-8"
        return parse_events(self.text)


def parse_events(text):
    assert text.endswith("\n\n") and "\r" not in text
    events = []
    for block in text[:-2].split("\n\n"):
        assert block.startswith("data: ") and "\n" not in block, block
        events.append(block[6:] if block == "data: [DONE]" else json.loads(block[6:]))
    return events


class Server:
    """`munia serve` on a free port; ends with the `with` block."""

    def __init__(self, home, *flags, model=QWEN, wait=True, program=BIN):
        self.log_path = home / f"serve-{time.monotonic_ns()}.log"
        self.log = self.log_path.open("wb")
        self.process = subprocess.Popen(
            [str(program), "serve", "--model", str(model), "--json", "--port", "0", "--log-format",
             "json", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=self.log, env=environment(home))
        line = self.process.stdout.readline()
        assert line, self.read_log()
        self.address = json.loads(line)["address"]
        self.unix_path = self.address[5:] if self.address.startswith("unix:") else None
        if not self.unix_path:
            host, port = self.address.removeprefix("http://").rsplit(":", 1)
            self.host, self.port = host.strip("[]"), int(port)
        if wait:
            self.wait_until(lambda: self.get("/ready").status == 200)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def read_log(self):
        return self.log_path.read_text(encoding="utf-8")

    def log_lines(self):
        return [json.loads(line) for line in self.read_log().splitlines()]

    def connect(self, timeout=PATIENCE):
        if self.unix_path:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(timeout)
            connection.connect(self.unix_path)
            return connection
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def connection(self):
        client = http.client.HTTPConnection("localhost")
        client.sock = self.connect()
        return client

    def request(self, method, path, body=None, headers=None):
        client = self.connection()
        try:
            client.request(method, path, body=body, headers=headers or {})
            return Reply(client.getresponse())
        finally:
            client.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path, content, **headers):
        body = content if isinstance(content, (bytes, str)) else json.dumps(content)
        body = body.encode() if isinstance(body, str) else body
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        return self.request("POST", path, body, JSON | named)

    def begin(self, path, content):
        """Sends a POST and returns the socket without reading the answer."""
        body = json.dumps(content).encode()
        connection = self.connect()
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body)
        return connection

    def raw(self, data, timeout=PATIENCE):
        """What comes back for `data`, until the server closes."""
        with self.connect(timeout) as connection:
            connection.sendall(data)
            return read_all(connection)

    def stats(self):
        return self.get("/stats").json

    def metric(self, name):
        """Sum of a metric's samples whose name and labels begin with `name`."""
        total = 0.0
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(name):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def wait_until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.read_log()
            assert time.monotonic() < end, "the condition never came true\n" + self.read_log()
            time.sleep(0.01)

    def wait_running(self, n):
        self.wait_until(lambda: self.stats()["requests"]["running"] == n)

    def wait_waiting(self, n):
        self.wait_until(lambda: self.stats()["requests"]["waiting"] == n)

    def still_serves(self):
        """After each fault: a whole request of every kind is answered."""
        reply = self.post("/predict", {"text": "今天真开心", "max_tokens": 3})
        assert reply.status == 200 and reply.json["emotion"] in ("正面", "负面"), reply.text
        assert self.process.poll() is None

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def read_all(connection):
    data = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part

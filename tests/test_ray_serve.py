"""munia.ray.serve_app on a real Ray of this machine: what `munia serve` answers, through replicas that
may die."""

import contextlib
import http.client
import json
import os
import signal
import threading
import time

import pytest
from http_front import Client, body, free_port, told, wait_until
from munia_cli import BIN
from munia_process import real_model
from munia_server import JSON, SLOW, Server
from ray_cluster import Cluster, command_line, kill, own_network, pack, parent_of, python

CODE = """
from ray import serve
import munia.ray
serve.start(http_options={{"host": "127.0.0.1", "port": {port}}})
serve.run(munia.ray.serve_app({model!r}, {options}))
say(ready=True)
wait()
{more}
serve.shutdown()
"""


@pytest.fixture(autouse=True)
def network():
    python()  # or the reason for skipping
    with own_network():
        yield


def app(home, model, options, more="", cpus=2):
    port = free_port()
    code = CODE.format(port=port, model=str(model), options=options, more=more)
    return Cluster(home, code, cpus), Client(port)


def services(cluster, model):
    """{pid: its replica's} of the `munia serve` that run."""
    return {pid: parent_of(pid) for pid, line in cluster.processes().items()
            if line.startswith(f"{BIN} serve ") and str(model) in line}


REQUESTS = [
    ("POST", "/classify", body(texts=["今天真好", "糟糕透了", "还行吧"]), JSON),
    ("POST", "/classify", body(texts=["好"], labels=["喜", "怒"]), JSON),
    ("POST", "/classify", body(texts=["好", ""]), JSON),
    ("POST", "/classify", b"{", JSON),
    ("POST", "/classify", body(texts=["好"]), {"Content-Type": "text/plain"}),
    ("POST", "/classify", b" " * (2 << 20), JSON),
    ("POST", "/predict", body(text="  "), JSON),
    ("POST", "/tokenize", body(content="你好 world"), JSON),
    ("POST", "/v1/chat/completions", body(messages=[]), JSON),
    ("GET", "/stream?q=%E4%BD%A0%E5%A5%BD&max_tokens=12", None, {}),
    ("GET", "/v1/models/a%2Fb", None, {}),
    ("GET", "/nowhere", None, {}),
    ("GET", "/health", None, {}),
    ("HEAD", "/health", None, {}),
    ("PUT", "/classify", b"", {}),
    ("GET", "/health", None, {"Host": "evil.example"}),
    ("GET", "/health", None, {"Origin": "http://evil.example"}),
]


@pytest.mark.long
def test_the_answers_of_munia_serve(tmp_path, munia):
    packed = pack(munia, tmp_path / "tiny.munia")
    # An application that cannot start says why.
    more = f"""
try:
    serve.run(munia.ray.serve_app({str(tmp_path / 'none.munia')!r}, max_constructor_retry_count=1),
              name="none", route_prefix="/none")
except Exception as error:
    say(status=str(serve.status().applications["none"]))
"""
    cluster, client = app(tmp_path, packed, 'flags=["--kv-cache", "off"]', more, cpus=3)
    with cluster, Server(tmp_path, model=packed) as server:
        assert cluster.read() == {"ready": True}
        for method, path, content, headers in REQUESTS:
            ours = client.request(method, path, content, headers)
            wanted = server.request(method, path, content, headers)
            assert told(ours) == told(wanted), (method, path)
            for name in ("date", "x-request-id"):
                assert ours.names.count(name) == 1, (name, ours.names)
        sent = client.request("GET", "/health", headers={"x-request-id": "my-id-1"})
        assert sent.headers["x-request-id"] == "my-id-1"
        chunked = client.request("POST", "/tokenize", iter([b'{"content":', b'"ab"}']), JSON)
        assert told(chunked) == told(server.post("/tokenize", {"content": "ab"}))

        # Pieces of a slow stream come one by one, and a client that leaves frees its place.
        leaving = client.connection()
        leaving.request("POST", "/predict", json.dumps(SLOW | {"stream": True}), JSON)
        answer = leaving.getresponse()
        for _ in range(4):
            assert answer.readline().startswith((b"data: {", b"\n"))
        assert client.stats()["requests"]["running"] == 1
        leaving.close()
        answer.close()
        wait_until(lambda: client.stats()["requests"]["running"] == 0)
        cluster.go_on()
        failed = cluster.read()
        assert "munia serve ended before it was ready, exit status 3: " in failed["status"], failed
        assert "does not exist" in failed["status"], failed


class Load:
    """Clients that send requests again until they are answered, and compare each answer."""

    def __init__(self, client, wanted, n_clients=4):
        self.client, self.wanted = client, wanted
        self.n_answered = self.n_repeated = 0
        self.wrong = []
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(n_clients)]
        for thread in self.threads:
            thread.start()

    def run(self, n):
        contents = list(self.wanted)
        while not self.stop.is_set():
            content = contents[n % len(contents)]
            n += 1
            reply = self.send(content)
            with self.lock:
                self.n_answered += 1
                if reply != (200, self.wanted[content]):
                    self.wrong.append((content, reply))
            time.sleep(0.05)  # the replicas that begin need the CPUs as well

    def send(self, content):
        reply = None
        for _ in range(100):
            try:
                answer = self.client.request("POST", "/classify", content, JSON)
                reply = (answer.status, answer.body)
                if answer.status < 500:
                    return reply
            except (OSError, http.client.HTTPException) as error:
                reply = repr(error)
            with self.lock:
                self.n_repeated += 1
            time.sleep(0.2)
        return reply

    def wait_for(self, n):
        """So many more answers."""
        goal = self.n_answered + n
        wait_until(lambda: self.n_answered >= goal)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


@contextlib.contextmanager
def two_replicas_under_load(home, munia):
    """(cluster, packed model, load); no answer may be a wrong one, or stay away."""
    packed = pack(munia, home / "tiny.munia")
    contents = [body(texts=[f"第{i}条：{'很好' * (i % 4)}", f"糟糕{i}"]) for i in range(24)]
    with Server(home, model=packed) as server:
        wanted = {content: server.post("/classify", content).body for content in contents}
    cluster, client = app(home, packed, "replicas=2", cpus=3)
    with cluster:
        assert cluster.read() == {"ready": True}
        load = Load(client, wanted)
        try:
            load.wait_for(60)
            yield cluster, packed, load
            load.wait_for(60)
        finally:
            load.end()
        print(f"{load.n_answered} answers, {load.n_repeated} requests sent again")
        assert load.wrong == []
        cluster.go_on()


@pytest.mark.long
def test_a_killed_replica_under_load(tmp_path, munia):
    with two_replicas_under_load(tmp_path, munia) as (cluster, packed, load):
        before = services(cluster, packed)
        assert len(before) == len(set(before.values())) == 2, before
        service, replica = next(iter(before.items()))
        kill(replica)
        # What belonged to it ends with it, and Ray makes another.
        wait_until(lambda: not command_line(service))
        wait_until(lambda: len(services(cluster, packed)) == 2)


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_service_that_ends_or_hangs_under_load(tmp_path, munia, sent):
    """It takes its replica with it: at once, or after some health checks."""
    with two_replicas_under_load(tmp_path, munia) as (cluster, packed, load):
        service, replica = next(iter(services(cluster, packed).items()))
        os.kill(service, sent)
        wait_until(lambda: parent_of(replica) is None and not command_line(service))
        wait_until(lambda: len(services(cluster, packed)) == 2)


@pytest.mark.long
def test_a_real_model_as_everywhere_else(tmp_path, munia):
    packed = pack(munia, tmp_path / "real.munia", real_model("qwen2.5-coder-0.5b"))
    texts = ["今天的实验终于成功了，太棒了！", "房间又小又吵，再也不来了", "还可以"]
    cluster, client = app(tmp_path, packed, "cpus=1")
    with cluster, Server(tmp_path, model=packed) as server:
        assert cluster.read() == {"ready": True}
        content = body(texts=texts)
        labels = client.request("POST", "/classify", content, JSON)
        assert told(labels) == told(server.post("/classify", content))
        path = "/stream?q=%E4%BD%A0%E5%A5%BD&max_tokens=16"
        assert told(client.request("GET", path)) == told(server.get(path))
        lines = munia.lines("classify", "--model", packed, "--json", "--", *texts, model=False)
        for ours, line in zip(labels.json, lines, strict=True):
            assert ours["probabilities"] == line["probabilities"]
        cluster.go_on()

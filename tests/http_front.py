"""A client of what stands before `munia serve`: a proxy, or Ray Serve."""

import http.client
import json
import socket
import time

from munia_server import Reply

PATIENCE = 120  # seconds until a test gives up; no test measures time
# `connection` and `date` belong to who sends, an id to its request.
OF_THE_MESSAGE = ("connection", "date", "keep-alive", "server", "transfer-encoding", "x-request-id")


class Client:
    def __init__(self, port):
        self.port = port

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def request(self, method, path, body=None, headers=None):
        client = self.connection()
        try:
            client.request(method, path, body=body, headers=headers or {})
            response = client.getresponse()
            reply = Reply(response)
            reply.names = [name.lower() for name, _ in response.getheaders()]
            return reply
        finally:
            client.close()

    def stats(self):
        return self.request("GET", "/stats").json


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.1)


def body(**content):
    return json.dumps(content, ensure_ascii=False).encode()


def told(reply):
    """What an answer says, without what belongs to the way it came."""
    return reply.status, reply.body, {name: value for name, value in reply.headers.items()
                                      if name not in OF_THE_MESSAGE}

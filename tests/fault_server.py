"""A hub on 127.0.0.1 for tests of `munia pull`: serves files as a real server does (ETag, Range,
If-Range), in the forms of the Hugging Face hub and of ModelScope, and misbehaves where a test asks."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

COMMIT = "c0ffee" * 6 + "c0ff"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server.owner
        server.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        self.close_connection = True
        try:
            fault = server.next_fault(self.path)
            if fault:
                fault(self, server.find(self.path))
            else:
                self.answer(server.find(self.path))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def start(self, code, length=None, **headers):
        self.send_response(code)
        self.send_header("Connection", "close")
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def answer(self, body, upto=None, honest=True):
        """The file, from where Range says; `upto` cuts the connection after so many bytes of the file.
        Not `honest`: gives a range whatever If-Range says, and no ETag with it."""
        if body is None:
            self.start(404, 0)
            return
        etag = f'"{sha256(body)[:16]}"'
        begin = 0
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes=") and (
                not honest or self.headers.get("If-Range", etag) == etag):
            begin = int(asked[6:].split("-")[0])
        if begin and begin >= len(body):
            self.start(416, 0, Content_Range=f"bytes */{len(body)}", **({"ETag": etag} if honest else {}))
            return
        more = {"Content_Range": f"bytes {begin}-{len(body) - 1}/{len(body)}"} if begin else {}
        if honest or not begin:
            more["ETag"] = etag
        self.start(206 if begin else 200, len(body) - begin, **more)
        self.wfile.write(body[begin:upto])
        self.wfile.flush()


class FaultServer:
    """`files` maps a path to bytes. `fault(part of a path, function, times)` puts functions
    (handler, body) in the place of the usual answer, for so many requests."""

    def __init__(self):
        self.files = {}
        self.requests = []
        self.faults = []
        self.lock = threading.Lock()
        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.httpd.owner = self
        self.httpd.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.httpd.server_port}"
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.05,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.httpd.shutdown()
        self.thread.join()
        self.httpd.server_close()

    def fault(self, part, function, times=1_000_000):
        with self.lock:
            self.faults.append([part, function, times])

    def heal(self):
        with self.lock:
            self.faults.clear()

    def next_fault(self, path):
        with self.lock:
            for fault in self.faults:
                if fault[0] in path and fault[2] > 0:
                    fault[2] -= 1
                    return fault[1]
        return None

    def find(self, path):
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        if "FilePath" in query:
            return self.files.get(parts.path + "?" + query["FilePath"][0])
        return self.files.get(parts.path)

    def asked(self, part):
        """The requests whose path holds `part`: (path, headers)."""
        return [item for item in self.requests if part in item[0]]

    def add_hf(self, repo, files, prefix="", listing=True, extra=()):
        """A repository of the Hugging Face hub; weights as its large files are, with their hash."""
        for revision in ("main", COMMIT):
            for name, data in files.items():
                self.files[f"{prefix}/{repo}/resolve/{revision}/{name}"] = data
        if not listing:
            return
        siblings = [{"rfilename": name, "size": len(data)} | (
            {"lfs": {"sha256": sha256(data), "size": len(data)}}
            if name.endswith((".safetensors", ".gguf")) else {}) for name, data in files.items()]
        self.files[f"{prefix}/api/models/{repo}/revision/main"] = json.dumps(
            {"sha": COMMIT, "cardData": {"license": "apache-2.0"},
             "siblings": siblings + [{"rfilename": name} for name in extra]}).encode()

    def add_modelscope(self, repo, files, prefix=""):
        for name, data in files.items():
            self.files[f"{prefix}/api/v1/models/{repo}/repo?{name}"] = data
        self.files[f"{prefix}/api/v1/models/{repo}/repo/files"] = json.dumps(
            {"Code": 200, "Data": {"Files": [
                {"Type": "blob", "Path": name, "Name": name, "Size": len(data), "Sha256": sha256(data)}
                for name, data in files.items()]}}).encode()


# --- faults ---------------------------------------------------------------------------------

def cut_at(share):
    return lambda handler, body: handler.answer(body, upto=int(len(body) * share))


def code(number, **headers):
    return lambda handler, body: handler.start(number, 0, **headers)


def redirect(url):
    return code(302, Location=url)


def ranges_without_etag(handler, body):
    handler.answer(body, honest=False)


def other_bytes(handler, body):
    handler.answer(bytes(b ^ 1 for b in body))


def shorter(handler, body):
    """A whole reply of half the file: the length is honest, the file is not."""
    handler.start(200, len(body) // 2)
    handler.wfile.write(body[:len(body) // 2])


def longer(handler, body):
    handler.start(200, len(body) + 1000)
    handler.wfile.write(body + b"x" * 1000)


def promised_more(handler, body):
    handler.start(200, len(body) * 2)
    handler.wfile.write(body)


def login_page(handler, body):
    page = b"<!DOCTYPE html><html><title>Sign in to the network</title></html>"
    handler.start(200, len(page), Content_Type="text/html")
    handler.wfile.write(page)


def no_range(handler, body):
    handler.start(416, 0)


class Hold:
    """Sends a share of the file, says so by `reached`, and goes on when released."""

    def __init__(self, share=0.5):
        self.share = share
        self.reached = threading.Event()
        self.released = threading.Event()

    def __call__(self, handler, body):
        begin = int(len(body) * self.share)
        handler.answer(body, upto=begin)
        self.reached.set()
        if self.released.wait(60):
            handler.wfile.write(body[begin:])
            handler.wfile.flush()

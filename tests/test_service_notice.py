"""`munia serve` tells a service manager when it is ready and when it ends (units of Type=notify)."""

import signal
import socket
import subprocess

import pytest

from munia_cli import BIN, QWEN, environment
from munia_server import PATIENCE


def test_a_service_manager_is_told(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(path))
        told.settimeout(PATIENCE)
        process = subprocess.Popen([BIN, "serve", "--model", QWEN, "--port", "0"], stderr=subprocess.DEVNULL,
                                   env=environment(tmp_path, NOTIFY_SOCKET=str(path)))
        assert told.recv(4096).decode() == f"STATUS=loading {QWEN}"
        ready = told.recv(4096).decode()
        assert ready.startswith("READY=1\nSTATUS=ready: ") and ready.count("\n") == 1
        process.send_signal(signal.SIGTERM)
        assert told.recv(4096).decode().startswith("STOPPING=1\nSTATUS=")
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("path", ["/nobody/listens", "relative", "/" + "long" * 50, "@nobody"])
def test_a_manager_that_does_not_listen_is_no_failure(tmp_path, path):
    process = subprocess.Popen([BIN, "serve", "--model", QWEN, "--port", "0", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=environment(tmp_path, NOTIFY_SOCKET=path))
    assert "listening" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0

"""Flags of a command from its table in the config file: [serve] port = 8080."""

import signal
import subprocess

import pytest

from munia_cli import BIN, QWEN, environment
from munia_server import PATIENCE, Server


def config_file(tmp_path, text):
    path = tmp_path / "munia.toml"
    path.write_text(text, encoding="utf-8")
    return path


def serve_until_listening(tmp_path, *flags):
    """The address that `munia serve` prints, and its log."""
    process = subprocess.Popen([BIN, "serve", "--model", QWEN, "--json", *map(str, flags)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(tmp_path))
    line = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log
    return line, log


def test_flags_of_serve_from_the_config_file(tmp_path):
    config = config_file(tmp_path, 'threads = 1\n[serve]\nhost = "::1"\nport = 0\nlog_format = "json"\n'
                                   'queue_timeout = 2.5\nno_request_log = true\nlog_text = false\n'
                                   'cors = ["https://a.example", "https://b.example"]\n'
                                   'task = "sentiment-3"\n[classify]\nprefix = "p"\n')
    line, log = serve_until_listening(tmp_path, "--config", config)
    assert "[::1]" in line and '"message"' in log
    # The command line comes first.
    line, log = serve_until_listening(tmp_path, "--config", config, "--host", "127.0.0.1",
                                      "--log-format", "text")
    assert "127.0.0.1" in line and '"message"' not in log


def test_repeated_flags_from_the_config_file_work(tmp_path):
    config = config_file(tmp_path, '[serve]\nallow_host = ["munia.example", "[odd]"]\n')
    with Server(tmp_path, "--config", config) as server:
        assert server.get("/health", Host="munia.example").status == 200
        assert server.get("/health", Host="other.example").status == 403


@pytest.mark.parametrize("text, status, words", [
    ("[serve]\nprot = 1\n", 3, ["[serve] prot", "--prot"]),
    ("[sevre]\nport = 1\n", 3, ["[sevre]", "no such command"]),
    ("[serve]\nthreads = 1\n", 3, ["[serve] threads", "above the tables"]),
    ("[serve]\nhelp = true\n", 3, ["[serve] help"]),
    ("[serve]\nport = 99999\n", 2, ["[serve] port", "99999", "65535"]),
    ("[serve]\nport = [1, 2]\n", 2, ["[serve] port"]),
    ("[serve]\nlog_text = 7\n", 2, ["[serve] log_text", "true or false"]),
    ("[serve]\nport = 1979-05-27\n", 3, ["[serve] port", "string"]),
    ("[serve]\ncors = [{a = 1}]\n", 3, ["[serve] cors", "string"]),
    ("[serve.more]\nport = 1\n", 3, ["[serve] more"]),
])
def test_bad_tables(munia, tmp_path, text, status, words):
    error = munia.fails(status, "serve", "--config", config_file(tmp_path, text))
    assert error.count("\n") == 1 and "munia.toml" in error
    for word in words:
        assert word in error


def test_tables_of_other_commands_are_checked_and_left_alone(munia, tmp_path):
    config = config_file(tmp_path, "[serve]\nport = 99999\n")
    assert munia.lines("classify", "--json", "--config", config, "好")
    error = munia.fails(3, "classify", "--config", config_file(tmp_path, "[serve]\nprot = 1\n"), "好")
    assert "没有自己的选项 --prot" in munia.fails(3, "classify", "--lang", "zh", "--config",
                                           config_file(tmp_path, "[serve]\nprot = 1\n"), "好")
    assert "--prot" in error

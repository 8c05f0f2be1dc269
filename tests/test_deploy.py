"""What deploy/ holds: the unit, the settings of the service, the check of health, the compose file and
the Kubernetes manifest, each against the program."""

import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
import yaml

from munia_cli import BIN, ROOT
from munia_server import PATIENCE, Server
from package_root import checked, describe, docker_context, unit_settings

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "munia.service"


# ---- The settings and the unit ------------------------------------------------------------------


def test_default_settings_are_the_programs_own(tmp_path, munia):
    config = DEPLOY / "munia.toml"
    rows = munia.lines("config", "--json", "--config", config, model=False)
    set_there = {row["key"]: row["value"] for row in rows if row["origin"] == "config file"}
    assert set_there == {"serve.host": "127.0.0.1", "serve.port": "8080"}
    # What is commented out is valid too, and says what the program does without it where it can.
    opened = re.sub(r"^# (\w+ = )", r"\1", config.read_text(encoding="utf-8"), flags=re.M)
    (tmp_path / "opened.toml").write_text(opened, encoding="utf-8")
    rows = munia.lines("config", "--json", "--config", tmp_path / "opened.toml", model=False)
    named = {row["key"]: row["value"] for row in rows if row["origin"] == "config file"}
    assert set(named) == {"model", "threads", "max_memory", "serve.host", "serve.port",
                          "serve.api_key_file", "serve.allow_host", "serve.log_format"}
    serve = next(command for command in describe()["commands"] if command["name"] == "serve")
    helps = {option["names"][-1]: option["help"] for option in serve["options"]}
    assert helps["--host"].endswith("[127.0.0.1]") and helps["--port"].endswith("[8080]")


def test_the_unit_is_one_that_systemd_takes(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # Where the package is not installed, the unit's program is this one.
    unit = tmp_path / "munia.service"
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/usr/bin/munia", str(BIN)), encoding="utf-8")
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    told = [line for line in (result.stdout + result.stderr).splitlines() if "munia" in line]
    assert result.returncode == 0 and not told, told
    result = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=15", unit],
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout.splitlines()[-1]


def allowed_calls(unit):
    """The system calls that SystemCallFilter= leaves, as systemd-analyze lists its groups."""
    def calls(group):
        names = set()
        for line in checked("systemd-analyze", "syscall-filter", group).splitlines()[1:]:
            word = line.strip()
            if word.startswith("@"):
                names |= calls(word)
            elif word and not word.startswith("#"):
                names.add(word)
        return names
    allowed = set()
    for value in unit["SystemCallFilter"]:
        for word in value.lstrip("~").split():
            allowed = allowed - calls(word) if value.startswith("~") else allowed | calls(word)
    return allowed


def test_the_service_needs_nothing_that_the_unit_forbids(tmp_path):
    """System calls, families of sockets, and memory that can be written and executed."""
    for program in ("strace", "systemd-analyze"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    unit = unit_settings(UNIT.read_text(encoding="utf-8"))
    trace = tmp_path / "calls"
    wrapper = tmp_path / "munia"
    wrapper.write_text(f'#!/bin/sh\nexec strace -f -qq -o {trace} {BIN} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    with Server(tmp_path, "--threads", "2", program=wrapper) as server:
        server.still_serves()
        assert server.post("/classify", {"texts": ["好", "坏"]}).status == 200
        assert server.get("/metrics").status == server.get("/stats").status == 200
        # strace passes no signal on: the service is its child.
        (child,) = checked("pgrep", "-P", str(server.process.pid)).split()
        os.kill(int(child), signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    text = trace.read_text(encoding="utf-8", errors="replace")
    used = set(re.findall(r"^\d+ +(\w+)\(", text, re.M))
    # The first execve is systemd's own.
    assert {"mmap", "sendmsg", "clone3"} <= used and len(used) > 20
    assert used <= allowed_calls(unit), used - allowed_calls(unit)
    families = set(re.findall(r" socket\((\w+)", text))
    assert "AF_INET" in families and families <= set(unit["RestrictAddressFamilies"][0].split())
    assert unit["MemoryDenyWriteExecute"] == ["yes"]
    assert "PROT_EXEC" in text, "the loader maps libraries"
    assert not re.findall(r"PROT_WRITE\|PROT_EXEC| mprotect\([^)]*PROT_EXEC", text)


def test_health(tmp_path):
    health = DEPLOY / "health.sh"
    with Server(tmp_path) as server:
        assert subprocess.run([health, str(server.port)]).returncode == 0
        assert subprocess.run([health, str(server.port), "/ready"]).returncode == 0
        assert subprocess.run([health, str(server.port), "/nothing"]).returncode == 1
        port = server.port
    assert subprocess.run([health, str(port)]).returncode == 1
    # One who listens and says nothing is not well either.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert subprocess.run([health, str(silent.getsockname()[1])]).returncode == 1


# ---- Containers ---------------------------------------------------------------------------------


def check_words(words):
    """The words after `munia`: a command, flags that it has, in the form that a list of YAML gives."""
    assert all(isinstance(word, str) for word in words), words
    command = next(c for c in describe()["commands"] if c["name"] == words[0])
    flags = {name: option["value"] for option in command["options"] for name in option["names"]}
    rest = iter(words[1:])
    for word in rest:
        if word.startswith("-"):
            assert word in flags, word
            if flags[word]:
                assert not next(rest).startswith("-")
        else:
            assert command["arguments"], word


def test_compose():
    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = content["services"]
    for service in services.values():
        check_words([re.sub(r"\$\{\w+:-(.*)\}", r"\1", word) for word in service["command"]])
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert all(volume.split(":")[0] in content["volumes"] for volume in service["volumes"])
    assert services["munia"]["ports"] == ["127.0.0.1:8080:8080"]
    build = services["munia"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    names = set(services["munia"]["environment"])
    assert names <= {setting["environment"] for setting in describe()["settings"]}


def test_kubernetes():
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
    claim, deployment, service = documents
    assert [d["kind"] for d in documents] == ["PersistentVolumeClaim", "Deployment", "Service"]
    pod = deployment["spec"]["template"]["spec"]
    (munia,) = pod["containers"]
    for container in [munia, *pod["initContainers"]]:
        check_words(container["args"])
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert pod["securityContext"]["runAsNonRoot"]
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in dockerfile
    assert munia["readinessProbe"]["httpGet"]["path"] == munia["startupProbe"]["httpGet"]["path"] == "/ready"
    assert munia["livenessProbe"]["httpGet"]["path"] == "/health"
    assert set(munia["resources"]) == {"requests", "limits"}
    assert pod["enableServiceLinks"] is False
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    # The service's name is one of those that it answers to.
    words = munia["args"]
    assert words[words.index("--allow-host") + 1] == service["metadata"]["name"]


def test_the_image_can_be_built_from_what_docker_sees(tmp_path):
    """.dockerignore leaves out much; what is left must configure."""
    names = list(docker_context())
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert not [name for name in names if name.startswith((".git/", "build/", "tests/models/"))]
    assert not (tmp_path / "tests" / "goldens").exists()
    checked("cmake", "--preset", "release", cwd=tmp_path)
    assert (tmp_path / "build" / "CPackConfig.cmake").exists()
    checked("tools/source_date.sh", cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})

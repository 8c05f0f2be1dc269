"""The Debian package: what is in it; and, in a bare Debian 12 root (long): install, the unit's command
line as its user, /predict, upgrade, remove, purge; the completions of zsh and fish; the steps of the
image."""

import contextlib
import http.client
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time

import pytest

from munia_cli import BIN, QWEN, ROOT
from package_root import BUILD, CleanRoot, Image, checked, describe, make_deb, unit_settings

PATIENCE = 60


@pytest.fixture(scope="module")
def deb(tmp_path_factory):
    return make_deb(tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def listing(deb):
    """{path: (mode, owner)} of the package."""
    rows = [line.split(None, 5) for line in checked("dpkg-deb", "-c", deb).splitlines()]
    return {row[5].removeprefix("."): (row[0], row[1]) for row in rows}


# ---- What is in it ------------------------------------------------------------------------------


def test_fields(deb):
    fields = checked("dpkg-deb", "-f", deb)
    version = checked(BIN, "--version").split()[1]
    architecture = checked("dpkg", "--print-architecture").strip()
    assert f"Package: munia\n" in fields and f"Version: {version}-1\n" in fields
    assert f"Architecture: {architecture}\n" in fields
    assert deb.name == f"munia_{version}-1_{architecture}.deb"


def test_depends_are_those_that_dpkg_finds(deb, tmp_path):
    if shutil.which("dpkg-shlibdeps") is None:
        pytest.skip("dpkg-shlibdeps is not installed")
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian" / "control").write_text("Source: munia\n\nPackage: munia\nArchitecture: any\n")
    found = checked("dpkg-shlibdeps", "-O", BIN, cwd=tmp_path)
    wanted = set(found.strip().removeprefix("shlibs:Depends=").split(", "))
    depends = set(checked("dpkg-deb", "-f", deb, "Depends").strip().split(", "))
    assert depends == wanted | {"adduser"}


def test_files(deb, listing):
    files = {path for path in listing if not path.endswith("/")}
    assert {"/usr/bin/munia", "/usr/lib/systemd/system/munia.service", "/etc/munia/munia.toml",
            "/usr/lib/munia/health", "/usr/share/bash-completion/completions/munia",
            "/usr/share/zsh/vendor-completions/_munia", "/usr/share/fish/vendor_completions.d/munia.fish",
            "/usr/share/man/man1/munia.1.gz", "/usr/share/doc/munia/copyright"} <= files
    for command in describe()["commands"][1:]:
        assert f"/usr/share/man/man1/munia-{command['name']}.1.gz" in files
        assert f"/usr/share/man/zh_CN/man1/munia-{command['name']}.1.gz" in files
    # The library and headers are for those who build from source.
    assert not [path for path in files if path.endswith((".a", ".h", ".cmake"))]
    allowed = ("/usr/bin/", "/usr/lib/munia/", "/usr/lib/systemd/system/", "/usr/share/", "/etc/munia/")
    assert not [path for path in files if not path.startswith(allowed)]
    for path, (mode, owner) in listing.items():
        assert owner == "root/root" and mode[8] != "w" and mode[5] != "w", (path, mode, owner)
    assert listing["/usr/bin/munia"][0] == listing["/usr/lib/munia/health"][0] == "-rwxr-xr-x"
    assert checked("dpkg-deb", "-I", deb, "conffiles").split() == ["/etc/munia/munia.toml"]


def test_the_program_is_stripped_and_knows_no_folder_of_the_build(deb, tmp_path):
    checked("dpkg-deb", "-x", deb, tmp_path)
    program = tmp_path / "usr" / "bin" / "munia"
    assert checked(program, "--version") == checked(BIN, "--version")
    assert ".symtab" not in checked("objdump", "-h", program)
    content = program.read_bytes()
    for folder in (ROOT / "src", BUILD):
        assert str(folder).encode() not in content


def test_same_build_same_bytes(deb, tmp_path):
    time.sleep(1.1)  # another second of the clock
    assert make_deb(tmp_path).read_bytes() == deb.read_bytes()


def test_scripts_are_sound(deb, tmp_path):
    checked("dpkg-deb", "-e", deb, tmp_path)
    for name in ("postinst", "prerm", "postrm"):
        checked("sh", "-n", tmp_path / name)
        assert "set -e" in (tmp_path / name).read_text(encoding="utf-8")


# ---- In a bare Debian 12 ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base():
    with contextlib.ExitStack() as stack:
        root = CleanRoot()
        stack.callback(root.remove)
        root.make()
        root.run("apt-get", "-qq", "update")
        yield root


@pytest.fixture
def root(base):
    with contextlib.ExitStack() as stack:
        root = base.copy()
        stack.callback(root.remove)
        yield root


def install(root, deb):
    root.put(deb, "/opt/munia.deb")
    output = root.run("apt-get", "install", "-y", "--no-install-recommends", "/opt/munia.deb")
    root.file("/opt/munia.deb").unlink()
    return output


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def serving(command, port, environment, ready=None):
    """The service until the block ends; it must then end by itself, with status 0. `ready`: a bound
    socket on which it tells that it can answer; without it /ready is asked."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=environment)
    try:
        if ready:
            ready.settimeout(PATIENCE)
            while not (message := ready.recv(4096).decode()).startswith("READY=1\n"):
                assert message.startswith("STATUS=loading "), message
        end = time.monotonic() + PATIENCE
        while ask(port, "GET", "/ready")[0] != 200:
            assert process.poll() is None and time.monotonic() < end, process.communicate(timeout=9)[0]
            time.sleep(0.05)
        yield process
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, output
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def ask(port, method, path, content=None):
    """(status, JSON or None); status 0 where nobody listens."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        client.request(method, path, json.dumps(content) if content else None,
                       {"Content-Type": "application/json"})
        response = client.getresponse()
        body = response.read()
        return response.status, json.loads(body) if method == "POST" else None
    except ConnectionRefusedError:
        return 0, None
    finally:
        client.close()


def predict(port):
    status, answer = ask(port, "POST", "/predict", {"text": "今天真开心", "max_tokens": 4})
    assert status == 200 and answer["emotion"] in ("正面", "负面") and answer["reply"] is not None
    return answer["emotion"], answer["probabilities"], answer["reply"]


def run_unit(root, port):
    """Starts the unit's ExecStart as systemd would: its user, its environment, its rights, a root that
    cannot be written, and a socket for READY=1. Returns what /predict answered."""
    unit = unit_settings(root.file("/usr/lib/systemd/system/munia.service").read_text(encoding="utf-8"))
    variables = dict(pair.split("=", 1) for line in unit["Environment"] for pair in shlex.split(line))
    user = unit["User"][0]
    assert unit["CapabilityBoundingSet"] == [""] and unit["ProtectSystem"] == ["strict"]
    folder = root.file("/run/notify")
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    (folder / "socket").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        # A path of the host is longer than a socket's name may be.
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            told.bind(f"/proc/self/fd/{directory}/socket")
        finally:
            os.close(directory)
        (folder / "socket").chmod(0o777)
        command = root.command("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups",
                               "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all",
                               *shlex.split(unit["ExecStart"][0]), read_only=True)
        environment = root.environment(NOTIFY_SOCKET="/run/notify/socket", HOME="/var/lib/munia", **variables)
        with serving(command, port, environment, told) as process:
            owner = root.run("sh", "-c", f"stat -c %U /proc/{process.pid}").strip()
            assert owner == user
            answer = predict(port)
        assert told.recv(4096).decode().startswith("STOPPING=1\n")
    return answer


@pytest.mark.long
def test_life_of_the_package(root, deb, tmp_path):
    # The package brings others (libraries): what they leave is theirs.
    depends = [entry.split()[0] for entry in checked("dpkg-deb", "-f", deb, "Depends").split(", ")]
    root.run("apt-get", "install", "-y", "--no-install-recommends", *depends)
    before = root.names()

    output = install(root, deb)
    assert "munia pull qwen2.5-0.5b-instruct" in output and "systemctl enable --now munia" in output
    assert re.fullmatch(r"munia \d+\.\d+\.\d+\n", root.run("munia", "--version"))
    assert not list(root.file("/etc/systemd/system").rglob("munia*")), "not enabled by itself"
    entry = root.run("getent", "passwd", "munia").strip().split(":")
    assert entry[5] == "/var/lib/munia" and entry[6].endswith("nologin")
    assert root.run("stat", "-c", "%U:%G", "/var/lib/munia").strip() == "munia:munia"
    unit = unit_settings(root.file("/usr/lib/systemd/system/munia.service").read_text(encoding="utf-8"))
    start = shlex.split(unit["ExecStart"][0])
    # Without a model: one sentence with the line to type, and a status that systemd does not retry.
    failed = root.run(*start, env={"MUNIA_HOME": "/var/lib/munia"}, status=3)
    assert "munia pull" in failed and "3" in unit["RestartPreventExitStatus"][0].split()

    port = free_port()
    root.put(QWEN, "/var/lib/munia/tiny")
    root.run("chown", "-R", "munia:munia", "/var/lib/munia")
    config = root.file("/etc/munia/munia.toml")
    edited = config.read_text(encoding="utf-8").replace("port = 8080", f"port = {port}") \
        .replace('# model = "qwen1.5-0.5b-chat"', 'model = "/var/lib/munia/tiny"')
    assert edited.count("tiny") == 1 and str(port) in edited
    config.write_text(edited, encoding="utf-8")
    answer = run_unit(root, port)

    newer = make_deb(tmp_path / "newer", "99.0.0")
    output = install(root, newer)
    assert "munia pull" not in output, "the first steps are told once"
    assert root.run("dpkg-query", "-W", "-f", "${Version}", "munia") == "99.0.0-1"
    assert config.read_text(encoding="utf-8") == edited
    assert run_unit(root, port) == answer

    root.run("apt-get", "remove", "-y", "munia")
    assert not root.file("/usr/bin/munia").exists()
    assert config.read_text(encoding="utf-8") == edited
    assert root.file("/var/lib/munia/tiny").is_dir()
    root.run("apt-get", "purge", "-y", "munia")
    left = root.names() - before
    assert not [name for name in left if "munia" in name], left
    # adduser's own copies of the lists of users.
    assert left <= {"etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-"}, left
    for path in ("passwd", "group", "shadow"):
        assert "munia" not in root.file(f"/etc/{path}").read_text(encoding="utf-8")
    assert "munia" not in root.run("dpkg-query", "-W", "-f", "${Package}\n")


@pytest.mark.long
def test_a_changed_default_file_does_not_replace_the_users(root, deb, tmp_path):
    install(root, deb)
    config = root.file("/etc/munia/munia.toml")
    edited = config.read_text(encoding="utf-8").replace("port = 8080", "port = 9090")
    config.write_text(edited, encoding="utf-8")
    newer = make_deb(tmp_path / "newer", "99.0.0")
    unpacked = tmp_path / "unpacked"
    checked("dpkg-deb", "-R", newer, unpacked)
    default = unpacked / "etc" / "munia" / "munia.toml"
    default.write_text(default.read_text(encoding="utf-8") + "# new\n", encoding="utf-8")
    checked("dpkg-deb", "--root-owner-group", "-b", unpacked, newer)
    root.put(newer, "/opt/munia.deb")
    root.run("apt-get", "install", "-y", "-o", "Dpkg::Options::=--force-confold", "/opt/munia.deb")
    assert config.read_text(encoding="utf-8") == edited
    assert root.file("/etc/munia/munia.toml.dpkg-dist").read_text(encoding="utf-8").endswith("# new\n")


@pytest.mark.long
def test_completions_of_zsh_and_fish(root, deb):
    install(root, deb)
    root.run("apt-get", "install", "-y", "--no-install-recommends", "zsh", "fish")

    def fish(line):
        words = root.run("fish", "-c", f"complete -C {shlex.quote(line)}").splitlines()
        return [word.split("\t")[0] for word in words]

    commands = [command["name"] for command in describe()["commands"][1:]]
    assert set(commands) <= set(fish("munia "))
    assert "--port" in fish("munia serve --po") and "--port" not in fish("munia predict --po")
    assert fish("munia predict --kv-cache o") == ["on", "off"] or \
        set(fish("munia predict --kv-cache o")) == {"on", "off"}
    assert {"sentiment", "sentiment-3"} <= set(fish("munia predict --task sent"))
    assert "smollm2-135m-instruct" in fish("munia pull smol")

    # zsh completes only in an interactive line; a pseudo-terminal of its own module gives one.
    script = r"""
      zmodload zsh/zpty
      zpty shell 'zsh -f -i'
      zpty -w shell 'PS1=; autoload -U compinit; compinit -u; bindkey "^I" complete-word; setopt noautolist;
        comppostfuncs=(show); show() { compstate[insert]=; compstate[list]=; print -r -- "<<$compstate[nmatches]>>" };
        print started'
      zpty -r shell answer '*started*started*'
      zpty -w -n shell "$1"$'\t'
      zpty -r shell answer '*<<*>>*'
      print -r -- $answer
      zpty -d shell
    """

    def n_matches(line):
        answer = root.run("timeout", "20", "zsh", "-f", "-c", script, "zsh", line)
        return int(re.search(r"<<(\d+)>>", answer).group(1))

    root.run("zsh", "-n", "/usr/share/zsh/vendor-completions/_munia")
    assert n_matches("munia ") == len(commands)
    assert n_matches("munia serve --por") == 1 and n_matches("munia predict --por") == 0
    assert n_matches("munia predict --kv-cache o") == 2


@pytest.mark.long
def test_the_stage_that_builds_the_image(root, deb):
    """In the bare root, from what Docker sees: minutes of compiling."""
    image = Image(root, "build")
    assert image.base == "debian:12"
    (built,) = root.file("/src/build/package").glob("munia_*.deb")
    assert built.name == deb.name

    def files(package):
        return [line.split(None, 5)[5] for line in checked("dpkg-deb", "-c", package).splitlines()]

    assert files(built) == files(deb)
    root.run("apt-get", "install", "-y", "--no-install-recommends", f"/src/build/package/{built.name}")
    assert root.run("munia", "--version") == checked(BIN, "--version")
    assert b"/assets/index" in root.file("/usr/bin/munia").read_bytes(), "the page is in the program"


@pytest.mark.long
def test_the_image(root, deb):
    before = int(checked("du", "-s", root.path).split()[0])
    image = Image(root, "", {"/src/build/package": deb.parent})
    assert image.base.startswith("debian:12")
    added = int(checked("du", "-s", root.path).split()[0]) - before
    assert added < 70_000, f"the package and its libraries add {added} KiB"
    assert image.user == "10001:10001" and root.run("id", "-u", "munia").strip() == "10001"
    root.put(QWEN, "/var/lib/munia/tiny")
    root.run("chown", "-R", "munia:munia", "/var/lib/munia")
    port = str(free_port())
    start = [port if word == "8080" else word for word in image.entrypoint + image.arguments]
    health = [port if word == "8080" else word for word in image.health]
    assert port in start and port in health
    environment = root.environment(MUNIA_MODEL="/var/lib/munia/tiny", **image.environment)
    asked = image.command(health)
    assert subprocess.run(asked, env=environment).returncode == 1, "nobody listens yet"
    with serving(image.command(start), int(port), environment):
        assert subprocess.run(asked, env=environment).returncode == 0
        assert subprocess.run([*asked[:-1], "/nothing"], env=environment).returncode == 1
        predict(int(port))
    # Nothing but the volume belongs to the image's user.
    owned = checked("find", root.path, "-xdev", "-uid", "10001").split()
    assert all(path.startswith(str(root.file("/var/lib/munia"))) for path in owned), owned

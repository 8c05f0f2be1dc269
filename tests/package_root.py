"""A bare Debian 12 root for the tests of packages (tools/clean_root.sh), the Debian package of the build
that is tested, and the last stage of the image carried out without an engine."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from munia_cli import BIN, ROOT

BUILD = BIN.parent
CLEAN_ROOT = ROOT / "tools" / "clean_root.sh"


def checked(*command, **options):
    """The standard output of a command that must succeed."""
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def make_deb(out, *version):
    """The package of this build; skips where there is nothing to pack with."""
    if not (BUILD / "CPackConfig.cmake").exists():
        pytest.skip(f"{BUILD} is no build directory, so there is nothing to pack")
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    return Path(checked(ROOT / "tools" / "make_deb.sh", BUILD, out, *version).splitlines()[-1])


def describe(language="en"):
    """What `munia describe` says of the command line."""
    return json.loads(checked(BIN, "describe", "--lang", language))


class CleanRoot:
    """A directory with a bare Debian 12, removed at the end."""

    def __init__(self):
        for need in ("debootstrap", "unshare", "chroot"):
            if shutil.which(need) is None and not Path("/usr/sbin", need).exists():
                pytest.skip(f"{need} is not installed")
        if os.geteuid() != 0:
            pytest.skip("only root can make a clean root")
        (ROOT / "build").mkdir(exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="clean-root-", dir=ROOT / "build"))
        self.folder.chmod(0o755)
        self.path = self.folder / "root"

    def make(self):
        checked(CLEAN_ROOT, "make", self.path)

    def copy(self):
        other = CleanRoot()
        checked("cp", "-a", self.path, other.path)
        return other

    def remove(self):
        # Never across a mount: a bind of /dev that was left would be emptied too.
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
        assert str(self.path) not in mounts, "something is still mounted in the root"
        shutil.rmtree(self.folder)

    def command(self, *command, read_only=False):
        return [str(CLEAN_ROOT), "run", *(["--read-only"] if read_only else []), str(self.path),
                *map(str, command)]

    def environment(self, **variables):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"} | variables

    def run(self, *command, env=None, status=0):
        """Output and errors of a command in the root."""
        result = subprocess.run(self.command(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, text=True,
                                env=self.environment(**(env or {})))
        assert result.returncode == status, f"{command}: {result.returncode}\n{result.stdout}"
        return result.stdout

    def file(self, path):
        return self.path / str(path).lstrip("/")

    def put(self, source, path):
        target = self.file(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if Path(source).is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)

    def names(self):
        """Every path of the root but those in folders that apt and dpkg use for themselves."""
        listed = checked("find", self.path, "-xdev", "-printf", "%P\n").splitlines()
        own = ("var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "dev", "proc", "run", "etc/ld.so.cache")
        return {name for name in listed if not name.startswith(own)}


def unit_settings(text):
    """{key: [values]} of a systemd unit, sections put together."""
    settings = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
        settings.setdefault(key, []).append(value)
    return settings


class Image:
    """The last stage of deploy/Dockerfile, in a clean root."""

    def __init__(self, root, stage_files):
        """`stage_files`: folder of the build stage → a folder here."""
        self.root = root
        self.environment = {}
        self.user = "0:0"
        self.entrypoint, self.arguments, self.health = [], [], []
        text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        last = max(i for i, line in enumerate(lines) if line.startswith("FROM "))
        self.base = lines[last].split()[1]
        for line in lines[last + 1:]:
            word, _, rest = line.partition(" ")
            getattr(self, "do_" + word.lower())(rest, stage_files)

    def do_run(self, rest, stage_files):
        mounted = re.match(r"--mount=type=bind,from=(\w+),source=(\S+?),target=(\S+) ", rest)
        if mounted:
            rest = rest[mounted.end():]
            target = self.root.file(mounted.group(3))
            shutil.copytree(stage_files[mounted.group(2)], target, dirs_exist_ok=True)
        self.root.run("sh", "-c", rest, env=self.environment)
        if mounted:  # what was mounted is not part of the image
            for path in target.iterdir():
                path.unlink()

    def do_env(self, rest, _):
        self.environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))

    def do_volume(self, rest, _):
        assert self.root.file(rest).is_dir()

    def do_user(self, rest, _):
        self.user = rest

    def do_expose(self, rest, _):
        assert rest.isdigit()

    def do_healthcheck(self, rest, _):
        self.health = json.loads(rest.partition(" CMD ")[2])

    def do_entrypoint(self, rest, _):
        self.entrypoint = json.loads(rest)

    def do_cmd(self, rest, _):
        self.arguments = json.loads(rest)

    def command(self, words):
        """As an engine starts it with a read-only root and no rights."""
        user, group = self.user.split(":")
        return self.root.command("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups",
                                 "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", *words,
                                 read_only=True)

"""A bare Debian 12 root for the tests of packages (tools/clean_root.sh), the Debian package of the build
that is tested, and the stages of the image carried out without an engine."""

import fnmatch
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
        if "NODE_EXTRA_CA_CERTS" in os.environ:  # npm reads the system's list only when told to
            variables.setdefault("NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt")
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


def docker_context():
    """Names of the files that `docker build` sees: those of the tree without .dockerignore's (plain
    names and, at any depth, **/NAME)."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    ignored = [line for line in lines if line and not line.startswith("#")]
    names = [name for name in ignored if not name.startswith("**/")]
    patterns = [name[3:] for name in ignored if name.startswith("**/")]
    listed = checked("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for file in filter(None, listed.split("\0")):
        left_out = any(file == name or file.startswith(name + "/") for name in names)
        left_out |= any(fnmatch.fnmatch(part, pattern) for part in file.split("/") for pattern in patterns)
        if not left_out and (ROOT / file).is_file():
            yield file


class Image:
    """A stage of deploy/Dockerfile, carried out in a clean root."""

    def __init__(self, root, stage, files_of_stages=None, variables=None):
        """`stage`: a name, or "" for the last one. `files_of_stages`: folder of another stage → a
        folder here. `variables`: for the commands, beside those of the Dockerfile."""
        self.root = root
        self.files_of_stages = files_of_stages or {}
        self.environment = dict(variables or {})
        self.user = "0:0"
        self.folder = "/"
        self.entrypoint, self.arguments, self.health = [], [], []
        text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        stages = []
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            if word == "FROM":
                stages.append((rest, []))
            elif word and not word.startswith("#"):
                stages[-1][1].append((word, rest))
        bases = {head.partition(" AS ")[2]: (head.split()[0], lines) for head, lines in stages}
        self.base, lines = bases[stage]
        for word, rest in lines:
            getattr(self, "do_" + word.lower())(rest)

    def do_run(self, rest):
        mounted = re.match(r"--mount=type=bind,from=(\w+),source=(\S+?),target=(\S+) ", rest)
        if mounted:
            rest = rest[mounted.end():]
            target = self.root.file(mounted.group(3))
            shutil.copytree(self.files_of_stages[mounted.group(2)], target, dirs_exist_ok=True)
        self.root.run("sh", "-c", f"cd {self.folder} && {rest}", env=self.environment)
        if mounted:  # what was mounted is not part of the image
            for path in target.iterdir():
                path.unlink()

    def do_workdir(self, rest):
        self.folder = rest
        self.root.file(rest).mkdir(parents=True, exist_ok=True)

    def do_copy(self, rest):
        assert rest == ". ."
        for name in docker_context():
            self.root.put(ROOT / name, f"{self.folder}/{name}")

    def do_env(self, rest):
        self.environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))

    def do_volume(self, rest):
        assert self.root.file(rest).is_dir()

    def do_user(self, rest):
        self.user = rest

    def do_expose(self, rest):
        assert rest.isdigit()

    def do_healthcheck(self, rest):
        self.health = json.loads(rest.partition(" CMD ")[2])

    def do_entrypoint(self, rest):
        self.entrypoint = json.loads(rest)

    def do_cmd(self, rest):
        self.arguments = json.loads(rest)

    def command(self, words):
        """As an engine starts it with a read-only root and no rights."""
        user, group = self.user.split(":")
        return self.root.command("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups",
                                 "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", *words,
                                 read_only=True)

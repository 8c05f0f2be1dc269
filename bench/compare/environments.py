"""The environments of the peers: build/compare/venv-PEER, each from its own list of pinned packages,
with the machine's own pip set-up. They see the packages of build/venv-reference (torch, transformers)
behind their own, so torch is there once. One that cannot be made raises Failed with pip's last line.
"""

import hashlib
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "compare"
BUILD_MINUTES = 40  # llama.cpp compiles on a small machine


class Failed(Exception):
    """What a peer is listed with."""


def run_logged(command, log, environment=None, timeout_s=None):
    """Runs a command with its output in `log`; Failed has the last line that says something."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as out:
        try:
            process = subprocess.Popen([str(part) for part in command], stdout=out,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       env=environment)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{Path(str(command[0])).name}: not done after {timeout_s} s") from error
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if status != 0:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise Failed((last_error(lines) or f"exit status {status}")[:400])


def last_error(lines):
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or [""])[-1]


def llama_cpp_flags():
    """CMake flags for what this CPU has. Not -march=native: that would turn AMX on, and llama.cpp's
    AMX build ended with an illegal instruction where it was tried."""
    with open("/proc/cpuinfo") as info:
        flags = next((set(line.split(":")[1].split()) for line in info
                      if line.startswith(("flags", "Features"))), set())
    wanted = {"AVX": "avx", "AVX2": "avx2", "FMA": "fma", "F16C": "f16c", "BMI2": "bmi2",
              "AVX512": "avx512f", "AVX512_VBMI": "avx512vbmi", "AVX512_VNNI": "avx512_vnni",
              "AVX512_BF16": "avx512_bf16"}
    on = [f"-DGGML_{name}={'ON' if flag in flags else 'OFF'}" for name, flag in wanted.items()]
    off = [f"-DLLAMA_BUILD_{part}=OFF" for part in ("TESTS", "EXAMPLES", "TOOLS", "SERVER")]
    native = "ON" if "avx2" not in flags else "OFF"  # ARM: what the compiler finds
    return " ".join([f"-DGGML_NATIVE={native}", *(on if native == "OFF" else []), *off,
                     "-DLLAVA_BUILD=OFF"])


def made_once(made, name, make):
    """make(name), called once: `made` keeps what it gave, or the Failed that it raised."""
    if name not in made:
        try:
            made[name] = make(name)
        except Failed as error:
            made[name] = error
    if isinstance(made[name], Failed):
        raise made[name]
    return made[name]


class Environments:
    def __init__(self, threads):
        self.threads = threads
        self.made = {}  # name → directory, or the Failed that it gave

    def directory(self, name):
        """The environment, made when it is not there; raises Failed, the same one each time."""
        return made_once(self.made, name, self._make)

    def python(self, name):
        return self.directory(name) / "bin" / "python"

    def _make(self, name):
        if name == "reference":
            run_logged([ROOT / "tools" / "venv.sh", "reference"], WORK / "logs" / "venv-reference.log")
            return ROOT / "build" / "venv-reference"
        reference = self.directory("reference")
        requirements = HERE / "peers" / f"requirements-{name}.txt"
        venv = WORK / f"venv-{name}"
        environment = dict(os.environ)
        if name == "llamacpp":
            environment |= {"CMAKE_ARGS": llama_cpp_flags(),
                            "CMAKE_BUILD_PARALLEL_LEVEL": str(self.threads)}
            # pip would take a wheel that it compiled with other flags, or for another machine.
            key = hashlib.sha256(environment["CMAKE_ARGS"].encode()).hexdigest()[:12]
            environment["PIP_CACHE_DIR"] = str(WORK / f"pip-cache-{key}")
        text = requirements.read_text() + environment.get("CMAKE_ARGS", "")
        stamp = hashlib.sha256(text.encode()).hexdigest()
        stamp_file = venv / "stamp"
        if stamp_file.exists() and stamp_file.read_text() == stamp:
            return venv
        log = WORK / "logs" / f"venv-{name}.log"
        run_logged(["/usr/bin/python3", "-m", "venv", "--clear", venv], log)
        run_logged([venv / "bin" / "pip", "install", "--disable-pip-version-check", "--no-deps",
                    "-r", requirements], log, environment, BUILD_MINUTES * 60)
        (packages,) = venv.glob("lib/python3*/site-packages")
        (theirs,) = reference.glob("lib/python3*/site-packages")
        (packages / "zz_reference.pth").write_text(f"{theirs}\n")
        stamp_file.write_text(stamp)
        return venv

"""Threads of the running program: asleep when there is nothing to do, within the mask that it was
given, as many as quota and affinity allow (docs: demands on threads in containers)."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from munia_cli import environment, json_lines

CGROUP = Path("/sys/fs/cgroup")


class Idle:
    """`munia generate` that has answered one request and waits for the next."""

    def __init__(self, munia, *flags, mask=None):
        self.process = subprocess.Popen(
            munia.command("generate", "--jsonl", *flags), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment(munia.home),
            preexec_fn=(lambda: os.sched_setaffinity(0, mask)) if mask else None)

    def __enter__(self):
        self.ask()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(timeout=60) == 0

    def ask(self):
        self.process.stdin.write(json_lines({"text": "你好", "max_tokens": 16}))
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline())["usage"]["completion_tokens"] > 0

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime

    def masks(self):
        """{thread name: CPUs} of all threads."""
        found = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            name = f"{(task / 'comm').read_text().strip()}/{task.name}"
            for line in (task / "status").read_text().splitlines():
                if line.startswith("Cpus_allowed_list:"):
                    found[name] = cpus_of(line.split(":")[1].strip())
        return found


def cpus_of(text):
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


@pytest.mark.parametrize("spin", ["0", "50", "100000"])
def test_no_cpu_when_idle(munia, spin):
    with Idle(munia, "--threads", "4", "--spin-us", spin) as idle:
        for _ in range(2):  # after the first request, and after another
            time.sleep(0.5)  # longer than any spin
            before = idle.cpu_seconds()
            time.sleep(3)
            assert idle.cpu_seconds() - before < 0.05
            idle.ask()


def test_threads_stay_within_the_mask(munia):
    allowed = sorted(os.sched_getaffinity(0))
    mask = {allowed[-1]}
    with Idle(munia, "--threads", "3", mask=mask) as idle:
        masks = idle.masks()
        assert sum(name.startswith("munia-") for name in masks) == 2  # the workers
        assert all(cpus <= mask for cpus in masks.values()), masks


def test_cpus_binds_the_workers(munia):
    allowed = sorted(os.sched_getaffinity(0))
    named = f"{allowed[-1]},{allowed[0]}"
    with Idle(munia, "--cpus", named, "--threads", "2") as idle:
        workers = [cpus for name, cpus in idle.masks().items() if name.startswith("munia-1/")]
        assert workers == [{allowed[0]}]  # thread 1 has the second CPU of the list


def test_cpus_outside_the_mask_are_refused(munia):
    allowed = sorted(os.sched_getaffinity(0))
    error = munia.fails(2, "predict", "--cpus", "0-99999", "hi")
    assert "may not use CPU" in error and "may use the CPUs" in error
    if len(allowed) < 2:
        pytest.skip("this machine has one CPU: no mask can leave one out")
    cpu, other = allowed[0], allowed[1]
    error = munia.fails(2, "predict", "--cpus", other, "hi",
                        preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    assert f"may not use CPU {other}" in error


def checks_of(munia, **options):
    return {row["check"]: row["value"] for row in munia.lines("doctor", "--json", **options)}


def test_one_allowed_core(munia):
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("this machine has one CPU: no mask can leave one out")
    pin = {"preexec_fn": lambda: os.sched_setaffinity(0, {allowed[0]})}
    assert checks_of(munia, **pin)["threads"].startswith("1 thread: 1 physical core of 1 allowed")
    rows = munia.lines("tune", "-p", "8", "-n", "2", "-r", "1", "--json", **pin)
    assert [row.get("threads") for row in rows] == [1, 1]  # the table's one row, and the best
    assert "1 allowed CPU" in rows[-1]["allowed"]


@pytest.fixture
def quota_group():
    """A group of this machine with a quota of 1.5 CPUs: its file of processes."""
    name = f"munia-test-{os.getpid()}"
    failures = []
    for parent, files in ((CGROUP / "cpu", {"cpu.cfs_period_us": "100000",
                                            "cpu.cfs_quota_us": "150000"}),
                          (CGROUP, {"cpu.max": "150000 100000"})):
        group = parent / name
        try:
            group.mkdir()
        except OSError as error:
            failures.append(str(error))
            continue
        try:
            for file, text in files.items():
                (group / file).write_text(text)
            yield group / "cgroup.procs"
            return
        except OSError as error:
            failures.append(str(error))
        finally:
            group.rmdir()
    pytest.skip("no group with a CPU quota can be made here: " + "; ".join(failures))


def test_a_quota_of_one_and_a_half_cpus(munia, quota_group):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine has one CPU: the quota limits nothing")

    def join():
        quota_group.write_text(str(os.getpid()))

    threads = checks_of(munia, preexec_fn=join)["threads"]
    assert threads.startswith("1 thread: ") and "a quota of 1.5 CPUs" in threads
    rows = munia.lines("tune", "-p", "8", "-n", "2", "-r", "1", "--json", preexec_fn=join)
    assert [row.get("threads") for row in rows] == [1, 1]
    assert "a quota of 1.5 CPUs" in rows[-1]["allowed"]
    # What was measured under the quota is not used without it.
    rows = {row["key"]: row for row in munia.lines("config", "--json")}
    assert rows["threads"]["origin"] == "default"
    rows = {row["key"]: row for row in munia.lines("config", "--json", preexec_fn=join)}
    assert rows["threads"]["origin"] == "tuned"

"""`munia pull` against servers that break off, lie, refuse and wait: whatever happens, no model is
there that is not whole, the message says what to do, and the next pull completes it."""

import hashlib
import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

import fault_server as fs
from fault_server import FaultServer
from munia_cli import LLAMA_GGUF, environment
from munia_process import MODELS

SHARDED = MODELS / "llama-untied-f16-sharded"
SINGLE = MODELS / "qwen2-tied-bf16"
SECRET = "hf_5ecretOfTheUser"


def files_of(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.fixture
def hub():
    with FaultServer() as server:
        yield server


class Puller:
    def __init__(self, munia, hub):
        self.munia = munia
        self.hub = hub
        self.home = munia.home / "models"
        self.env = {"MUNIA_HOME": str(self.home), "HF_ENDPOINT": hub.url, "MODELSCOPE_DOMAIN": hub.url,
                    "no_proxy": "*"}

    def run(self, *arguments, env=None, **more):
        return self.munia.run(*arguments, model=False, env=self.env | (env or {}), **more)

    def pull(self, *arguments, env=None):
        result = self.run("pull", "--json", *arguments, env=env)
        assert result.returncode == 0, result.err
        return json.loads(result.out)

    def pull_fails(self, status, *arguments, env=None):
        result = self.run("pull", *arguments, env=env)
        assert result.returncode == status, (result.returncode, result.err)
        assert result.out == ""
        assert self.models() == []
        return result.err

    def models(self):
        result = self.run("models", "--json")
        assert result.returncode == 0, result.err
        return [json.loads(line) for line in result.out.splitlines()]

    def start(self, *arguments):
        return subprocess.Popen(self.munia.command("pull", *arguments, model=False),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment(self.munia.home, **self.env))

    def is_whole(self, name, files):
        found = files_of(self.home / name)
        assert found.pop("munia-model.json")
        assert found == files
        assert not (self.home / ".partial" / name).exists()
        return True

    def answers(self, name):
        """The loaders take it, weights and tokenizer."""
        result = self.munia.run("logits", "--offline", "--jsonl", "--model", name, model=False, env=self.env,
                                stdin='{"text": "hello"}\n')
        assert result.returncode == 0 and "argmax" in result.out, result.err


@pytest.fixture
def puller(munia, hub):
    return Puller(munia, hub)


# --- what is fetched --------------------------------------------------------------------------

def test_sharded_repository_with_side_files_below_a_path(puller, hub):
    side = {"chat_template.jinja": b"{{ messages }}", "LICENSE": b"Apache License"}
    wanted = files_of(SHARDED) | side
    hub.add_hf("o/m", wanted | {"pytorch_model.bin": b"pickle", "README.md": b"x"}, prefix="/mirror/hf",
               extra=["../../evil.safetensors", "/etc/evil.json", "dir/evil.json"])
    model = puller.pull("hf:o/m", env={"HF_ENDPOINT": hub.url + "/mirror/hf/"})
    assert puller.is_whole("o--m", wanted)
    assert (model["licence"], model["commercial_use"]) == ("apache-2.0", True)
    assert model["size_bytes"] == sum(map(len, wanted.values()))
    assert not hub.asked("evil") and not hub.asked("pytorch_model.bin")
    # After the first file everything is of one commit.
    assert all(fs.COMMIT in path for path, _ in hub.asked(".safetensors"))
    puller.answers("hf:o/m")
    n_before = len(hub.requests)
    assert puller.pull("hf:o/m")["path"] == model["path"]
    assert len(hub.requests) == n_before  # what is here is not asked for again


def test_repository_without_a_list_of_files(puller, hub):
    hub.add_hf("o/m", files_of(SHARDED), listing=False)
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", files_of(SHARDED))


def test_a_licence_that_needs_reading_is_no_yes(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE))
    path = "/api/models/o/m/revision/main"
    hub.files[path] = hub.files[path].replace(b"apache-2.0", b"gemma")
    model = puller.pull("hf:o/m", env={"HF_ENDPOINT": hub.url + "/"})
    assert (model["licence"], model["commercial_use"]) == ("gemma (read its terms)", False)
    assert model["licence_address"] == hub.url + "/o/m"


def test_modelscope_form(puller, hub):
    hub.add_modelscope("o/m", files_of(SINGLE))
    assert puller.pull("modelscope:o/m")["source"] == "ModelScope: o/m"
    assert puller.is_whole("o--m", files_of(SINGLE))
    assert any("FilePath=model.safetensors" in path and "Revision=master" in path
               for path, _ in hub.requests)
    puller.answers("modelscope:o/m")


def test_modelscope_hashes_are_compared(puller, hub):
    hub.add_modelscope("o/m", files_of(SINGLE))
    hub.fault("tokenizer.json", fs.other_bytes)
    assert "SHA-256" in puller.pull_fails(3, "modelscope:o/m")
    hub.heal()
    puller.pull("modelscope:o/m")
    assert puller.is_whole("o--m", files_of(SINGLE))


def test_catalogue_name_takes_the_next_hub_and_tells_the_licence(puller, hub):
    hub.add_modelscope("Qwen/Qwen2.5-0.5B-Instruct", files_of(SINGLE))
    result = puller.run("pull", "qwen2.5-0.5b-instruct")
    assert result.returncode == 0, result.err
    assert "Hugging Face" in result.err and "licence: Apache-2.0 (commercial use: yes)" in result.err
    listed = puller.run("models").out
    assert "qwen2.5-0.5b-instruct\t" in listed and "Apache-2.0 (commercial use: yes)" in listed
    assert "Qwen team, Alibaba Cloud [ModelScope: Qwen/Qwen2.5-0.5B-Instruct]" in listed
    assert "可商用" in puller.run("models", "--lang", "zh").out
    puller.run("rm", "qwen2.5-0.5b-instruct")
    puller.pull_fails(3, "qwen2.5-0.5b-instruct", "--source", "hf")
    puller.pull_fails(2, "qwen2.5-0.5b-instruct", "--source", "moon")


def test_one_gguf_by_address_and_by_repository(puller, hub):
    data = LLAMA_GGUF.read_bytes()
    hub.files["/dir/tiny.gguf"] = data
    hub.fault("/dir/", fs.redirect(hub.url + "/cdn/tiny.gguf?signature=s3cret"))
    hub.files["/cdn/tiny.gguf"] = data
    model = puller.pull(hub.url + "/dir/tiny.gguf?download=true")
    assert model["source"] == hub.url + "/dir/tiny.gguf"
    assert Path(model["path"]).read_bytes() == data
    puller.answers("tiny")
    # Another address whose file has the same name is another model.
    assert "taken" in puller.run("pull", hub.url + "/elsewhere/tiny.gguf").err
    hub.add_hf("o/gguf", {"weights.gguf": data, "README.md": b"x"})
    assert Path(puller.pull("hf:o/gguf")["path"]).name == "weights.gguf"
    hub.add_hf("o/many", {"a.gguf": data, "b.gguf": data})
    error = puller.run("pull", "hf:o/many").err
    assert "several .gguf files" in error and "a.gguf b.gguf" in error


@pytest.mark.parametrize("name", ["../../evil.safetensors", "/etc/evil.safetensors", "a/b.safetensors",
                                  "..", ".hidden.safetensors", "evil.safetensors\n"])
def test_names_cannot_leave_the_directory(puller, hub, name):
    files = files_of(SHARDED)
    files["model.safetensors.index.json"] = json.dumps({"weight_map": {"w": name}}).encode()
    hub.add_hf("o/m", files)
    assert "index.json" in puller.pull_fails(3, "hf:o/m")
    assert not hub.asked("evil") and not list(puller.munia.home.parent.glob("**/evil*"))


# --- faults -----------------------------------------------------------------------------------

FAULTS = {
    "cut at 30%": fs.cut_at(0.3),
    "500": fs.code(500),
    "503 for an hour": fs.code(503, Retry_After="3600"),
    "429 for an hour": fs.code(429, Retry_After="3600"),
    "403": fs.code(403),
    "404": fs.code(404),
    "416": fs.code(416),
    "wrong bytes": fs.other_bytes,
    "shorter": fs.shorter,
    "longer": fs.longer,
    "promised more": fs.promised_more,
    "login page": fs.login_page,
    "redirect without end": lambda handler, body: handler.start(302, 0, Location=handler.path),
    "redirect to a file": fs.redirect("file:///etc/passwd"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("listing", [True, False], ids=["listed", "unlisted"])
def test_every_fault_leaves_a_usable_state(puller, hub, fault, listing):
    files = files_of(SHARDED)
    hub.add_hf("o/m", files, listing=listing)
    victim = "model-00002-of-00003.safetensors"
    silent = fault in ("wrong bytes", "shorter", "longer") and not listing
    if silent:  # nobody can notice these unless the hub gives the file's hash, as it does for weights
        bad, sha = FAULTS[fault], fs.sha256(files[victim])

        def with_hash(handler, body):
            send = handler.end_headers
            handler.end_headers = lambda: (handler.send_header("X-Linked-ETag", f'"{sha}"'), send())
            bad(handler, body)

        hub.fault(victim, with_hash)
    else:
        hub.fault(victim, FAULTS[fault])
    error = puller.pull_fails(3, "hf:o/m")
    assert "pull again" in error and victim in error, error
    hub.heal()
    n_before = len(hub.requests)
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", files)
    # What had come whole is not fetched again.
    assert not [path for path, _ in hub.requests[n_before:] if "00001-of" in path]


def test_broken_off_then_resumed_in_the_same_pull(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE), listing=False)
    hub.fault("/model.safetensors", fs.cut_at(0.3), times=1)
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", files_of(SINGLE))
    _, (_, second) = hub.asked("/model.safetensors")
    size = len(files_of(SINGLE)["model.safetensors"])
    assert second["range"] == f"bytes={int(size * 0.3)}-" and second["if-range"].startswith('"')


def test_a_file_that_changed_between_two_pulls_is_begun_again(puller, hub):
    hub.files["/m.gguf"] = bytes(range(256)) * 400
    hub.fault("/m.gguf", fs.cut_at(0.3))
    puller.pull_fails(3, hub.url + "/m.gguf")
    hub.heal()
    changed = LLAMA_GGUF.read_bytes()
    hub.files["/m.gguf"] = changed
    assert Path(puller.pull(hub.url + "/m.gguf")["path"]).read_bytes() == changed
    assert "if-range" in hub.requests[-1][1]


@pytest.mark.parametrize("size", [1000, len(LLAMA_GGUF.read_bytes())], ids=["part", "same length"])
def test_ranges_without_etag_do_not_join_two_files(puller, hub, size):
    other = bytes(range(256)) * 4000
    hub.files["/m.gguf"] = other
    hub.fault("/m.gguf", lambda handler, body: handler.answer(body, upto=size))
    puller.pull_fails(3, hub.url + "/m.gguf")
    hub.heal()
    part = puller.home / ".partial/m/address/work/m.gguf.part"
    assert part.read_bytes() == other[:size]
    hub.files["/m.gguf"] = LLAMA_GGUF.read_bytes()
    hub.fault("/m.gguf", fs.ranges_without_etag)
    assert Path(puller.pull(hub.url + "/m.gguf")["path"]).read_bytes() == LLAMA_GGUF.read_bytes()
    puller.answers("m")


def test_the_part_of_another_address_is_not_continued(puller, hub):
    """The tags are equal, as those of servers are that count or that hash a file's time."""
    tag = {"ETag": '"1"'}

    def tagged(handler, body):
        begin = int(handler.headers.get("Range", "bytes=0-")[6:-1])
        more = {"Content_Range": f"bytes {begin}-{len(body) - 1}/{len(body)}"} if begin else {}
        handler.start(206 if begin else 200, len(body) - begin, **tag, **more)
        handler.wfile.write(body[begin:1000] if "old" in handler.path else body[begin:])

    hub.files["/old/m.gguf"] = bytes(range(256)) * 400
    hub.files["/new/m.gguf"] = LLAMA_GGUF.read_bytes()
    hub.fault("/m.gguf", tagged)
    puller.pull_fails(3, hub.url + "/old/m.gguf")
    assert Path(puller.pull(hub.url + "/new/m.gguf")["path"]).read_bytes() == LLAMA_GGUF.read_bytes()


def test_another_commit_is_not_mixed_with_the_first(puller, hub):
    hub.add_hf("o/m", files_of(SHARDED))
    hub.fault("00002-of", fs.code(500))
    puller.pull_fails(3, "hf:o/m")
    hub.heal()
    newer = files_of(SHARDED) | {"tokenizer_config.json": b'{"newer": true}'}
    commit = "d00d" * 10
    hub.add_hf("o/m", newer)
    path = "/api/models/o/m/revision/main"
    hub.files[path] = hub.files[path].replace(fs.COMMIT.encode(), commit.encode())
    for name, data in newer.items():
        hub.files[f"/o/m/resolve/{commit}/{name}"] = data
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", newer)


@pytest.mark.parametrize("number", [429, 503])
def test_retry_after_is_honoured(puller, hub, number):
    hub.add_hf("o/m", files_of(SINGLE))
    hub.fault("/model.safetensors", fs.code(number, Retry_After="1"), times=2)
    result = puller.run("pull", "hf:o/m")
    assert result.returncode == 0, result.err
    assert result.err.count("trying again in 1 s") == 2
    assert puller.is_whole("o--m", files_of(SINGLE))


def test_a_long_wait_is_told(puller, hub):
    hub.fault("/", fs.code(429, Retry_After="7200"))
    assert "come again in 7200 s" in puller.pull_fails(3, "hf:o/m")


def test_complete_part_and_a_server_that_says_416(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE), listing=False)
    hub.fault("/model.safetensors", fs.cut_at(0.3))
    puller.pull_fails(3, "hf:o/m")
    part = puller.home / ".partial/o--m/huggingface/work/model.safetensors.part"
    # As a process leaves it that dies between the last byte and the new name.
    part.write_bytes(files_of(SINGLE)["model.safetensors"])
    hub.heal()
    n_before = len(hub.requests)
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", files_of(SINGLE))
    assert len([p for p, _ in hub.requests[n_before:] if "/model.safetensors" in p]) == 1


def test_kill_9_in_the_middle_then_pull_again(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE))
    hold = fs.Hold(0.5)
    hub.fault("/model.safetensors", hold, times=1)
    process = puller.start("hf:o/m")
    assert hold.reached.wait(60)
    part = puller.home / ".partial/o--m/huggingface/work/model.safetensors.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    hold.released.set()
    assert puller.models() == [] and not (puller.home / "o--m").exists()
    assert "a pull was not finished" in puller.run("models").err
    assert "munia pull" in puller.run("tokenize", "--model", "hf:o/m").err
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", files_of(SINGLE))
    assert "range" in hub.asked("/model.safetensors")[-1][1]


def test_interrupt_keeps_what_came(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE))
    hold = fs.Hold(0.5)
    hub.fault("/model.safetensors", hold, times=1)
    process = puller.start("hf:o/m")
    assert hold.reached.wait(60)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    hold.released.set()
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", files_of(SINGLE))


def test_two_pulls_at_once_fetch_once(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE))
    hold = fs.Hold(0.5)
    hub.fault("/model.safetensors", hold, times=1)
    first = puller.start("hf:o/m")
    assert hold.reached.wait(60)
    second = puller.start("hf:o/m")
    line = second.stderr.readline()
    assert "waiting for another process" in line, line
    assert "another process" in puller.run("rm", "o--m").err
    hold.released.set()
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert len(hub.asked("/model.safetensors")) == 1
    assert puller.is_whole("o--m", files_of(SINGLE))


def test_a_place_that_is_taken_is_told_before_anything_is_fetched(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE))
    (puller.home / "o--m").mkdir(parents=True)
    (puller.home / "o--m" / "notes.txt").write_text("mine")
    assert "move it away" in puller.pull_fails(2, "hf:o/m")
    assert hub.requests == [] and (puller.home / "o--m" / "notes.txt").exists()


@pytest.mark.long
def test_a_server_that_stops_sending_is_left_after_the_stall_time(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE))
    hold = fs.Hold(0.5)
    hub.fault("/model.safetensors", hold, times=1)
    result = puller.run("pull", "hf:o/m")  # 30 seconds without a byte, then Range
    assert result.returncode == 0 and "no bytes came for too long" in result.err, result.err
    assert puller.is_whole("o--m", files_of(SINGLE))


# --- disk -------------------------------------------------------------------------------------

@pytest.fixture
def small_disk(tmp_path):
    """80 MiB, of which munia leaves 64 alone."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small tmpfs")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(disk)],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_too_small_a_disk_is_told_before_the_download(puller, hub, small_disk):
    files = files_of(SINGLE) | {"model.safetensors": bytes(20 << 20)}
    hub.add_hf("o/m", files)
    puller.home = small_disk / "models"
    puller.env["MUNIA_HOME"] = str(puller.home)
    error = puller.pull_fails(1, "hf:o/m")
    assert "needs" in error and "make room or set MUNIA_HOME" in error
    assert not hub.asked("/model.safetensors")
    subprocess.run(["mount", "-o", "remount,size=120m", str(small_disk)], check=True)
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", files)


def test_a_disk_that_fills_up_meanwhile(puller, hub, small_disk):
    files = files_of(SINGLE) | {"model.safetensors": os.urandom(8 << 20)}
    hub.add_hf("o/m", files)
    puller.home = small_disk / "models"
    puller.env["MUNIA_HOME"] = str(puller.home)
    hold = fs.Hold(0.2)
    hub.fault("/model.safetensors", hold, times=1)
    process = puller.start("hf:o/m")
    assert hold.reached.wait(60)
    filler = small_disk / "filler"
    with pytest.raises(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    hold.released.set()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1 and "No space left" in error and "pull again" in error, error
    assert puller.models() == []
    filler.unlink()
    puller.pull("hf:o/m")
    assert puller.is_whole("o--m", files)
    assert "range" in hub.asked("/model.safetensors")[-1][1]


# --- secrets and settings ---------------------------------------------------------------------

def test_the_token_goes_to_the_hub_alone(puller, hub):
    with FaultServer() as cdn:
        files = files_of(SINGLE)
        hub.add_hf("o/m", files)
        cdn.files["/blob"] = files["model.safetensors"]
        hub.fault("/model.safetensors", fs.redirect(cdn.url + "/blob?X-Signature=s3cret"))
        result = puller.run("pull", "hf:o/m", env={"HF_TOKEN": SECRET})
        assert result.returncode == 0, result.err
        assert all(headers["authorization"] == "Bearer " + SECRET for _, headers in hub.requests)
        assert len(cdn.requests) == 1 and "authorization" not in cdn.requests[0][1]
        # Neither to an address elsewhere, nor to ModelScope.
        cdn.files["/x.gguf"] = LLAMA_GGUF.read_bytes()
        puller.pull(cdn.url + "/x.gguf", env={"HF_TOKEN": SECRET})
        cdn.add_modelscope("o/ms", files)
        puller.pull("modelscope:o/ms", env={"HF_TOKEN": SECRET, "MODELSCOPE_DOMAIN": cdn.url})
        assert not any("authorization" in headers for _, headers in cdn.requests)
    for path in puller.home.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_refused_token_is_told_without_showing_it(puller, hub):
    hub.fault("/", fs.code(401))
    assert "set HF_TOKEN" in puller.pull_fails(3, "hf:o/m")
    error = puller.pull_fails(3, "hf:o/m", env={"HF_TOKEN": SECRET})
    assert "HF_TOKEN" in error and SECRET not in error
    hub.fault("/", fs.code(401))
    error = puller.pull_fails(2, "hf:o/m", env={"HF_TOKEN": SECRET + "\r\nX-Evil: 1"})
    assert "HF_TOKEN" in error and SECRET not in error and "Evil" not in error


@pytest.mark.parametrize("scheme", ["https", "ftp", "HTTPS"])
@pytest.mark.parametrize("tail", ["model.bin", "m.gguf/", "a b.gguf"])
def test_an_address_that_is_refused_shows_no_secret(puller, scheme, tail):
    url = f"{scheme}://user:pa55w0rd@127.0.0.1:1/{tail}?signature=s3cret#s3cret"
    errors = [puller.run("pull", url).err, puller.run("pull", "--name", "x", url).err,
              puller.run("tokenize", "--model", url, stdin="x").err, puller.run("rm", url).err,
              puller.run("bundle", url).err]
    for error in errors:
        assert "127.0.0.1" in error, error
        assert "pa55w0rd" not in error and "s3cret" not in error and "user:" not in error, error


@pytest.mark.parametrize("endpoint", ["hub.example", "ftp://hub.example", "https://a b", "http://h/?q=1"])
def test_an_endpoint_that_is_none(puller, endpoint):
    assert "HF_ENDPOINT" in puller.pull_fails(2, "hf:o/m", env={"HF_ENDPOINT": endpoint})


def test_offline_opens_no_socket(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE))
    assert "offline" in puller.pull_fails(3, "--offline", "hf:o/m")
    puller.pull_fails(3, "--offline", hub.url + "/m.gguf")
    puller.pull_fails(3, "--offline", "smollm2-135m-instruct")
    assert hub.requests == []
    puller.pull("hf:o/m")
    n_before = len(hub.requests)
    puller.pull("--offline", "hf:o/m")  # it is here
    assert len(hub.requests) == n_before


# --- bundles and local files ------------------------------------------------------------------

@pytest.fixture
def bundle(puller, hub):
    hub.add_hf("Qwen/Qwen3-0.6B", files_of(SINGLE))
    puller.pull("qwen3-0.6b")
    path = puller.munia.home / "stick" / "m.tar"
    path.parent.mkdir()
    result = puller.run("bundle", "qwen3-0.6b", "-o", str(path))
    assert result.returncode == 0, result.err
    assert "munia pull" in result.err and result.out.strip() == str(path)
    return path


def elsewhere(puller):
    """Another machine: another home, no hub."""
    other = Puller(puller.munia, puller.hub)
    other.home = puller.munia.home / "other"
    other.env = puller.env | {"MUNIA_HOME": str(other.home), "HF_ENDPOINT": "http://127.0.0.1:1"}
    return other


def test_bundle_to_a_machine_without_network(puller, hub, bundle):
    other = elsewhere(puller)
    n_before = len(hub.requests)
    model = other.pull("--offline", str(bundle))
    assert other.is_whole("qwen3-0.6b", files_of(SINGLE))
    (here,) = puller.models()
    same = ("name", "licence", "licence_address", "commercial_use", "origin", "origin_verified", "size_bytes")
    assert {key: model[key] for key in same} == {key: here[key] for key in same}
    assert model["source"] == "bundle of Hugging Face: Qwen/Qwen3-0.6B"
    other.answers("qwen3-0.6b")
    assert other.pull("--offline", str(bundle))["path"] == model["path"]  # twice is once
    assert len(hub.requests) == n_before
    again = bundle.with_name("again.tar")
    assert other.run("bundle", "qwen3-0.6b", "-o", str(again)).returncode == 0
    assert other.models()[0]["size_bytes"] == model["size_bytes"]


def test_bundles_are_equal_and_plain_tars(puller, bundle):
    again = bundle.with_name("again.tar")
    assert puller.run("bundle", "qwen3-0.6b", "-o", str(again)).returncode == 0
    assert again.read_bytes() == bundle.read_bytes()
    with tarfile.open(bundle) as tar:
        names = tar.getnames()
        assert names[0] == "qwen3-0.6b/munia-model.json"
        assert set(names[1:]) == {f"qwen3-0.6b/{name}" for name in files_of(SINGLE)}
        record = json.load(tar.extractfile(names[0]))
        for file in record["files"]:
            data = tar.extractfile("qwen3-0.6b/" + file["name"]).read()
            assert hashlib.sha256(data).hexdigest() == file["sha256"]


def test_a_bundle_is_not_written_over_nor_of_a_damaged_model(puller, bundle):
    before = bundle.read_bytes()
    assert puller.run("bundle", "qwen3-0.6b", "-o", str(bundle)).returncode == 2
    assert puller.run("bundle", "qwen3-0.6b", "-o", str(bundle.parent / "m.zip")).returncode == 2
    assert puller.run("bundle", "qwen3-0.6b", "-o", str(bundle.parent / "no" / "m.tar")).returncode == 2
    assert puller.run("bundle", "nothing", "-o", str(bundle.parent / "n.tar")).returncode == 3
    (puller.home / "qwen3-0.6b").rename(puller.home / "renamed")
    result = puller.run("bundle", "renamed", "-o", str(bundle.parent / "r.tar"))
    assert result.returncode == 3 and "renamed by hand" in result.err
    (puller.home / "renamed").rename(puller.home / "qwen3-0.6b")
    weights = puller.home / "qwen3-0.6b" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    result = puller.run("bundle", "qwen3-0.6b", "--force", "-o", str(bundle))
    assert result.returncode == 3 and "damaged" in result.err
    assert bundle.read_bytes() == before and [p.name for p in bundle.parent.iterdir()] == ["m.tar"]


def test_a_bundle_of_a_repository_has_its_name_here(puller, hub):
    hub.add_hf("o/m", files_of(SINGLE))
    puller.pull("hf:o/m")
    result = puller.run("bundle", "--json", "hf:o/m", cwd=puller.munia.home)
    assert result.returncode == 0, result.err
    written = json.loads(result.out)
    assert (written["name"], written["path"]) == ("o--m", "o--m.tar")
    assert elsewhere(puller).pull(str(puller.munia.home / "o--m.tar"))["name"] == "o--m"


@pytest.mark.parametrize("odd", ["my model.gguf", "模型 (1).gguf", "._x.gguf"])
def test_a_file_with_an_odd_name_goes_into_a_bundle_and_out_again(puller, odd):
    path = puller.munia.home / odd
    path.write_bytes(LLAMA_GGUF.read_bytes())
    assert Path(puller.pull("--name", "x", str(path))["path"]).name == "x.gguf"
    tar = puller.munia.home / "x.tar"
    assert puller.run("bundle", "x", "-o", str(tar)).returncode == 0
    other = elsewhere(puller)
    assert Path(other.pull(str(tar))["path"]).read_bytes() == path.read_bytes()
    other.answers("x")


def test_no_model_is_named_default(puller, bundle):
    assert "give another name" in puller.run("pull", str(LLAMA_GGUF), "--name", "default").err
    renamed = rewritten(bundle, lambda n, d: [(n.replace("qwen3-0.6b", "default"),
                                               d.replace(b'"qwen3-0.6b"', b'"default"'))])
    error = elsewhere(puller).pull_fails(2, str(renamed))
    assert "no model can be named" in error


def rewritten(bundle, change):
    """The bundle with its members passed through change(name, data) -> list of (name, data)."""
    import io

    path = bundle.with_name("changed.tar")
    with tarfile.open(bundle) as old, tarfile.open(path, "w") as new:
        for member in old.getmembers():
            for name, data in change(member.name, old.extractfile(member).read()):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                new.addfile(info, io.BytesIO(data))
    return path


BAD_BUNDLES = {
    "a flipped bit": lambda n, d: [(n, d[:-1] + bytes([d[-1] ^ 1]) if "tokenizer.json" in n else d)],
    "a file less": lambda n, d: [] if "tokenizer.json" in n else [(n, d)],
    "a file more": lambda n, d: [(n, d), ("qwen3-0.6b/evil.json", b"x")] if "tokenizer.json" in n else [(n, d)],
    "twice": lambda n, d: [(n, d), (n, d)] if "tokenizer.json" in n else [(n, d)],
    "a way out": lambda n, d: [("qwen3-0.6b/../../evil.json" if "tokenizer.json" in n else n, d)],
    "another name": lambda n, d: [(n.replace("qwen3-0.6b", "other"), d)],
    "no record": lambda n, d: [] if "munia-model" in n else [(n, d)],
    "a record of a way out": lambda n, d: [(n, d.replace(b"config.json", b"../evil.json"))],
    "a record that is none": lambda n, d: [(n, b"[]" if "munia-model" in n else d)],
}


@pytest.mark.parametrize("kind", BAD_BUNDLES)
def test_a_bundle_that_was_changed_is_refused(puller, bundle, kind):
    other = elsewhere(puller)
    error = other.pull_fails(3, str(rewritten(bundle, BAD_BUNDLES[kind])))
    assert "not a whole bundle" in error and "copy it again" in error
    assert not list(puller.munia.home.glob("**/evil*"))
    other.pull(str(bundle))
    assert other.is_whole("qwen3-0.6b", files_of(SINGLE))


def test_a_bundle_that_is_cut_or_none(puller, bundle):
    other = elsewhere(puller)
    cut = bundle.with_name("cut.tar")
    for size in (0, 100, 1000, bundle.stat().st_size // 2, bundle.stat().st_size - 20000):
        cut.write_bytes(bundle.read_bytes()[:size])
        other.pull_fails(3, str(cut))
    cut.write_bytes(os.urandom(10000))
    other.pull_fails(3, str(cut))
    other.pull_fails(3, str(bundle.with_name("none.tar")))
    other.pull(str(bundle))


def test_a_bundle_of_another_model_of_that_name(puller, bundle):
    other = elsewhere(puller)
    assert other.run("pull", str(SHARDED), "--name", "qwen3-0.6b").returncode == 0
    result = other.run("pull", str(bundle))
    assert result.returncode == 2 and "munia rm qwen3-0.6b" in result.err


def test_models_from_this_machine(puller, hub):
    assert puller.pull("--offline", str(LLAMA_GGUF))["name"] == LLAMA_GGUF.stem
    assert puller.pull("--offline", str(SINGLE) + "/", "--name", "mine")["name"] == "mine"
    puller.answers("mine")
    assert puller.run("pull", "--name", "x").returncode == 2
    assert puller.run("pull", "./nothing.gguf").returncode == 3
    assert "hf:ORG/REPO" in puller.run("pull", "Qwen/Qwen3-0.6B").err
    assert hub.requests == []

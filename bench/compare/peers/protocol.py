"""One protocol for all that are compared: a child process that reads one JSON object a line on
standard input, {"do": NAME, …}, and answers each with one JSON line on standard output: the result,
or {"error": "…"} when the call failed. Whatever the libraries print goes to standard error.

A peer is a class with load, prefill, decode and greedy; `do` names one of its public methods. Imports
happen in its constructor, before load is timed, so that nobody pays for Python.
"""

import json
import os
import random
import sys
import time

VOCAB_IN_USE = 151000  # below the special tokens of all models compared


def random_ids(n, seed):
    generator = random.Random(seed)
    return [generator.randrange(1000, VOCAB_IN_USE) for _ in range(n)]


def peak_memory_mb(pid="self"):
    """VmHWM of the process, in 10^6 bytes: the most memory that was resident at once."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"no VmHWM in /proc/{pid}/status")


def timed(call, *arguments):
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


class Peer:
    """What a peer must answer. Seconds are of one call; nothing is kept between calls but the model."""

    def version(self):
        raise NotImplementedError

    def load(self, model, threads, **options):
        raise NotImplementedError

    def generate(self, ids, n_new):
        """Greedy: exactly n_new ids after `ids`, end tokens ignored."""
        raise NotImplementedError

    def prefill_seconds(self, ids):
        """From the prompt to its first new token."""
        return timed(self.generate, ids, 1)

    def decode_seconds(self, ids, n_new):
        """n_new tokens after the prompt and the first one."""
        return timed(self.generate, ids, n_new + 1) - timed(self.generate, ids, 1)

    def peak_mb(self):
        return peak_memory_mb()

    # What the driver calls. Each measurement is preceded by one like it that is not counted.
    def do_version(self):
        return {"version": self.version()}

    def do_load(self, model, threads, **options):
        return {"seconds": timed(lambda: self.load(model, threads, **options))}

    def do_prefill(self, n, seed):
        self.prefill_seconds(random_ids(n, seed + 500))
        return {"seconds": self.prefill_seconds(random_ids(n, seed))}

    def do_decode(self, n_prompt, n, seed):
        self.decode_seconds(random_ids(n_prompt, seed + 500), n)
        return {"seconds": self.decode_seconds(random_ids(n_prompt, seed), n)}

    def do_greedy(self, ids, n):
        return {"ids": [int(token) for token in self.generate(ids, n)]}

    def do_memory(self):
        return {"peak_mb": self.peak_mb()}

    def close(self):
        pass


def serve(make_peer):
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    peer = make_peer()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(peer, "do_" + request.pop("do"))(**request)
        except Exception as error:  # reported to the driver, which lists it
            text = (str(error).strip() or repr(error)).splitlines()
            answer = {"error": f"{type(error).__name__}: {text[-1]}"[:400]}
        print(json.dumps(answer, ensure_ascii=False), file=answers, flush=True)
    peer.close()

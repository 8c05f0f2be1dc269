"""The logits of a sequence are the same bytes whatever is around it: instruction set, threads,
prefill chunks, batch, cached prefix, KV cache off. Compared by the program's own hash of the bytes
(test_exactness.py checks that the hash is of the bytes)."""

import numpy as np
import pytest

import munia_process as munia

TINY = munia.tiny_models()
tiny = pytest.mark.parametrize("golden, model", TINY, ids=[name for _, name in TINY])
real = pytest.mark.parametrize("name", munia.REAL_MODELS)
RUNG_FLAGS = {  # rung → CPU flags that it needs
    "scalar": set(),
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq"},
    "neon": {"asimd"},
    "neon_dotprod": {"asimddp"},
}
VARIANTS = [
    ("--threads", "1"),
    ("--threads", "2"),
    ("--threads", "1", "--prefill-chunk", "1"),
    ("--threads", "2", "--prefill-chunk", "5"),
    ("--threads", "1", "--prefill-chunk", "64"),
    ("--threads", "2", "--prefill-chunk", "100"),
    ("--kv-cache", "off"),
]


def rungs(names):
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = next((set(line.split()) for line in file if line.startswith(("flags", "Features"))), set())
    return [name for name in names if RUNG_FLAGS[name] <= flags]


def tile_rungs():
    """The rungs that add as AMX tiles do; the emulated one is slow."""
    (kernels,) = [row["value"] for row in munia.run("doctor", "--json", model=munia.MODELS / TINY[0][1],
                                                    lines=[]) if row["check"] == "kernels"]
    return ["amx-emulated"] * ("avx512" in kernels.split()) + ["amx"] * ("amx" in kernels.split())


def hashes(model, prompts, *flags, isa=None):
    return [line["hash"] for line in munia.logits(model, prompts, *flags, isa=isa)]


@tiny
def test_instruction_sets_agree(golden, model):
    path, prompts = munia.MODELS / model, golden.json["prompts"]
    found = {isa: hashes(path, prompts, isa=isa) for isa in rungs(RUNG_FLAGS)}
    print(f"rungs: {', '.join(found)}")
    assert all(other == found["scalar"] for other in found.values())
    on_tiles = {isa: hashes(path, prompts, isa=isa) for isa in tile_rungs()}
    print(f"on tiles: {', '.join(on_tiles) or 'none'}")
    assert all(other == on_tiles["amx-emulated"] for other in on_tiles.values())


@tiny
def test_threads_chunks_and_cache_do_not_matter(golden, model):
    path, prompts = munia.MODELS / model, golden.json["prompts"]
    expected = hashes(path, prompts)
    assert len(set(expected)) == len(expected)  # a hash that never changes would prove nothing
    for flags in VARIANTS:
        assert hashes(path, prompts, *flags) == expected, flags


@tiny
def test_batch_and_prefix_do_not_matter(golden, model):
    """Alone, together, and behind prompts that share a beginning (a cached prefix)."""
    path, prompts = munia.MODELS / model, golden.json["prompts"][:7]
    together = hashes(path, prompts)
    assert [hashes(path, [ids])[0] for ids in prompts] == together
    stem = golden.json["prompts"][8]  # 64 ids
    family = [stem, stem + [5], stem + [5, 6, 7], stem[:40] + [9], stem, stem[:1]]
    assert [hashes(path, [ids])[0] for ids in family] == hashes(path, family)


@tiny
def test_every_position_is_the_last_of_its_prefix(golden, model, tmp_path):
    path, ids = munia.MODELS / model, golden.json["prompts"][0]
    rows, _ = munia.all_logits(path, ids, tmp_path / "all.npy")
    assert [munia.hash_of(row) for row in rows] == hashes(path, [ids[: i + 1] for i in range(len(ids))])


def check_generate(path, prompts, n_new, variants):
    """Greedy and sampled (seeded) replies of a batch equal those alone, on every variant."""
    requests = [{"ids": ids, "max_tokens": n_new} for ids in prompts]
    requests += [{"ids": ids, "max_tokens": n_new, "temperature": 0.8, "seed": 7 + i}
                 for i, ids in enumerate(prompts)]
    keys = ("ids", "text", "finish_reason")
    together = [[result[key] for key in keys] for result in munia.generate(path, requests)]
    alone = [[munia.generate(path, [request])[0][key] for key in keys] for request in requests]
    assert alone == together
    for flags in variants:
        again = [[result[key] for key in keys] for result in munia.generate(path, requests, *flags)]
        assert again == together, flags


@tiny
def test_generate_alone_or_in_a_batch(golden, model):
    check_generate(munia.MODELS / model, golden.json["prompts"][:4], 24, VARIANTS)


@tiny
def test_score_alone_or_in_a_batch(golden, model):
    path = munia.MODELS / model
    requests = [{"ids": case["ids"], "continuations": case["continuations"]}
                for case in golden.json["scores"]]
    together = [result["logprobs"] for result in munia.score(path, requests)]
    assert [munia.score(path, [request])[0]["logprobs"] for request in requests] == together
    for flags in VARIANTS:
        assert [result["logprobs"] for result in munia.score(path, requests, *flags)] == together, flags


@real
def test_real_logits_are_the_same_bytes(name):
    path = munia.real_model(name)
    prompts = [row["ids"] for row in munia.real_golden(name, "logits")["prompts"]]
    prompts = [ids for ids in prompts if len(ids) <= 130][::3]
    expected = hashes(path, prompts)
    for flags in VARIANTS:
        some = slice(0, 4) if "off" in flags or "1" in flags[-1:] else slice(None)  # the slow ones
        assert hashes(path, prompts[some], *flags) == expected[some], flags
    if tile_rungs()[-1:] == ["amx"]:  # the default rung here; emulated tiles are slow
        assert hashes(path, prompts[:3], isa="amx-emulated") == hashes(path, prompts[:3], isa="amx")
    vectors = [name for name in RUNG_FLAGS if name != "scalar"]  # that one takes minutes
    plain = [hashes(path, prompts, isa=isa) for isa in rungs(vectors)]
    assert all(other == plain[0] for other in plain)
    assert [hashes(path, [ids])[0] for ids in prompts[:4]] == expected[:4]


@real
def test_real_generate_alone_or_in_a_batch(name):
    path = munia.real_model(name)
    cases = munia.real_golden(name, "greedy")["cases"]
    check_generate(path, [case["prompt_ids"] for case in cases[:4]], 16,
                   [("--threads", "1"), ("--prefill-chunk", "7")])

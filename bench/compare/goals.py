"""Medians, ratios and the goals, from a results file alone (run_compare.py says what stands in it).

A ratio is the median of the ratios of each round's pair, since the pair ran within minutes of each
other. "Best peer" is the one with the best median. A goal without the figures that it needs is open,
never passed.
"""

import statistics
from dataclasses import dataclass

KV_BYTES_PER_TOKEN = 24 * 2 * 1024 * 4  # layers, K and V, 16 heads of 64, float32
LONGEST = 512 + 1
MEMORY_FACTOR = 1.1
MEMORY_FACTOR_TWO_STEP = 1.25  # with the int8 copy of the head
FP32 = ("float32",)
LESS_IS_BETTER = ("prefill 64", "prefill 512", "decode", "decode sampled", "load", "peak_mb", "predict",
                  "emotion")


@dataclass
class Verdict:
    key: str
    text: str
    text_zh: str
    goal: float
    stretch: float | None
    value: float | None
    against: str  # the peer, or the limit
    at_most: bool = False  # the value may not exceed the goal

    @property
    def state(self):
        if self.value is None:
            return "open"
        good = (lambda limit: self.value <= limit) if self.at_most else (lambda limit: self.value >= limit)
        if self.stretch is not None and good(self.stretch):
            return "stretch"
        return "pass" if good(self.goal) else "short"


class Results:
    """Reads the samples of a results file by configuration, metric and round."""

    def __init__(self, raw):
        self.raw = raw
        self.configs = {c["name"]: c for c in raw["configs"]}
        self.table = {}
        for sample in raw["samples"]:
            by_round = self.table.setdefault((sample["config"], sample["metric"]), {})
            by_round[sample["round"]] = sample["value"]

    def values(self, config, metric):
        return list(self.table.get((config, metric), {}).values())

    def median(self, config, metric):
        values = self.values(config, metric)
        return statistics.median(values) if values else None

    def spread(self, config, metric):
        values = self.values(config, metric)
        return (min(values), max(values)) if values else None

    def times_better(self, ours, theirs, metric):
        """Median over the rounds in which both have a value; None when there is none."""
        a, b = self.table.get((ours, metric), {}), self.table.get((theirs, metric), {})
        rounds = sorted(a.keys() & b.keys())
        less = metric in LESS_IS_BETTER
        ratios = [b[i] / a[i] if less else a[i] / b[i] for i in rounds]
        return statistics.median(ratios) if ratios else None

    def best_peer(self, metric, group, arithmetic):
        """The peer (not munia) with the best median; None when there is none."""
        found = [(self.median(name, metric), name) for name, c in self.configs.items()
                 if c["peer"] != "munia" and c["group"] == group and c["arithmetic"] in arithmetic
                 and self.median(name, metric) is not None]
        if not found:
            return None
        return (min if metric in LESS_IS_BETTER else max)(found)[1]

    def against_best(self, ours, metric, group, arithmetic, their_metric=None):
        """(ratio, the peer's name)"""
        peer = self.best_peer(their_metric or metric, group, arithmetic)
        if peer is None:
            return None, "no FP32 peer ran" if arithmetic == FP32 else "no such peer ran"
        if their_metric:
            a, b = self.table.get((ours, metric), {}), self.table[(peer, their_metric)]
            ratios = [b[i] / a[i] for i in sorted(a.keys() & b.keys())]
            return (statistics.median(ratios) if ratios else None), peer
        return self.times_better(ours, peer, metric), peer


def verdicts(raw):
    r = Results(raw)
    has_amx = "amx" in (raw["configs"] and r.configs.get("munia exact", {}).get("isa") or "")
    amx_of = {True: "munia exact", False: "munia exact, avx512" if has_amx else "munia exact"}
    out = []

    def add(key, text, text_zh, goal, stretch, pair, at_most=False):
        out.append(Verdict(key, text, text_zh, goal, stretch, *pair, at_most))

    if has_amx:
        add("prefill_amx", "exact prefill 512 (AMX) / best FP32 peer",
            "exact 预填充 512（AMX）/ 最好的 FP32 同类", 3.0, None,
            r.against_best("munia exact", "prefill 512", "shape", FP32))
        add("prefill_amx_bf16", "exact prefill 512 (AMX) / best bf16 peer (the stretch)",
            "exact 预填充 512（AMX）/ 最好的 bf16 同类（更高目标）", 1.2, None,
            r.against_best("munia exact", "prefill 512", "shape", ("bfloat16",)))
    plain = amx_of[False]
    add("prefill", "exact prefill 512 (no AMX) / best FP32 peer",
        "exact 预填充 512（无 AMX）/ 最好的 FP32 同类", 1.4, None,
        r.against_best(plain, "prefill 512", "shape", FP32))
    add("prefill_share", "exact prefill 512 (no AMX), share of the measured FMA peak",
        "exact 预填充 512（无 AMX），占实测 FMA 峰值的比例", 0.85, 0.92,
        (r.median(plain, "share prefill 512"), "`munia bench`"))
    add("decode_sampled", "exact decode, all logits (drawn) / best FP32 peer",
        "exact 解码，全部 logits（采样）/ 最好的 FP32 同类", 2.3, 2.6,
        r.against_best("munia exact", "decode sampled", "shape", FP32, "decode"))
    add("decode_share", "exact decode, share of the measured bandwidth",
        "exact 解码，占实测带宽的比例", 0.9, None,
        (r.median("munia exact", "share decode"), "`munia bench`"))
    add("decode", "exact decode, greedy / best FP32 peer", "exact 解码，贪心 / 最好的 FP32 同类", 2.7, 3.2,
        r.against_best("munia exact", "decode", "shape", FP32))
    for mode, decode_goal in (("int8", 2.0), ("int4", 1.9)):
        add(f"{mode}_decode", f"{mode} decode / best {mode} peer", f"{mode} 解码 / 最好的 {mode} 同类",
            decode_goal, 2.5, r.against_best(f"munia {mode}", "decode", "shape", (mode,)))
        add(f"{mode}_share", f"{mode} decode, share of the measured bandwidth",
            f"{mode} 解码，占实测带宽的比例", 0.85, None,
            (r.median(f"munia {mode}", "share decode"), "`munia bench`"))
        if has_amx:
            add(f"{mode}_prefill_amx", f"{mode} prefill 512 (AMX) / best {mode} peer",
                f"{mode} 预填充 512（AMX）/ 最好的 {mode} 同类", 1.3, 1.8,
                r.against_best(f"munia {mode}", "prefill 512", "shape", (mode,)))
        ours = f"munia {mode}, avx512" if has_amx else f"munia {mode}"
        peers = {"int8": ("llama.cpp Q8_0",), "int4": ("llama.cpp Q4_0", "llama.cpp Q4_K_M")}[mode]
        ratios = [(r.times_better(ours, peer, "prefill 512"), peer) for peer in peers]
        add(f"{mode}_prefill", f"{mode} prefill 512 (no AMX) / llama.cpp",
            f"{mode} 预填充 512（无 AMX）/ llama.cpp", 2.5, None,
            min((pair for pair in ratios if pair[0] is not None), default=(None, "llama.cpp")))
    for metric, goal, stretch, zh in (("decode", 2.0, 3.0, "解码"), ("prefill 512", 3.0, 6.0, "预填充 512")):
        add(f"real_{metric.split()[0]}", f"the real Q4_K_M file, {metric} / llama.cpp",
            f"真实的 Q4_K_M 文件，{zh} / llama.cpp", goal, stretch,
            (r.times_better("munia exact, real file", "llama.cpp Q4_K_M, real file", metric),
             "llama.cpp Q4_K_M, real file"))
    add("load", "load from safetensors, s", "从 safetensors 加载，秒", 1.0, 0.5,
        (r.median("munia exact", "load"), "at most"), at_most=True)
    add("load_packed", "load the packed file, copied into huge pages, s", "加载打包文件（复制到大页），秒", 0.5,
        0.25, (r.median("munia exact, packed file", "load"), "at most"), at_most=True)
    peak, weights = r.median("munia exact", "peak_mb"), raw["machine"].get("shape_bf16_bytes")
    memory = peak * 1e6 / (weights + LONGEST * KV_BYTES_PER_TOKEN) if peak and weights else None
    add("memory", f"peak memory / (BF16 bytes + KV); {MEMORY_FACTOR_TWO_STEP} with the two-step head",
        f"内存峰值 /（BF16 字节 + KV）；用两步输出层时为 {MEMORY_FACTOR_TWO_STEP}", MEMORY_FACTOR_TWO_STEP,
        MEMORY_FACTOR, (memory, "at most"), at_most=True)
    for amx in ((True, False) if has_amx else (False,)):
        ours = "munia predict, avx512" if has_amx and not amx else "munia predict"
        mark, mark_zh = ("AMX", "AMX") if amx else ("no AMX", "无 AMX")
        add(f"emotion_{'amx' if amx else 'plain'}",
            f"emotion of a 30-token text ({mark}) / transformers, the article's prompt",
            f"30 个词元的情绪判断（{mark_zh}）/ transformers 用文章的提示", 10 if amx else 5, None,
            (r.times_better(ours, "article's script", "emotion"), "article's script"))
        add(f"predict_{'amx' if amx else 'plain'}", f"`predict` end to end ({mark}) / the article's script",
            f"`predict` 全程（{mark_zh}）/ 文章的脚本", 2.5, 4,
            (r.times_better(ours, "article's script", "predict"), "article's script"))
        add(f"bulk_{'amx' if amx else 'plain'}",
            f"bulk classify, texts/s ({mark}) / transformers, its best batch",
            f"批量分类，条/秒（{mark_zh}）/ transformers 的最佳批大小", 8 if amx else 4, None,
            (r.times_better(ours, "article's script", "bulk"), "article's script"))
    return out

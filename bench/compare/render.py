#!/usr/bin/env python3
"""Turns a results file of run_compare.py into a Markdown table and SVG plots beside it, and, with
--readme, puts them into README.md and README.zh.md between their markers. Needs no peer.

    bench/compare/render.py bench/results/DATE-MACHINE.json [--readme]
"""

import argparse
import json
import sys
from pathlib import Path

import svg
from goals import Results, verdicts
from plan import N_DECODE, N_GREEDY, REFERENCE_OF_GROUP

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- compare:begin -->", "<!-- compare:end -->"
MARKS = {"stretch": "✔✔", "pass": "✔", "short": "✘", "open": "–"}
PLOTS = {  # key → (metric, tokens, title)
    "prefill": ("prefill 512", 512, "Prompt of 512 tokens, tokens/s"),
    "decode": ("decode", N_DECODE, "Reply, tokens/s (greedy)"),
}
WORDS = {
    "en": {
        "engine": "engine, weights", "arithmetic": "numbers", "prefill 64": "prompt 64, tokens/s",
        "prefill 512": "prompt 512, tokens/s", "decode": "reply, tokens/s", "load": "load, s",
        "peak": "peak memory, MB", "agree": "same answer", "failed": "Did not run",
        "goal": "goal", "value": "measured", "against": "against", "state": "",
        "e2e": "end to end, real model", "predict": "emotion + reply, s a text",
        "emotion": "emotion, 30 tokens, ms", "bulk": "bulk labels, texts/s", "reply": "reply tokens",
        "caption": "{cpu}, {cores} cores, {threads} threads, {features}; {date}; medians of {rounds} "
                   "interleaved rounds. `make compare` measures it on your machine; every sample is in "
                   "[{file}]({link}).",
        "shape": "Qwen1.5-0.5B's shape with seeded random values (its real weights cannot be had on this "
                 "machine):",
        "real": "The real model `qwen2.5-coder-0.5b-packaged` (Q4_K_M), for the others decoded to float32:",
        "agree_note": f"“Same answer”: of {N_GREEDY} greedy tokens after one chat prompt (fewer where the model "
                      "ends its answer sooner), how many equal munia's from the start (only where "
                      "weights and arithmetic are the same).",
        "goal_head": "Goals (✔ reached, ✔✔ the stretch too, ✘ fell short, – not measured):",
    },
    "zh": {
        "engine": "引擎与权重", "arithmetic": "数值", "prefill 64": "64 词元提示，词元/秒",
        "prefill 512": "512 词元提示，词元/秒", "decode": "回复，词元/秒", "load": "加载，秒",
        "peak": "内存峰值，MB", "agree": "答案相同", "failed": "未能运行",
        "goal": "目标", "value": "实测", "against": "对比对象", "state": "",
        "e2e": "端到端，真实模型", "predict": "情绪 + 回复，秒/条",
        "emotion": "情绪，30 词元，毫秒", "bulk": "批量打标签，条/秒", "reply": "回复词元数",
        "caption": "{cpu}，{cores} 核，{threads} 线程，{features}；{date}；{rounds} 轮交替测量的中位数。"
                   "`make compare` 可在自己的机器上测量；所有原始数据见 [{file}]({link})。",
        "shape": "Qwen1.5-0.5B 的结构，随机数值（种子固定；真实权重在这台机器上无法取得）：",
        "real": "真实模型 `qwen2.5-coder-0.5b-packaged`（Q4_K_M），其他引擎使用解码成 float32 的权重：",
        "agree_note": f"“答案相同”：同一个对话提示之后贪心生成 {N_GREEDY} 个词元（模型提前结束时更少），从头起有多少个与 "
                      "munia 相同（仅在权重和运算精度相同时比较）。",
        "goal_head": "目标（✔ 达到，✔✔ 更高目标也达到，✘ 未达到，– 未测）：",
    },
}


def agreement(raw, config):
    """'16/16', or '' where weights or arithmetic differ or nothing was compared."""
    reference = REFERENCE_OF_GROUP.get(config["group"])
    theirs = config.get("greedy")
    ours = next((c.get("greedy") for c in raw["configs"] if c["name"] == reference), None)
    comparable = config["same_weights"] and config["arithmetic"] in ("float32", "mixed")
    if not (ours and theirs and comparable) or config["name"] == reference:
        return ""
    # munia ends where the model ends its answer; the others were told to go on.
    equal = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    return f"{equal}/{len(ours)}"


def predictions_agreement(raw, config, key, of):
    """'4/4': how many of `key` ("labels", "replies") are those of munia predict, by of(item)."""
    ours = next((c.get(key) for c in raw["configs"] if c["name"] == "munia predict"), None)
    theirs = config.get(key)
    if not (ours and theirs) or config["name"] == "munia predict":
        return ""
    pairs = list(zip(ours, theirs))
    return f"{sum(of(a) == of(b) for a, b in pairs)}/{len(pairs)}"


def labels_agreement(raw, config):
    return predictions_agreement(raw, config, "labels", lambda label: label)


def replies_agreement(raw, config):
    return predictions_agreement(raw, config, "replies", lambda reply: reply["reply"].strip())


def cell(value, digits=None):
    if value is None:
        return ""
    return svg.number(value) if digits is None else f"{value:,.{digits}f}"


def rate(results, name, metric, tokens):
    seconds = results.median(name, metric)
    return tokens / seconds if seconds else None


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def speed_table(raw, group, lang):
    w, r = WORDS[lang], Results(raw)
    rows = []
    for c in raw["configs"]:
        if c["group"] != group or r.median(c["name"], "prefill 512") is None:
            continue
        name = f"**{c['name']}**" if c["peer"] == "munia" else c["name"]
        rows.append([name, c["arithmetic"], *(cell(rate(r, c["name"], m, n)) for m, n in
                     (("prefill 64", 64), ("prefill 512", 512), ("decode", N_DECODE))),
                     cell(r.median(c["name"], "load")), cell(r.median(c["name"], "peak_mb"), 0),
                     agreement(raw, c)])
    head = [w[k] for k in ("engine", "arithmetic", "prefill 64", "prefill 512", "decode", "load", "peak",
                           "agree")]
    return table(head, rows) if rows else ""


def end_to_end_table(raw, lang):
    w, r = WORDS[lang], Results(raw)
    rows = []
    for c in raw["configs"]:
        if c["group"] != "e2e" or r.median(c["name"], "predict") is None:
            continue
        tokens = [x["tokens"] for x in c.get("replies", [])]
        emotion = r.median(c["name"], "emotion")
        agree = "; ".join(x for x in (replies_agreement(raw, c), labels_agreement(raw, c)) if x)
        name = f"**{c['name']}**" if c["peer"] == "munia" else c["name"]
        rows.append([name, cell(r.median(c["name"], "predict")), ", ".join(map(str, tokens)),
                     cell(emotion * 1e3 if emotion else None), cell(r.median(c["name"], "bulk")),
                     cell(r.median(c["name"], "peak_mb"), 0), agree])
    head = [w["e2e"], w["predict"], w["reply"], w["emotion"], w["bulk"], w["peak"], w["agree"]]
    return table(head, rows) if rows else ""


def goal_table(raw, lang):
    w = WORDS[lang]
    rows = []
    for v in verdicts(raw):
        sign = "≤" if v.at_most else "≥"
        goal = f"{sign} {v.goal:g}" + (f" ({v.stretch:g})" if v.stretch is not None else "")
        value = "" if v.value is None else f"{v.value:.2f}"
        against = "" if v.at_most else v.against
        rows.append([v.text if lang == "en" else v.text_zh, goal, value, against, MARKS[v.state]])
    return table([w["goal"], "", w["value"], w["against"], w["state"]], rows)


def failures(raw, lang):
    failed = [c for c in raw["configs"] if c.get("error")]
    if not failed:
        return ""
    lines = [f"- {c['name']}: `{c['error'].replace('`', chr(39))}`" for c in failed]
    return f"{WORDS[lang]['failed']}:\n" + "\n".join(lines)


def plots(raw):
    """{key: SVG text} of the shape's group, fastest first."""
    r, out = Results(raw), {}
    for key, (metric, tokens, title) in PLOTS.items():
        rows = []
        for c in raw["configs"]:
            spread = r.spread(c["name"], metric)
            if c["group"] == "shape" and spread:
                low, high = tokens / spread[1], tokens / spread[0]
                rows.append((c["name"], rate(r, c["name"], metric, tokens), low, high,
                             c["peer"] == "munia"))
        if rows:
            out[key] = svg.bars(f"{title}: {raw['machine']['cpu']}", sorted(rows, key=lambda x: -x[1]))
    return out


def section(raw, lang, link, with_goals):
    """Markdown; `link(name)` gives the address of a file of bench/results."""
    w, machine = WORDS[lang], raw["machine"]
    rounds = len({s["round"] for s in raw["samples"]})
    parts = [w["caption"].format(cpu=machine["cpu"], cores=machine["cores"], threads=raw["threads"],
                                 features=", ".join(machine["features"]), date=raw["date"], rounds=rounds,
                                 file=raw["file"], link=link(raw["file"]))]
    stem = Path(raw["file"]).stem
    parts += [f"![{PLOTS[key][2]}]({link(f'{stem}-{key}.svg')})" for key in plots(raw)]
    shape, real = speed_table(raw, "shape", lang), speed_table(raw, "real", lang)
    parts += [w["shape"], shape] if shape else []
    parts += [w["real"], real] if real else []
    parts += [w["agree_note"]] if shape or real else []
    parts += [end_to_end_table(raw, lang), failures(raw, lang)]
    if with_goals:
        parts += [w["goal_head"], goal_table(raw, lang)]
    return "\n\n".join(part for part in parts if part) + "\n"


def replace_section(text, body):
    """Between the markers; an error where they are not there once each, in order."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"needs one {BEGIN} and one {END} behind it")
    return text[:text.index(BEGIN) + len(BEGIN)] + "\n" + body + text[text.index(END):]


def load(path):
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    if raw.get("format") != 1:
        raise ValueError(f"{path}: format {raw.get('format')}, this script reads 1")
    raw["file"] = Path(path).name
    return raw


def render_files(path, readme=False, root=ROOT):
    path = Path(path)
    raw = load(path)
    for key, text in plots(raw).items():
        path.with_name(f"{path.stem}-{key}.svg").write_text(text, encoding="utf-8")
    body = section(raw, "en", lambda name: name, with_goals=True)
    path.with_suffix(".md").write_text(body, encoding="utf-8")
    print(body)
    print(f"{path.with_suffix('.md')}", file=sys.stderr)
    if readme:
        for name, lang in (("README.md", "en"), ("README.zh.md", "zh")):
            file = root / name
            new = section(raw, lang, lambda other: f"bench/results/{other}", with_goals=True)
            file.write_text(replace_section(file.read_text(encoding="utf-8"), new), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--readme", action="store_true")
    options = parser.parse_args()
    try:
        render_files(options.results, options.readme)
    except (OSError, ValueError, KeyError) as error:
        print(f"render: {options.results}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

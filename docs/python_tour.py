#!/usr/bin/env python3
"""A tour of the Python package: load, predict, stream, label a DataFrame, learn a head, plot.

    docs/python_tour.py MODEL [PLOT.png]

MODEL is what `munia pull` printed: a directory, a .gguf or a .munia file. Needs pandas,
scikit-learn and matplotlib beside munia.
"""

import asyncio
import sys

import matplotlib

matplotlib.use("Agg")  # to a file, no window

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import cross_val_score

import munia
from munia.sklearn import MuniaClassifier

GOOD = [
    "味道很好，下次还来。", "送得很快，包装也结实。", "房间干净，老板热情。", "屏幕清楚，声音也好。",
    "孩子很喜欢这本书。", "比想象的还要好用。", "早餐丰富，位置方便。", "客服耐心，问题马上解决了。",
    "面料舒服，尺码正合适。", "质量不错，价格公道。", "风景太美了，值得一去。", "电池耐用，手感很好。",
]
BAD = [
    "味道很差，再也不来了。", "等了两个小时还没送到。", "房间又脏又吵，没法睡。", "屏幕有坏点，声音刺耳。",
    "书里缺了好几页。", "用了一天就坏了。", "早餐难吃，位置偏僻。", "客服不理人，问题没解决。",
    "面料扎人，尺码也不对。", "质量太差，还这么贵。", "人山人海，白跑一趟。", "充电半天，一会儿就没电。",
]


def predict(model):
    """The feeling of a text and a reply to it, in one call."""
    result = model.predict("今天的实验终于成功了，太棒了！", max_tokens=40)
    print(f"{result.emoji} {result.emotion} ({result.confidence:.0%})")
    print(f"reply: {result.reply}")


def stream(model):
    """A reply while it is made, once by `for` and twice at the same time by `async for`."""
    print("stream: ", end="")
    with model.chat("用一句话介绍你自己。", max_tokens=32, stream=True) as pieces:
        for piece in pieces:
            print(piece, end="", flush=True)
    print(f"\n({pieces.result.usage.completion_tokens} tokens, "
          f"the first after {pieces.result.first_token_ms:.0f} ms)")

    async def read(text):
        pieces = [piece async for piece in model.chat(text, max_tokens=16, stream=True)]
        return "".join(pieces)

    async def both():
        return await asyncio.gather(read("早上好！"), read("晚安！"))

    for reply in asyncio.run(both()):
        print(f"async: {reply}")


def label_frame(model):
    """A column of texts gets a column of labels, and one of probabilities."""
    frame = pd.DataFrame({"review": GOOD + BAD, "label": ["正面"] * len(GOOD) + ["负面"] * len(BAD)})
    labelled = model.classify(frame["review"])
    frame["found"] = [one.label for one in labelled]
    frame["confidence"] = [one.confidence for one in labelled]
    print(frame.head(3).to_string(index=False))
    print(f"as it is: {(frame['found'] == frame['label']).mean():.0%} right")
    return frame


def fit_head(model, frame):
    """A head learned from the frame's own labels, judged by cross-validation, and kept as a task."""
    scores = cross_val_score(MuniaClassifier(model), frame["review"], frame["label"], cv=3)
    print(f"with a head: {scores.mean():.0%} right on rows that it was not learned from")
    classifier = MuniaClassifier(model).fit(frame["review"], frame["label"])
    print(f"{classifier.task_} reads layers {classifier.task_.head_layers}")
    return classifier


def plot(model, classifier, frame, path):
    """Two directions of the last block's states, a dot a text; the colour is the head's opinion."""
    states = pd.DataFrame([model.hidden(text).mean(axis=0) for text in frame["review"]])
    states -= states.mean()
    spread = states.std().nlargest(2).index
    p = classifier.predict_proba(frame["review"])[:, list(classifier.classes_).index("正面")]
    dots = plt.scatter(states[spread[0]], states[spread[1]], c=p, cmap="RdYlGn", vmin=0, vmax=1)
    plt.colorbar(dots, label="p(positive)")
    plt.xlabel(f"hidden {spread[0]}")
    plt.ylabel(f"hidden {spread[1]}")
    plt.title(model.info.name)
    plt.savefig(path, dpi=120)
    print(f"plot: {path}")


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: docs/python_tour.py MODEL [PLOT.png]")
    with munia.Model(sys.argv[1]) as model:
        print(f"{model.info.name}: {model.info.n_layers} layers, {model.info.weights}, "
              f"{model.info.threads} threads")
        predict(model)
        stream(model)
        frame = label_frame(model)
        classifier = fit_head(model, frame)
        plot(model, classifier, frame, sys.argv[2] if len(sys.argv) > 2 else "munia_tour.png")


if __name__ == "__main__":
    main()

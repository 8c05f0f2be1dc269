"""munia: a small chat model on a plain CPU.

    import munia

    model = munia.Model("qwen1.5-0.5b-chat.gguf")
    print(model.predict("今天的实验终于成功了！").reply)
    for piece in model.chat("你好", stream=True):
        print(piece, end="", flush=True)

A Model may be used from several threads; what they ask at the same time is computed together, and
each result is the same bytes as if it were alone. No call holds the GIL while it computes, and
Ctrl-C ends it. Models that are still open are closed when the interpreter exits.
"""

from munia._model import Model
from munia._munia import ModelError, __version__
from munia._results import Beam, Generated, Labelled, ModelInfo, Predicted, Rendered, Usage
from munia._stream import Stream
from munia._task import Task

__all__ = [
    "Beam",
    "Generated",
    "Labelled",
    "Model",
    "ModelError",
    "ModelInfo",
    "Predicted",
    "Rendered",
    "Stream",
    "Task",
    "Usage",
    "__version__",
]

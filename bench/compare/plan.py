"""What is compared: the configurations (a peer, a model made for it, its arithmetic), the models and
how each is made, and the order of the measurements. Data and small pure functions; starts nothing.
"""

from dataclasses import dataclass, field

PREFILLS = (64, 512)
N_DECODE = 32
N_DECODE_PROMPT = 16
N_GREEDY = 16
N_EMOTION_TEXTS = 9  # the first one warms up
N_BULK_TEXTS = 200
REPLY_CAP = 128

PEERS = ("munia", "transformers", "llamacpp", "ctranslate2", "openvino", "ort_genai")


@dataclass(frozen=True)
class Config:
    name: str
    peer: str
    group: str  # "shape": speed; "real": speed and truth; "e2e": end to end on the real model
    artifact: str  # a key of ARTIFACTS
    arithmetic: str  # "float32", "bfloat16", "int8", "int4", "mixed"
    same_weights: bool = True  # so greedy ids should equal munia's
    options: dict = field(default_factory=dict, hash=False)  # of the peer's load
    jobs: tuple = ("speed",)
    needs_amx: bool = False


@dataclass(frozen=True)
class Artifact:
    """How a model comes to be: a command in an environment. Placeholders: {python} and {bin} of the
    environment, {models} the directory of models, {out} where to write, {here} bench/compare, {gguf}
    the real file, {munia} the program, {cache}, {threads}."""

    environment: str
    command: tuple = ()
    file: str = ""  # under {models}; "" with no command: the real GGUF itself
    after: tuple = ()


def _hf(part, file):
    return Artifact("reference", ("{python}", "{here}/models.py", part, "{out}", "{gguf}"), file)


def _artifacts():
    table = {
        "shape": _hf("shape", "shape"),
        "real": _hf("real", "real-f32"),
        "real-gguf": Artifact("none"),
        "shape-packed": Artifact("none", ("{munia}", "pack", "--model", "{models}/shape", "-o", "{out}"),
                                 "shape.munia", ("shape",)),
    }
    for dtype in ("F32", "BF16", "F16"):
        made = Artifact("reference", ("{python}", "{here}/models.py", f"gguf-{dtype}", "{out}", "{gguf}"),
                        f"shape-{dtype}.gguf", ("shape",))
        table[f"shape-{dtype}"] = made
    for kind in ("Q8_0", "Q4_0", "Q4_K_M"):
        table[f"shape-{kind}"] = Artifact(
            "llamacpp", ("{python}", "{here}/peers/llamacpp_peer.py", "quantize",
                         "{models}/shape-F32.gguf", "{out}", kind, "{threads}"),
            f"shape-{kind}.gguf", ("shape-F32",))
    sources = {"shape": "shape", "real": "real-f32"}
    for group, source in sources.items():
        for kind in ("float32", "int8"):
            table[f"{group}-ct2-{kind}"] = Artifact(
                "ctranslate2", ("{bin}/ct2-transformers-converter", "--model", "{models}/" + source,
                                "--output_dir", "{out}", "--quantization", kind),
                f"{group}-ct2-{kind}", (group,))
        for kind in ("fp32", "int8", "int4"):
            table[f"{group}-ov-{kind}"] = Artifact(
                "openvino", ("{bin}/optimum-cli", "export", "openvino", "--model", "{models}/" + source,
                             "--task", "text-generation-with-past", "--weight-format", kind, "{out}"),
                f"{group}-ov-{kind}", (group,))
        for kind in ("fp32", "int4"):
            extra = ("--extra_options", "int4_accuracy_level=4") if kind == "int4" else ()
            table[f"{group}-ort-{kind}"] = Artifact(
                "ort_genai", ("{python}", "-m", "onnxruntime_genai.models.builder", "-m",
                              "{models}/" + source, "-o", "{out}", "-p", kind, "-e", "cpu", "-c",
                              "{cache}", *extra),
                f"{group}-ort-{kind}", (group,))
    return table


ARTIFACTS = _artifacts()


def _speed_configs():
    def lossy(name, peer, group, artifact, arithmetic, **options):
        return Config(name, peer, group, artifact, arithmetic, False, options)

    speed_and_sampled = ("speed", "sampled")
    yield Config("munia exact", "munia", "shape", "shape", "float32", jobs=speed_and_sampled)
    yield Config("munia exact, packed file", "munia", "shape", "shape-packed", "float32")
    yield Config("munia exact, avx512", "munia", "shape", "shape", "float32", options={"isa": "avx512"},
                 jobs=speed_and_sampled, needs_amx=True)
    yield Config("munia exact, avx2", "munia", "shape", "shape", "float32", options={"isa": "avx2"})
    for mode in ("int8", "int4"):
        yield lossy(f"munia {mode}", "munia", "shape", "shape", mode, weights=mode)
        yield Config(f"munia {mode}, avx512", "munia", "shape", "shape", mode, False,
                     {"weights": mode, "isa": "avx512"}, needs_amx=True)
    yield Config("transformers float32", "transformers", "shape", "shape", "float32",
                 options={"dtype": "float32"})
    yield lossy("transformers bfloat16", "transformers", "shape", "shape", "bfloat16", dtype="bfloat16")
    yield Config("llama.cpp F32", "llamacpp", "shape", "shape-F32", "float32")
    yield lossy("llama.cpp BF16", "llamacpp", "shape", "shape-BF16", "bfloat16")
    yield lossy("llama.cpp F16", "llamacpp", "shape", "shape-F16", "bfloat16")
    yield lossy("llama.cpp Q8_0", "llamacpp", "shape", "shape-Q8_0", "int8")
    yield lossy("llama.cpp Q4_0", "llamacpp", "shape", "shape-Q4_0", "int4")
    yield lossy("llama.cpp Q4_K_M", "llamacpp", "shape", "shape-Q4_K_M", "int4")
    yield Config("CTranslate2 float32", "ctranslate2", "shape", "shape-ct2-float32", "float32",
                 options={"compute_type": "float32"})
    yield lossy("CTranslate2 int8", "ctranslate2", "shape", "shape-ct2-int8", "int8", compute_type="int8")
    yield Config("OpenVINO f32", "openvino", "shape", "shape-ov-fp32", "float32",
                 options={"precision": "f32"})
    yield lossy("OpenVINO bf16", "openvino", "shape", "shape-ov-fp32", "bfloat16", precision="bf16")
    yield lossy("OpenVINO int8", "openvino", "shape", "shape-ov-int8", "int8", precision="bf16")
    yield lossy("OpenVINO int4", "openvino", "shape", "shape-ov-int4", "int4", precision="bf16")
    yield Config("ONNX Runtime fp32", "ort_genai", "shape", "shape-ort-fp32", "float32")
    yield lossy("ONNX Runtime int4", "ort_genai", "shape", "shape-ort-int4", "int4")
    yield Config("munia exact, real file", "munia", "real", "real-gguf", "float32")
    # llama.cpp rounds activations to 8 bits here: the weights are the same, the arithmetic is not.
    yield Config("llama.cpp Q4_K_M, real file", "llamacpp", "real", "real-gguf", "mixed")
    yield Config("transformers float32, real weights", "transformers", "real", "real", "float32",
                 options={"dtype": "float32"})
    yield Config("CTranslate2 float32, real weights", "ctranslate2", "real", "real-ct2-float32",
                 "float32", options={"compute_type": "float32"})
    yield Config("OpenVINO f32, real weights", "openvino", "real", "real-ov-fp32", "float32",
                 options={"precision": "f32"})
    yield Config("ONNX Runtime fp32, real weights", "ort_genai", "real", "real-ort-fp32", "float32")


def _end_to_end_configs():
    yield Config("munia predict", "munia", "e2e", "real-gguf", "float32",
                 jobs=("predict", "emotion", "bulk"))
    yield Config("munia predict, avx512", "munia", "e2e", "real-gguf", "float32",
                 options={"isa": "avx512"}, jobs=("predict", "emotion", "bulk"), needs_amx=True)
    for mode in ("int8", "int4"):
        yield Config(f"munia predict, {mode}", "munia", "e2e", "real-gguf", mode, False,
                     {"weights": mode}, jobs=("predict", "emotion", "bulk"))
    yield Config("article's script", "transformers", "e2e", "real", "float32",
                 options={"dtype": "float32"}, jobs=("predict", "emotion", "bulk"))
    yield Config("two models (BERT-base + Qwen)", "transformers", "e2e", "real", "float32",
                 options={"dtype": "float32", "bert": True}, jobs=("predict", "emotion"))


CONFIGS = (*_speed_configs(), *_end_to_end_configs())
# munia's configuration that the greedy ids of a group must equal.
REFERENCE_OF_GROUP = {"shape": "munia exact", "real": "munia exact, real file"}


def select(configs, only, has_amx):
    """Those of the peers in `only` (empty: all) that this machine can tell apart. munia stays in: the
    ratios are against it."""
    unknown = set(only) - set(PEERS)
    if unknown:
        raise ValueError(f"unknown peer {', '.join(sorted(unknown))}: known are {', '.join(PEERS)}")
    wanted = {*only, "munia"} if only else set(PEERS)
    return [c for c in configs if c.peer in wanted and (has_amx or not c.needs_amx)]


def interleave(names, n_rounds, done=()):
    """A B C A B C …: (round, name), without the pairs in `done`."""
    done = set(done)
    return [(i, name) for i in range(n_rounds) for name in names if (i, name) not in done]

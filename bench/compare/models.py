"""The models that are compared, made once under build/compare/models and reused:

  shape/       Qwen1.5-0.5B's exact shape with seeded random BF16 values: for speed. Its real weights
               are not needed for that, and cannot be had everywhere.
  real-f32/    the real Qwen2.5-Coder-0.5B GGUF decoded to float32: the same weights for peers that
               cannot read the file.
  shape-*.gguf the shape for llama.cpp (F32, BF16, F16; quantize.py makes the quantized ones).

Runs in the reference environment (torch, transformers, gguf): models.py PART OUT REAL_GGUF.
Every part is written beside its place and renamed, so that what is there is whole.
"""

import json
import shutil
import sys
from pathlib import Path

# The published configuration of Qwen1.5-0.5B.
QWEN15_05B = {
    "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 24,
    "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "bos_token_id": 151643,
    "eos_token_id": 151645, "initializer_range": 0.02,
}
ROPE_THETA = 1000000.0
SEED = 20240204

# Tensor names of a Qwen2 layer: Hugging Face's and GGUF's.
LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight", "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.weight": "attn_k.weight", "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}


def make_shape(out, real_gguf):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(SEED)
    config = Qwen2Config(**QWEN15_05B,
                         rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA})
    model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    for name, values in model.named_parameters():
        if name.endswith("bias"):  # they start as zeros, which would hide a forgotten bias
            values.data.normal_(0.0, 0.02)
    model.save_pretrained(out)
    save_tokenizer(out, real_gguf)
    # Keys that readers of older configurations look for.
    path = out / "config.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw |= {"rope_theta": ROPE_THETA, "torch_dtype": "bfloat16"}
    path.write_text(json.dumps(raw, indent=1), encoding="utf-8")


def make_real(out, real_gguf):
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        real_gguf.parent, gguf_file=real_gguf.name, dtype=torch.float32)
    # save_pretrained refuses a model that came from a GGUF, decoded or not.
    out.mkdir(parents=True)
    state = {name: values.contiguous() for name, values in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del state["lm_head.weight"]
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})
    del model.config.quantization_config
    model.config.save_pretrained(out)
    save_tokenizer(out, real_gguf)
    path = out / "config.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    rope = raw.get("rope_parameters") or {}
    raw |= {"rope_theta": raw.get("rope_theta", rope.get("rope_theta")), "torch_dtype": "float32",
            "architectures": ["Qwen2ForCausalLM"]}
    path.write_text(json.dumps(raw, indent=1), encoding="utf-8")


def save_tokenizer(out, real_gguf):
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(real_gguf.parent, gguf_file=real_gguf.name).save_pretrained(out)


def make_gguf(out, shape, real_gguf, dtype):
    """The shape as a GGUF of F32, BF16 or F16 matrices (vectors stay F32); the tokenizer's entries
    are those of the real file."""
    import gguf
    import numpy as np
    import torch
    from safetensors import safe_open

    writer = gguf.GGUFWriter(out, "qwen2")
    c = QWEN15_05B
    writer.add_name("qwen1.5-0.5b-shape")
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_rope_freq_base(ROPE_THETA)
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_file_type({"F32": 0, "F16": 1, "BF16": 32}[dtype])
    for name, field in gguf.GGUFReader(real_gguf).fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    kinds = gguf.GGMLQuantizationType
    with safe_open(shape / "model.safetensors", "pt") as tensors:
        for name in tensors.keys():
            values = tensors.get_tensor(name)
            target = gguf_name(name)
            if values.ndim == 1 or dtype == "F32":
                writer.add_tensor(target, values.to(torch.float32).numpy())
            elif dtype == "F16":
                writer.add_tensor(target, values.to(torch.float16).numpy())
            else:
                raw = values.view(torch.int16).numpy().view(np.uint8)
                writer.add_tensor(target, raw, raw_shape=raw.shape, raw_dtype=kinds.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name):
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[rest]}"


def main():
    part, out, real_gguf = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    unfinished = out.with_name(out.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.unlink(missing_ok=True)
    if part == "shape":
        make_shape(unfinished, real_gguf)
    elif part == "real":
        make_real(unfinished, real_gguf)
    else:
        make_gguf(unfinished, out.parent / "shape", real_gguf, part.removeprefix("gguf-"))
    unfinished.rename(out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes tests/goldens/files and the seeds of tests/corpus/{gguf,safetensors}_fuzz.

Valid files are written by the reference packages (gguf, safetensors) with seeded values, and the
expected contents are what the reference readers give back. Broken seeds are cut or changed copies.
Usage: tools/make_files_goldens.py   (needs numpy, gguf, safetensors; versions in SOURCE.md)
"""

import json
import struct
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np
from safetensors import deserialize
from safetensors.numpy import save

ROOT = Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "goldens" / "files"
CORPUS = ROOT / "tests" / "corpus"
Q = gguf.GGMLQuantizationType

SOURCE = """# Source of these files
Written by `tools/make_files_goldens.py` (run it again to check: the output is the same bytes).
- `tiny.gguf`: by the `gguf` package, seeded random values; `tiny.gguf.json`: what
  `gguf.GGUFReader` reads back from it.
- `tiny.safetensors`: by the `safetensors` package; `tiny.safetensors.json`: what
  `safetensors.deserialize` reads back.

Versions: gguf {gguf}, safetensors {safetensors}, numpy {numpy}.
"""


def raw_blocks(rng, qtype, n_rows, n_cols):
    """Random bytes of a block type, as [n_rows, bytes of a row] u8."""
    block, size = gguf.GGML_QUANT_SIZES[qtype]
    return rng.integers(0, 256, (n_rows, n_cols // block * size), dtype=np.uint8)


def write_gguf(path, types, with_values=True):
    rng = np.random.default_rng(20)
    writer = gguf.GGUFWriter(path, "qwen2")
    if with_values:
        writer.add_uint8("test.u8", 200)
        writer.add_int8("test.i8", -100)
        writer.add_uint16("test.u16", 60000)
        writer.add_int16("test.i16", -30000)
        writer.add_uint32("test.u32", 4_000_000_000)
        writer.add_int32("test.i32", -2_000_000_000)
        writer.add_uint64("test.u64", 1 << 62)
        writer.add_int64("test.i64", -(1 << 62))
        writer.add_float32("test.f32", 1e-6)
        writer.add_float64("test.f64", 0.1)
        writer.add_bool("test.bool", True)
        writer.add_string("test.text", "快乐 ok\n")
        writer.add_array("test.strings", ["a", "快乐", "", "Ġthe"])
        writer.add_array("test.ints", [1, -2, 3])
        writer.add_array("test.floats", [0.5, -0.25])
    for qtype in types:
        name = f"blk.0.{qtype.name.lower()}.weight"
        if qtype in (Q.F32, Q.F16):
            values = rng.standard_normal((2, 3)).astype(np.float32 if qtype == Q.F32 else np.float16)
            writer.add_tensor(name, values)
        else:
            n_cols = gguf.GGML_QUANT_SIZES[qtype][0]
            n_cols = 6 if n_cols == 1 else n_cols * 2
            writer.add_tensor(name, raw_blocks(rng, qtype, 3, n_cols), raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def plain(value):
    """A metadata value as JSON: numpy scalars to numbers."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def gguf_listing(path):
    reader = gguf.GGUFReader(path)
    metadata = {
        key: plain(field.contents()) for key, field in reader.fields.items() if key[:5] != "GGUF."
    }
    tensors = [
        {
            "name": tensor.name,
            "type": tensor.tensor_type.name,
            "shape": [int(extent) for extent in reversed(tensor.shape)],
            "bytes": np.ascontiguousarray(tensor.data).tobytes().hex(),
        }
        for tensor in reader.tensors
    ]
    return {"metadata": metadata, "tensors": tensors}


def write_safetensors(path):
    rng = np.random.default_rng(21)
    tensors = {
        "model.norm.weight": rng.standard_normal(5).astype(np.float32),
        "model.embed.weight": rng.standard_normal((4, 3)).astype(np.float16),
        "scalar": np.array(2.5, dtype=np.float32),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "ids": np.arange(6, dtype=np.int64).reshape(2, 3),
    }
    path.write_bytes(save(tensors, {"format": "pt"}))


def safetensors_listing(path):
    tensors = [
        {"name": name, "type": t["dtype"], "shape": list(t["shape"]), "bytes": bytes(t["data"]).hex()}
        for name, t in deserialize(path.read_bytes())
    ]
    return {"tensors": sorted(tensors, key=lambda tensor: tensor["name"])}


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def seeds(folder, valid, other):
    """The valid files, and from each some cut and changed copies."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in (valid | other).items():
        (folder / name).write_bytes(data)
    for name, data in valid.items():
        for part in (4, 2):
            (folder / f"{name}_cut_{part}").write_bytes(data[: len(data) * (part - 1) // part])
        for where in (8, 16, len(data) // 3):
            changed = data[:where] + bytes([data[where] ^ 0xFF]) + data[where + 1 :]
            (folder / f"{name}_changed_{where}").write_bytes(changed)


def st(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def main():
    GOLDENS.mkdir(parents=True, exist_ok=True)
    all_types = [t for t in gguf.GGML_QUANT_SIZES if t in set(Q)]
    write_gguf(GOLDENS / "tiny.gguf", all_types)
    write_json(GOLDENS / "tiny.gguf.json", gguf_listing(GOLDENS / "tiny.gguf"))
    write_safetensors(GOLDENS / "tiny.safetensors")
    write_json(GOLDENS / "tiny.safetensors.json", safetensors_listing(GOLDENS / "tiny.safetensors"))
    packages = {name: version(name) for name in ("gguf", "safetensors", "numpy")}
    (GOLDENS / "SOURCE.md").write_text(SOURCE.format(**packages), encoding="utf-8")

    small = GOLDENS / "small.gguf"
    write_gguf(small, [Q.F32, Q.Q8_0])
    values = small.read_bytes()
    write_gguf(small, [Q.F16, Q.Q4_K], with_values=False)
    tensors = small.read_bytes()
    small.unlink()
    header = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1)
    key = struct.pack("<Q1s", 1, b"k")
    seeds(
        CORPUS / "gguf_fuzz",
        {"values": values, "tensors": tensors, "v2": tensors[:4] + b"\2" + tensors[5:]},
        {
            "empty": b"",
            "zip": b"PK\3\4",
            "v1": tensors[:4] + b"\1" + tensors[5:],
            "big_endian": struct.pack(">4sIQQ", b"GGUF", 3, 0, 0),
            "no_tensors": struct.pack("<4sIQQ", b"GGUF", 3, 0, 0),
            "huge_counts": struct.pack("<4sIQQ", b"GGUF", 3, 1 << 63, 1 << 63),
            "huge_string": header + key + struct.pack("<IQ", 8, (1 << 64) - 1),
            "huge_array": header + key + struct.pack("<IIQ", 9, 8, 1 << 61),
            "nested_array": header + key + struct.pack("<IIQIQ", 9, 9, 1, 0, 0),
        },
    )
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    big = {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 8]}
    seeds(
        CORPUS / "safetensors_fuzz",
        {
            "tiny": (GOLDENS / "tiny.safetensors").read_bytes(),
            "escaped": st({'a"é': one, "b": {**one, "data_offsets": [8, 16]}}, b"d" * 16),
        },
        {
            "empty": b"",
            "no_tensors": st({}),
            "huge_header": struct.pack("<Q", (1 << 64) - 1) + b"{}",
            "huge_shape": st({"a": big}, b"d" * 8),
            "hole": st({"a": {**one, "data_offsets": [8, 16]}}, b"d" * 16),
            "overlap": st({"a": one, "b": one}, b"d" * 8),
            "doubled": st(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"dtype":"U8"}}'),
            "deep": st(b'{"a":' + b"[" * 200),
        },
    )


if __name__ == "__main__":
    main()

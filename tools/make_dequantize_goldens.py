"""Writes tests/goldens/kernels/dequantize.bin: seeded random GGUF blocks of every quantized type
and the float32 values that the `gguf` package (the reference implementation) decodes them to.

    python tools/make_dequantize_goldens.py

The file: per type {u32 id of gguf, u32 n_rows, u32 n_cols, u32 source bytes, the blocks, the
float32 values row by row}, little-endian. Codes are random bits; the scales are random finite
halves of either sign, subnormal ones included.
"""

import pathlib
import struct

import gguf
import numpy as np
from gguf.quants import dequantize

N_ROWS = 3
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
SMALL_K = ["Q2_K", "Q3_K"]  # in a file of their own: they have no packed form
# (first byte, number of halves) of the f16 fields of a block
HALVES = {"Q4_0": (0, 1), "Q4_1": (0, 2), "Q5_0": (0, 1), "Q5_1": (0, 2), "Q8_0": (0, 1),
          "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208, 1), "Q2_K": (80, 2), "Q3_K": (108, 1)}


def blocks_and_values(types, seed):
    """Per type: its id, rows, columns, bytes of all rows; the rows; their values as float32."""
    rng = np.random.default_rng(seed)
    out = bytearray()
    for name in types:
        kind = gguf.GGMLQuantizationType[name]
        block_cols, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        n_cols = 512 if block_cols == 256 else 288
        blocks = rng.integers(
            0, 256, (N_ROWS, n_cols // block_cols, block_bytes), dtype=np.uint8)
        first, n_halves = HALVES[name]
        scale = rng.choice([1e-7, 1e-3, 1.0], blocks.shape[:2] + (n_halves,))
        halves = (rng.standard_normal(scale.shape) * scale).astype(np.float16)
        blocks[..., first:first + 2 * n_halves] = halves.view(np.uint8)
        rows = blocks.reshape(N_ROWS, -1)
        values = dequantize(rows, kind).astype("<f4")
        assert values.shape == (N_ROWS, n_cols) and np.isfinite(values).all()
        out += struct.pack("<IIII", int(kind), N_ROWS, n_cols, rows.nbytes)
        out += rows.tobytes() + values.tobytes()
    return out


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests/goldens/kernels"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dequantize.bin").write_bytes(blocks_and_values(TYPES, 20240817))
    (folder / "dequantize_small_k.bin").write_bytes(blocks_and_values(SMALL_K, 20240818))
    (folder / "SOURCE.md").write_text(
        "`dequantize.bin`, `dequantize_small_k.bin`: random quantized blocks and their values, made by\n"
        "`tools/make_dequantize_goldens.py` with the Python packages gguf "
        f"{version('gguf')} and numpy {np.__version__}\n"
        "(the reference decoder of the GGUF block types). Seeded: a second run gives the same "
        "bytes.\n")


def version(package):
    from importlib.metadata import version as installed_version
    return installed_version(package)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes the seeds of tests/corpus/munia_file_fuzz: small packed files, whole and damaged. The sum of
the header may be anything: the fuzzer (src/files/munia_file_fuzz.cpp) puts it right.
Usage: tools/make_munia_corpus.py"""

import hashlib
import struct
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "munia_file_fuzz"
LAYOUT = "test-layout"


def text(value):
    data = value.encode()
    return struct.pack("<H", len(data)) + data


def packed(parts, layout=LAYOUT, version=1, weights="exact"):
    """`parts`: (name, kind, type, n_rows, n_cols, offset, content)."""
    table = text(layout) + text(weights) + text("corpus") + struct.pack("<I", len(parts))
    for name, kind, kind_type, n_rows, n_cols, offset, content in parts:
        table += text(name) + bytes([kind]) + text(kind_type)
        table += struct.pack("<qqQQ", n_rows, n_cols, offset, len(content))
        table += hashlib.sha256(content).digest()
    size = max([64 + len(table)] + [offset + len(content) for *_, offset, content in parts])
    head = b"\x89MUNIA\r\n" + struct.pack("<IIQQ", version, 0, 64 + len(table), size)
    data = bytearray(head + hashlib.sha256(head + table).digest() + table)
    for *_, offset, content in parts:
        data.extend(bytes(max(0, offset + len(content) - len(data))))
        data[offset:offset + len(content)] = content
    return bytes(data)


def main():
    whole = [("config", 0, "", 0, 0, 512, b"{}"),
             ("norm", 1, "F32", 1, 4, 576, struct.pack("<4f", 1, 2, 3, 4)),
             ("w", 2, "BF16", 2, 2, 4096, bytes(range(64)))]
    good = packed(whole)
    seeds = {
        "empty": b"",
        "magic_only": good[:8],
        "whole": good,
        "no_parts": packed([]),
        "cut_in_header": good[:200],
        "cut_in_part": good[:-1],
        "too_long": good + b"x",
        "other_layout": packed(whole, layout="other"),
        "other_version": packed(whole, version=2),
        "other_weights": packed(whole, weights="int4"),
        "damaged_matrix": good[:-1] + b"\xff",
        "damaged_vector": good[:576] + b"\xff" + good[577:],
        "same_name": packed([whole[0], ("config", 0, "", 0, 0, 576, b"[]")]),
        "overlap": packed([whole[0], ("x", 0, "", 0, 0, 512, b"{}")]),
        "misaligned": packed([("x", 0, "", 0, 0, 513, b"{}")]),
        "bad_shape": packed([("x", 1, "F32", 1, 1 << 62, 512, b"{}")]),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    for name, content in seeds.items():
        (FOLDER / name).write_bytes(content)
    print(f"{len(seeds)} seeds in {FOLDER.name}")


if __name__ == "__main__":
    main()

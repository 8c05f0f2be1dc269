#!/usr/bin/env python3
"""Makes the seeds of tests/corpus/table_fuzz. The first byte of a seed is the fuzzer's choice of
format and limits (src/table/table_fuzz.cpp). Usage: tools/make_table_corpus.py"""

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "table_fuzz"
TEXT, CSV, TSV, JSON_LINES = range(4)
HEADER, SHORT_ROWS, FEW_COLUMNS, DRIP = 4, 8, 16, 32

SEEDS = {
    "text": (TEXT, "好\r\n\nb\rc"),
    "text_not_utf8": (TEXT | DRIP, b"a\nb\xff\n\0\n"),
    "csv": (CSV | HEADER, 'label,review\n正面,"很好, ""真的"""\n负面,\r\n"a\nb",c\n'),
    "csv_mark": (CSV | HEADER | DRIP, "\ufeffa,b\r\n\r\n1,2\r\n"),
    "csv_ragged": (CSV | HEADER, "a,b\n1\n1,2,3\n4,5\n"),
    "csv_quotes": (CSV, 'a"b,"c"d\n"open\n'),
    "csv_long": (CSV | HEADER | SHORT_ROWS, "a,b\n1," + "x" * 60 + "\n2,3\n"),
    "csv_wide": (CSV | FEW_COLUMNS, "a,b,c,d\n1,2,3\n"),
    "utf16": (CSV, "a,b\n".encode("utf-16")),
    "tsv": (TSV | HEADER, 'a\tb\n1,2\t"x\ty"\n'),
    "json": (JSON_LINES, '{"text":"a\\u597d","label":1}\n\n{"label":true,"text":-2.5e3}\n'),
    "json_wrong": (JSON_LINES | DRIP, '{"text":1\n[1]\n{"text":null,"label":""}\n{"label":1}\n'),
}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (choice, text) in SEEDS.items():
        data = text if isinstance(text, bytes) else text.encode()
        (FOLDER / name).write_bytes(bytes([choice]) + data)


if __name__ == "__main__":
    main()

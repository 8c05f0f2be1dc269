#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cpp: what the pinned Hugging Face tokenizers think of each code
point. Every class is found by asking the library, not from a Unicode database, because the library
mixes versions: its regular expressions, Rust's char::is_numeric and its NFC know different ones.

  python tools/make_unicode_tables.py            write the file
  python tools/make_unicode_tables.py --check    exit 1 if the committed file differs
"""

import argparse
import pathlib
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

PINNED = "0.23.3"
OUT = pathlib.Path(__file__).resolve().parent.parent / "src/text/unicode_tables.cpp"
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CHUNK = 4096


def chunks():
    for begin in range(0, len(ALL), CHUNK):
        yield [chr(c) for c in ALL[begin : begin + CHUNK]]


def isolated_by(splitter):
    """Code points that `splitter` cuts out of a run of U+0001 (which is in none of the classes)."""
    found = set()
    for chunk in chunks():
        for piece, _ in splitter.pre_tokenize_str("\x01".join(chunk)):
            if len(piece) == 1 and piece != "\x01":
                found.add(ord(piece))
    return found


def word_characters():
    r"""Code points before which an added token with single_word does not match: \w."""
    snowman = "\u2603"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_tokens([AddedToken(snowman, single_word=True, normalized=False)])
    words = set()
    for chunk in chunks():
        text = " ".join(c + snowman for c in chunk)
        matched = {begin - 1 for begin, _ in tokenizer.encode(text).offsets}
        words.update(ord(c) for i, c in enumerate(chunk) if 3 * i not in matched and c != snowman)
    return words


def normalization():
    """(unsafe, base): code points that NFC may change, order or join to the one before; and code
    points that may be joined to one after them. All others pass through NFC and end a run."""
    nfc, nfd = normalizers.NFC(), normalizers.NFD()
    unsafe, base = set(), set()
    for c in ALL:
        char = chr(c)
        if nfc.normalize_str(char) != char:
            unsafe.add(c)
        # A mark moves before U+0345 (the highest class, 240) or after U+0334 (the lowest, 1).
        elif nfc.normalize_str("\x01\u0345" + char) != "\x01\u0345" + char:
            unsafe.add(c)
        elif nfc.normalize_str("\x01" + char + "\u0334") != "\x01" + char + "\u0334":
            unsafe.add(c)
        parts = nfd.normalize_str(char)
        if parts != char:
            base.update([c, *map(ord, parts[:-1])])
            unsafe.update(map(ord, parts[1:]))
    return unsafe, base


def ranges(classes):
    """[(first, last, bits)] of code points with the same nonzero set of classes."""
    bits_of = {}
    for bit, members in enumerate(classes):
        for c in members:
            bits_of[c] = bits_of.get(c, 0) | 1 << bit
    out = []
    for c in sorted(bits_of):
        if out and out[-1][1] == c - 1 and out[-1][2] == bits_of[c]:
            out[-1][1] = c
        else:
            out.append([c, c, bits_of[c]])
    return out


def render():
    unsafe, base = normalization()
    classes = [
        isolated_by(pre_tokenizers.Split(Regex(r"\p{L}"), "isolated")),
        isolated_by(pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")),
        isolated_by(pre_tokenizers.Split(Regex(r"\p{M}"), "isolated")),
        isolated_by(pre_tokenizers.Split(Regex(r"\s"), "isolated")),
        isolated_by(pre_tokenizers.Digits(individual_digits=True)),
        word_characters(),
        unsafe,
        base,
    ]
    for members in classes:
        print(len(members), "code points", file=sys.stderr)
    lines = [
        f"// Made by tools/make_unicode_tables.py from Hugging Face tokenizers {PINNED}: do not edit.",
        "// The bits are those of CharClass in unicode.h. [n_ranges] sorted, without overlap.",
        '#include "text/unicode.h"',
        "",
        "namespace munia::text {",
        "",
        "// clang-format off",
        "const ClassRange kClassRanges[] = {",
    ]
    line = ""
    for first, last, bits in ranges(classes):
        item = f"{{0x{first:X},0x{last:X},{bits}}},"
        if len(line) + len(item) > 98:
            lines.append(line)
            line = ""
        line += item
    lines += [
        line,
        "};",
        "// clang-format on",
        "const std::size_t kClassRangesCount = sizeof(kClassRanges) / sizeof(kClassRanges[0]);",
        "",
        "}  // namespace munia::text",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if tokenizers.__version__ != PINNED:
        sys.exit(f"needs tokenizers {PINNED}, found {tokenizers.__version__}")
    text = render()
    if args.check:
        sys.exit(0 if OUT.read_text() == text else f"{OUT} differs from what tokenizers says")
    OUT.write_text(text)


if __name__ == "__main__":
    main()

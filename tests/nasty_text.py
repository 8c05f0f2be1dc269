"""Seeded strings that are hard on a tokenizer: marks in every order, emoji sequences, digits of many
scripts, line ends, contractions, mixed scripts, long runs and look-alikes of special tokens."""

import random

MARKS = [chr(c) for r in [(0x300, 0x370), (0x483, 0x488), (0x591, 0x5BE), (0x610, 0x61B),
                          (0x64B, 0x660), (0x8D3, 0x900), (0x93C, 0x94E), (0x9BE, 0x9CE),
                          (0x1AB0, 0x1AC0), (0x1DC0, 0x1E00), (0x20D0, 0x20F1), (0x302A, 0x3030),
                          (0x3099, 0x309B), (0xFE20, 0xFE30), (0x11930, 0x11939),
                          (0x1D165, 0x1D16A), (0x1E8D0, 0x1E8D7)] for c in range(*r)]  # fmt: skip
JAMO = [chr(c) for c in [*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C3)]]
COMPOSED = list("éÅÀỆḍ̇ắśộẛΐЙўقأ한각갂がパ゙ﬁΩÅ神豈樂𝅗𝅥𝒞") + ["e\u0301", "a\u0328\u0301", "\uac00\u11a8"]
EMOJI = ["👨\u200d👩\u200d👧", "🏳️\u200d🌈", "🇩🇪", "🇨", "👍🏽", "😄", "❤️", "1️⃣", "\u200d", "\ufe0f", "🫠"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", " \n ", "\u00a0", "\u3000", "\u2028",
          "\u0085", "\u1680", "\u200a", "\u202f", "\x0b", "\x0c", "\x1c", "\u200b", "\ufeff"]  # fmt: skip
CONTRACTIONS = ["'s", "'S", "'\u017f", "'t", "'T", "'re", "'Re", "'vE", "'m", "'LL", "'lL", "'d",
                "'l", "'r", "'x", "\u2019s", "''s", "' s", "'\u212a", "'ſt"]  # fmt: skip
DIGITS = list("0123456789٣४௫໗Ⅷ½²①㊿三〇𝟘𑑐") + ["\U00010d4a", "\U00011de3", "\U0001fbf0", "１２", "12345"]
PUNCTUATION = list("!\"#$%&()*+,-./:;<=>?@[]^_`{|}~。，、！？…—「」·￥°§€") + ["->", "(x):\n", "://"]
WORDS = ["the", "Hello", "don", "World", "straße", "naïve", "中文", "你好世界", "霓", "𠮷", "это",
         "Ελλάδα", "שלום", "مرحبا", "हिन्दी", "ไทย", "日本語", "カタカナ", "한국어", "ǅ", "ﬆ", "ı", "İ",
         "ª", "ʰ", "𐐀", "return", "camelCase", "x86_64"]  # fmt: skip
CONTROLS = ["\x00", "\x01", "\x04", "\x06", "\x13", "\x1d", "\x7f", "\x80", "\x9f", "\ufffd", "\ufffe"]
KINDS = [MARKS, JAMO, COMPOSED, EMOJI, SPACES, CONTRACTIONS, DIGITS, PUNCTUATION, WORDS, CONTROLS]


def look_alikes(tokenizer):
    """Added tokens, broken and doubled ones."""
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    broken = [cut for t in added for cut in (t[:-1], t[1:], t[:2] + " " + t[2:], t.upper(), t + t[:3])]
    return added * 3 + broken + ["<|", "|>", "<", "<|im_", "[PAD151665]", "<tool_call"]


def nasty_strings(seed, count, specials):
    """`count` strings; `specials` are the look-alikes to put into some."""
    rng = random.Random(seed)
    kinds = KINDS + [specials]
    for _ in range(count):
        if rng.random() < 0.01:  # a long run of one thing or two
            units = [rng.choice(rng.choice(kinds)) for _ in range(rng.choice([1, 1, 2]))]
            yield "".join(rng.choice(units) for _ in range(rng.randrange(50, 500)))
            continue
        few = rng.sample(kinds, rng.randrange(1, 5))  # few kinds together meet more often
        parts = []
        for _ in range(rng.randrange(1, 16)):
            if rng.random() < 0.04:
                c = rng.randrange(0x110000 - 0x800)
                parts.append(chr(c if c < 0xD800 else c + 0x800))
            else:
                parts.append(rng.choice(rng.choice(few)))
        yield "".join(parts)

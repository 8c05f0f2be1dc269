"""The two tiny byte-level BPE tokenizers of tests/models, trained on sentences of our own.

`qwen2` has Qwen2's pipeline (NFC, its split pattern, special tokens after the vocabulary, one added
token that is not special); `smollm` has SmolLM2's (no normalizer, single digits, GPT-2's pattern,
special tokens first). Both are written as tokenizer.json, as vocab.json + merges.txt, and handed out
as the lists that a GGUF holds.
"""

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers import decoders, processors, trainers

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PLAIN_ADDED_TOKEN = "<tool_call>"
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# ChatML, with the default system message when the talk does not open with one.
CHAT_TEMPLATE = """\
{%- if messages[0]['role'] != 'system' %}
    {{- '<|im_start|>system\\nYou are a small test model.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
CORPUS = [
    "今天的天气很好，我很开心。今天的实验终于成功了，太棒了！",
    "你是一个温暖、简洁、有同理心的助手。用户输入：这家店的服务很好，我很喜欢。",
    "质量太差了，我很失望，再也不会买了。物流很快，包装很好，满意。",
    "我的心情不好，今天的工作很累。不要难过，明天会好的。",
    "只输出正面或负面，不加解释，不加标点。正面，负面，正面，负面。",
    "The weather is fine today and the little bird sings in the old tree near the river.",
    "There is nothing better than the smell of bread in the morning, and the tea is warm.",
    "I'm not sure that they'll come, but we've been waiting here for the train since three.",
    "The service was slow and the food was cold; I don't think that I will come back here.",
    "def add(a, b):\n    return a + b\n\nfor i in range(10):\n    print(i, add(i, 2))\n",
    "In 2024 the price was 19.90, in 2025 it is 24.50; that is 23% more than before.",
    "café naïve résumé über señor 😀 🎉 Привет мир",
]


def _train(name, n_ordinary):
    """A tokenizer with `n_ordinary` tokens beside the added ones."""
    tokenizer = Tokenizer(models.BPE())
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated", invert=False)
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        special_first = False
    else:
        split = pre_tokenizers.Digits(individual_digits=True)
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        special_first = True
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=n_ordinary + (len(SPECIAL_TOKENS) if special_first else 0),
        special_tokens=SPECIAL_TOKENS if special_first else [],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if not special_first:
        tokenizer.add_special_tokens(SPECIAL_TOKENS)
    tokenizer.add_tokens([AddedToken(PLAIN_ADDED_TOKEN, special=False, normalized=False)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


class TinyTokenizer:
    def __init__(self, name, n_ordinary=384):
        self.name = name
        self.tokenizer = _train(name, n_ordinary)
        content = json.loads(self.tokenizer.to_str())
        self.merges = content["model"]["merges"]  # [[left, right], …] in rank order
        self.vocab = content["model"]["vocab"]  # ordinary tokens (and smollm's special ones)
        self.eos_id = self.tokenizer.token_to_id("<|im_end|>")
        self.bos_id = self.tokenizer.token_to_id("<|endoftext|>")

    def n_tokens(self):
        return self.tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def write(self, directory, split_files=False):
        """tokenizer.json with the template in tokenizer_config.json; or, with `split_files`,
        vocab.json + merges.txt with the template in chat_template.jinja."""
        directory = Path(directory)
        added = {
            str(self.tokenizer.token_to_id(token)): {
                "content": token, "lstrip": False, "normalized": False, "rstrip": False,
                "single_word": False, "special": token != PLAIN_ADDED_TOKEN,
            }
            for token in [*SPECIAL_TOKENS, PLAIN_ADDED_TOKEN]
        }
        config = {
            "add_prefix_space": False,
            "added_tokens_decoder": dict(sorted(added.items(), key=lambda item: int(item[0]))),
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": 1024,
            "tokenizer_class": "Qwen2Tokenizer" if self.name == "qwen2" else "GPT2Tokenizer",
            "unk_token": None,
        }
        if split_files:
            _write_json(directory / "vocab.json", self.vocab)
            lines = ["#version: 0.2"] + [" ".join(pair) for pair in self.merges]
            (directory / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
            (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
        else:
            content = json.loads(self.tokenizer.to_str())
            _write_json(directory / "tokenizer.json", content)
            config["chat_template"] = CHAT_TEMPLATE
        _write_json(directory / "tokenizer_config.json", config)

    def gguf_lists(self, vocab_size):
        """Tokens, token types and merges as the converter of llama.cpp writes them: rows of the
        embedding that no token names are [PADn] of type unused (5); special tokens are control (3),
        other added tokens user defined (4), the rest normal (1)."""
        by_id = {i: token for token, i in self.tokenizer.get_vocab(with_added_tokens=True).items()}
        tokens = [by_id.get(i, f"[PAD{i}]") for i in range(vocab_size)]
        types = []
        for i, token in enumerate(tokens):
            kind = 1 if i in by_id else 5
            if token in SPECIAL_TOKENS:
                kind = 3
            elif token == PLAIN_ADDED_TOKEN:
                kind = 4
            types.append(kind)
        return tokens, types, [" ".join(pair) for pair in self.merges]


def _write_json(path, value):
    text = json.dumps(value, ensure_ascii=False, indent=1)
    Path(path).write_text(text + "\n", encoding="utf-8")

"""transformers on torch, float32 or bfloat16: the stack of the articles. Besides the common calls it
does the article's script (raw prompt and at most 3 new tokens for the emotion, then the reply by the
chat template), two models side by side (BERT-base's shape for the emotion), and labels in bulk.
"""

import time

import torch
import transformers
from protocol import Peer, serve
from texts import BATCH_SIZES, PROMPT_A, REPLY_SYSTEM, article_prompt

N_EMOTION_TOKENS = 3
BULK_TEXTS_AT_LEAST = 16  # for each batch size
BERT_BASE_VOCAB = 21128  # bert-base-chinese: about one token a character


class Transformers(Peer):
    def version(self):
        return f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"

    def load(self, model, threads, dtype, bert=False):
        torch.set_num_threads(threads)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            model, dtype=getattr(torch, dtype)).eval()
        self.bert = None
        if bert:
            config = transformers.BertConfig(vocab_size=BERT_BASE_VOCAB, num_labels=2)
            self.bert = transformers.BertForSequenceClassification(config).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        self.tokenizer.padding_side = "left"
        self.end_ids = [self.tokenizer.convert_tokens_to_ids(token)
                        for token in ("<|im_end|>", "<|endoftext|>")]

    @torch.inference_mode()
    def start(self, ids):
        return self.model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)

    @torch.inference_mode()
    def step(self, result):
        token = result.logits[:, -1:].argmax(dim=-1)
        return self.model(token, cache=result.cache, use_cache=True, logits_to_keep=1), int(token)

    def generate(self, ids, n_new):
        result, new = self.start(ids), []
        while len(new) < n_new - 1:
            result, token = self.step(result)
            new.append(token)
        return [*new, int(result.logits[0, -1].argmax())]

    def decode_seconds(self, ids, n_new):
        result = self.start(ids)
        begin = time.perf_counter()
        for _ in range(n_new):
            result, _ = self.step(result)
        return time.perf_counter() - begin

    # End to end.
    @torch.inference_mode()
    def complete(self, text, n_new):
        """Ids that model.generate adds, greedy, as the articles call it."""
        inputs = self.tokenizer(text, return_tensors="pt")
        config = transformers.GenerationConfig(
            max_new_tokens=n_new, do_sample=False, eos_token_id=self.end_ids,
            pad_token_id=self.end_ids[1])
        out = self.model.generate(**inputs, generation_config=config)
        return out[0, inputs["input_ids"].shape[1]:].tolist()

    def chat_text(self, system, user):
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True)

    def emotion(self, text):
        if self.bert is None:
            self.complete(article_prompt(text), N_EMOTION_TOKENS)
            return
        with torch.inference_mode():
            ids = torch.tensor([[101, *(1000 + ord(c) % 20000 for c in text), 102]])
            self.bert(ids).logits.argmax()

    def do_predict(self, texts, max_tokens):
        """Per text: seconds of emotion and reply, and the reply."""
        rows = []
        self.emotion(texts[0])
        for text in texts:
            begin = time.perf_counter()
            self.emotion(text)
            emotion = time.perf_counter() - begin
            ids = self.complete(self.chat_text(REPLY_SYSTEM, text), max_tokens)
            seconds = time.perf_counter() - begin
            ids = ids[:-1] if ids and ids[-1] in self.end_ids else ids
            rows.append({"seconds": seconds, "emotion_seconds": emotion,
                         "reply": self.tokenizer.decode(ids), "reply_tokens": len(ids)})
        return {"rows": rows}

    def do_emotion(self, texts):
        """Seconds of the emotion alone, a text at a time."""
        self.emotion(texts[0])
        seconds = []
        for text in texts[1:]:
            begin = time.perf_counter()
            self.emotion(text)
            seconds.append(time.perf_counter() - begin)
        return {"seconds": seconds}

    def do_bulk(self, texts, labels):
        """Texts a second at the best batch size. One forward pass over the chat prompt, padded, and
        only the last position's logits: the least work that this library allows, and less than the
        article's three tokens."""
        first_ids = [self.tokenizer.encode(label, add_special_tokens=False)[0] for label in labels]
        best, speeds, answers = 0.0, {}, []
        for size in BATCH_SIZES:
            used = texts[:max(size, BULK_TEXTS_AT_LEAST)]
            self.label_batch(used[:size], first_ids)
            begin = time.perf_counter()
            found = []
            for i in range(0, len(used), size):
                found += self.label_batch(used[i:i + size], first_ids)
            speeds[size] = len(used) / (time.perf_counter() - begin)
            best = max(best, speeds[size])
            answers = found if len(found) > len(answers) else answers
        return {"texts_per_second": best, "by_batch_size": speeds,
                "labels": [labels[i] for i in answers]}

    def do_labels(self, texts, labels, size):
        """Labels of all texts in batches of `size`, sorted by length; seconds."""
        first_ids = [self.tokenizer.encode(label, add_special_tokens=False)[0] for label in labels]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found = [None] * len(texts)
        begin = time.perf_counter()
        for i in range(0, len(order), size):
            batch = order[i:i + size]
            for row, answer in zip(batch, self.label_batch([texts[j] for j in batch], first_ids)):
                found[row] = labels[answer]
        return {"seconds": time.perf_counter() - begin, "labels": found}

    @torch.inference_mode()
    def label_batch(self, texts, first_ids):
        prompts = [self.chat_text(PROMPT_A, "用户输入：" + text) for text in texts]
        inputs = self.tokenizer(prompts, return_tensors="pt", padding=True)
        logits = self.model(**inputs, use_cache=False, logits_to_keep=1).logits[:, -1]
        return logits[:, first_ids].argmax(dim=-1).tolist()


if __name__ == "__main__":
    serve(Transformers)

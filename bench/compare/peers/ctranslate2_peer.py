"""CTranslate2: float32 and int8 weights, made by its own converter. It takes tokens as texts."""

import json
from pathlib import Path

import ctranslate2
from protocol import Peer, serve


class CTranslate2(Peer):
    def version(self):
        return f"ctranslate2 {ctranslate2.__version__}"

    def load(self, model, threads, compute_type):
        self.generator = ctranslate2.Generator(
            model, device="cpu", compute_type=compute_type, intra_threads=threads, inter_threads=1)
        vocabulary = Path(model, "vocabulary.json")
        self.token_of = json.loads(vocabulary.read_text(encoding="utf-8"))

    def generate(self, ids, n_new):
        (result,) = self.generator.generate_batch(
            [[self.token_of[i] for i in ids]], max_length=n_new, min_length=n_new, sampling_topk=1,
            include_prompt_in_result=False, end_token=[])
        new = result.sequences_ids[0]
        if len(new) != n_new:
            raise RuntimeError(f"{len(new)} new tokens instead of {n_new}")
        return new


if __name__ == "__main__":
    serve(CTranslate2)

"""ONNX Runtime GenAI: fp32 and int4 models, made by its own builder."""

import json
import time

import numpy as np
import onnxruntime_genai as og
from protocol import Peer, serve


class OrtGenAi(Peer):
    def version(self):
        return f"onnxruntime-genai {og.__version__}"

    def load(self, model, threads):
        config = og.Config(model)
        session = {"session_options": {"intra_op_num_threads": threads}}
        config.overlay(json.dumps({"model": {"decoder": session}}))
        self.model = og.Model(config)

    def start(self, ids, n_new):
        parameters = og.GeneratorParams(self.model)
        length = len(ids) + n_new
        parameters.set_search_options(max_length=length, min_length=length, do_sample=False)
        generator = og.Generator(self.model, parameters)
        generator.append_tokens(np.array([ids], dtype=np.int32))
        return generator

    def generate(self, ids, n_new):
        generator = self.start(ids, n_new)
        for _ in range(n_new):
            generator.generate_next_token()
        return list(generator.get_sequence(0))[len(ids):]

    def decode_seconds(self, ids, n_new):
        generator = self.start(ids, n_new + 1)
        generator.generate_next_token()
        begin = time.perf_counter()
        for _ in range(n_new):
            generator.generate_next_token()
        return time.perf_counter() - begin


if __name__ == "__main__":
    serve(OrtGenAi)

"""OpenVINO GenAI: f32 or bf16 arithmetic on the exported model, and 8- and 4-bit weights."""

import numpy as np
import openvino
import openvino_genai
from protocol import Peer, serve


class OpenVino(Peer):
    def version(self):
        return f"openvino-genai {openvino_genai.__version__.split('-')[0]}"

    def load(self, model, threads, precision):
        self.pipeline = openvino_genai.LLMPipeline(
            model, "CPU", INFERENCE_NUM_THREADS=threads, INFERENCE_PRECISION_HINT=precision)

    def generate(self, ids, n_new):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = n_new
        config.ignore_eos = True
        config.do_sample = False
        row = np.array([ids], dtype=np.int64)
        inputs = openvino_genai.TokenizedInputs(
            openvino.Tensor(row), openvino.Tensor(np.ones_like(row)))
        new = list(self.pipeline.generate(inputs, config).tokens[0])
        if len(new) != n_new:
            raise RuntimeError(f"{len(new)} new tokens instead of {n_new}")
        return new


if __name__ == "__main__":
    serve(OpenVino)

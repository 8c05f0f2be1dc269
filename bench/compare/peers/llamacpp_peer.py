"""llama.cpp through llama-cpp-python's low-level calls: the library itself, without a Python sampler
in the way. Also makes the quantized files: llamacpp_peer.py quantize FROM TO TYPE THREADS.
"""

import ctypes
import sys
import time

import llama_cpp
from protocol import Peer, serve

N_CONTEXT = 1024
N_BATCH = 512
FILE_TYPES = {"Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
              "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M}


class LlamaCpp(Peer):
    def version(self):
        return f"llama-cpp-python {llama_cpp.__version__}"

    def load(self, model, threads):
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            model.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError("llama.cpp cannot load the file; see its lines on standard error")
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = N_CONTEXT
        parameters.n_batch = parameters.n_ubatch = N_BATCH
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)
        if not self.context:
            raise RuntimeError("llama.cpp cannot make a context")
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(vocabulary)

    def forward(self, ids):
        """The id with the largest logit behind `ids`."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        status = llama_cpp.llama_decode(
            self.context, llama_cpp.llama_batch_get_one(tokens, len(ids)))
        if status != 0:
            raise RuntimeError(f"llama_decode gave {status}")
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return self.argmax(logits)

    def argmax(self, logits):
        import numpy as np

        return int(np.ctypeslib.as_array(logits, shape=(self.n_vocab,)).argmax())

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def generate(self, ids, n_new):
        self.clear()
        new = [self.forward(ids)]
        while len(new) < n_new:
            new.append(self.forward(new[-1:]))
        return new

    def decode_seconds(self, ids, n_new):
        self.clear()
        token = self.forward(ids)
        begin = time.perf_counter()
        for _ in range(n_new):
            token = self.forward([token])
        return time.perf_counter() - begin


def quantize(source, target, kind, threads):
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = FILE_TYPES[kind]
    parameters.nthread = int(threads)
    status = llama_cpp.llama_model_quantize(
        source.encode(), target.encode(), ctypes.byref(parameters))
    if status != 0:
        sys.exit(f"llama_model_quantize gave {status}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["quantize"]:
        quantize(*sys.argv[2:6])
    else:
        serve(LlamaCpp)

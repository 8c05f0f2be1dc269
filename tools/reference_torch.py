"""The reference implementation: transformers on torch float32, and small helpers around it that the
scripts of goldens share. Everything here returns numpy or plain Python values."""

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.utils.chat_template_utils import render_jinja_template


def model_from_weights(config, weights):
    """A transformers model (default attention) holding these float32 weights."""
    kind = config.arch.capitalize()  # Qwen2, Qwen3, Llama, Mistral
    config_type = getattr(transformers, kind + "Config")
    model_type = getattr(transformers, kind + "ForCausalLM")
    more = {"mistral": {"sliding_window": config.window},
            "llama": {"attention_bias": "model.layers.0.self_attn.o_proj.bias" in weights,
                      "mlp_bias": "model.layers.0.mlp.up_proj.bias" in weights}}
    factors = config.rope_scaling.get("factors")
    model = model_type(config_type(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_dim,
        intermediate_size=config.ffn_dim,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        num_key_value_heads=config.n_kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.context,
        rms_norm_eps=config.rms_eps,
        rope_parameters={**({"rope_type": "default"} if factors else config.rope_scaling),
                         "rope_theta": config.rope_theta},
        tie_word_embeddings=config.tied,
        **more.get(config.arch, {}),
    )).to(torch.float32).eval()
    if factors:  # a GGUF's, which transformers does not read
        model.model.rotary_emb.inv_freq.div_(torch.tensor(factors, dtype=torch.float32))
    state = {name: torch.from_numpy(np.array(x)) for name, x in weights.items()}
    if config.tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model


def model_from_gguf(path):
    """Through transformers' own GGUF loader."""
    return AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32).eval()


@torch.inference_mode()
def all_logits(model, ids):
    """[n_tokens, vocab_size] float32"""
    return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


@torch.inference_mode()
def last_logits(model, ids):
    """[vocab_size] float32"""
    return tail_logits(model, ids, 1)[-1]


@torch.inference_mode()
def tail_logits(model, ids, n_last):
    """[n_last, vocab_size] float32, of the last positions"""
    return model(torch.tensor([ids]), use_cache=False, logits_to_keep=n_last).logits[0].numpy()


class Prefix:
    """A prompt's beginning computed once, for many ends."""

    def __init__(self, model, ids):
        self.model = model
        with torch.inference_mode():
            self.cache = model(torch.tensor([ids]), use_cache=True, logits_to_keep=1).cache

    @torch.inference_mode()
    def tail_logits(self, ids, n_last):
        """[n_last, vocab_size] float32: the last positions of the prefix and `ids`"""
        out = self.model(torch.tensor([ids]), cache=self.cache, use_cache=True, logits_to_keep=n_last)
        self.cache.crop(-len(ids))  # negative: how many to remove
        return out.logits[0].numpy()


@torch.inference_mode()
def hidden_states(model, ids):
    """[n_layers + 2][n_tokens, hidden_dim]: embedding, residual stream after each layer, last norm."""
    kept = []

    def keep(_module, _inputs, output):
        kept.append((output[0] if isinstance(output, tuple) else output).reshape(len(ids), -1).numpy())

    parts = [model.model.embed_tokens, *model.model.layers, model.model.norm]
    hooks = [part.register_forward_hook(keep) for part in parts]
    model(torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return [x.copy() for x in kept]


@torch.inference_mode()
def greedy(model, ids, n_new, end_ids=()):
    """(new ids, gap between the two best logits at each step); an end token closes it and is the
    last id."""
    cache, tokens, new, gaps = None, torch.tensor([ids]), [], []
    for _ in range(n_new):
        out = model(tokens, cache=cache, use_cache=True, logits_to_keep=1)
        cache, logits = out.cache, out.logits[0, -1]
        best = torch.topk(logits, 2).values
        gaps.append(float(best[0] - best[1]))
        token = int(np.argmax(logits.numpy()))  # the lowest id wins ties
        new.append(token)
        if token in end_ids:
            break
        tokens = torch.tensor([[token]])
    return new, gaps


def split_end(ids, end_ids):
    """(ids without the end token, the end token or None)"""
    return (ids[:-1], ids[-1]) if ids and ids[-1] in end_ids else (ids, None)


@torch.inference_mode()
def greedy_many(model, prompts, n_new, end_ids):
    """As greedy() for each prompt, for a large model: the texts are drafted in one left-padded batch
    (the weights are read once a step for all), then each is checked alone by one forward over prompt
    and draft. Ids and gaps come from that forward; a draft that differs from it is done again by
    greedy()."""
    width = max(len(ids) for ids in prompts)
    tokens = torch.tensor([[0] * (width - len(ids)) + ids for ids in prompts])
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts])
    config = GenerationConfig(max_new_tokens=n_new, do_sample=False, eos_token_id=list(end_ids),
                              pad_token_id=end_ids[0])
    drafts = model.generate(tokens, attention_mask=mask, generation_config=config)[:, width:].tolist()
    results = []
    for ids, draft in zip(prompts, drafts, strict=True):
        n_steps = next((i + 1 for i, token in enumerate(draft) if token in end_ids), len(draft))
        draft = draft[:n_steps]
        logits = torch.from_numpy(tail_logits(model, ids + draft[:-1], n_steps))
        if logits.argmax(dim=-1).tolist() != draft:
            results.append(greedy(model, ids, n_new, end_ids))
            continue
        best = torch.topk(logits, 2).values
        results.append((draft, (best[:, 0] - best[:, 1]).tolist()))
    return results


@torch.inference_mode()
def generate(model, ids, n_new, end_ids, pad_id, **options):
    """New ids of transformers' own generate(), up to and with the end token."""
    config = GenerationConfig(max_new_tokens=n_new, do_sample=False, eos_token_id=list(end_ids),
                              pad_token_id=pad_id, **options)
    tokens = torch.tensor([ids])
    out = model.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=config)
    new = out[0, len(ids):].tolist()
    for i, token in enumerate(new):
        if token in end_ids:
            return new[: i + 1]
    return new


def log_softmax(logits):
    """float64 arithmetic, whatever the logits came from."""
    x = np.asarray(logits, dtype=np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def continuation_logprob(logits, n_prompt, continuation):
    """Sum of log p over `continuation`, from logits [n_prompt + len(continuation), vocab]."""
    rows = log_softmax(logits[n_prompt - 1 : n_prompt - 1 + len(continuation)])
    return float(rows[np.arange(len(continuation)), continuation].sum())


def render(template, messages, **variables):
    """The text of a chat, rendered as transformers does it, with the generation prompt."""
    (text,), _ = render_jinja_template([messages], chat_template=template,
                                       add_generation_prompt=True, **variables)
    return text

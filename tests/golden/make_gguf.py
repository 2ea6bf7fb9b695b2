#!/usr/bin/env python3
"""Makes tiny GGUF files of each architecture, tensor type and tokenizer, and what the references make of them.

Usage: make_gguf.py        needs gguf, torch, transformers, tokenizers, sentencepiece, safetensors (the tests do not)

Matrices are random blocks; the references are the gguf package's dequantisation, transformers in f32 over the
dequantised values, and the tokenizer libraries. Rows of llama's q and k are written in llama.cpp's order.

Not in the package lists: gguf, numpy, safetensors, sentencepiece, tokenizers, torch, transformers
"""
import json
import math
import pathlib
import sys
import tempfile

import gguf
import numpy as np
import sentencepiece
import torch
import transformers as hf
from gguf.quants import dequantize, quantize
from safetensors.torch import save_file
from tokenizers import Tokenizer

from make_tokenizers import CORPUS, TEXTS

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "gguf"
Q = gguf.GGMLQuantizationType
TYPES = [Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q4_K, Q.Q5_K, Q.Q6_K]
CHATML = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
          "You answer shortly<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
          "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|im_start|>assistant\n' }}{% endif %}")
torch.set_num_threads(1)


def halves(values):
    return np.asarray(values, np.float16).view(np.uint8)


def blocks(kind, rows, cols, deviation, random):
    """Bytes [rows, bytes of a row] of random values."""
    if kind not in (Q.Q4_K, Q.Q5_K, Q.Q6_K):
        return quantize(random.normal(0, deviation, (rows, cols)).astype(np.float32), kind).view(np.uint8)
    values, size = gguf.GGML_QUANT_SIZES[kind]
    made = random.integers(0, 256, (rows, cols // values, size), np.uint8)
    scale = deviation * random.uniform(0.7, 1.3, made.shape[:2] + (1,))
    if kind == Q.Q6_K:
        made[:, :, -2:] = halves(scale / 1300)
    else:
        step = scale / (170 if kind == Q.Q4_K else 340)
        made[:, :, 0:2] = halves(step)
        made[:, :, 2:4] = halves(step * (7.5 if kind == Q.Q4_K else 15.5))
    return made.reshape(rows, -1)


class File:
    def __init__(self, name, architecture, seed):
        self.name, self.random = name, np.random.default_rng(seed)
        self.writer = gguf.GGUFWriter(OUT / f"{name}.gguf", architecture)
        self.kinds = 0

    def matrix(self, name, rows, cols, deviation, kind=None):
        """Written; returns its values."""
        if kind is None:
            kind = TYPES[self.kinds % len(TYPES)]
            self.kinds += 1
        raw = blocks(kind, rows, cols, deviation, self.random)
        values = dequantize(raw if kind not in (Q.F32, Q.F16) else raw.view(np.float32 if kind == Q.F32 else np.float16), kind)
        if kind in (Q.F32, Q.F16):
            self.writer.add_tensor(name, raw.view(np.float32 if kind == Q.F32 else np.float16))
        else:
            self.writer.add_tensor(name, raw, raw_dtype=kind)
        return torch.from_numpy(np.ascontiguousarray(values.astype(np.float32)).reshape(rows, cols))

    def vector(self, name, values):
        self.writer.add_tensor(name, np.asarray(values, np.float32))
        return torch.from_numpy(np.asarray(values, np.float32))

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def in_order(values, head):
    """Rows as transformers has them, of rows as llama.cpp has them."""
    return values.reshape(-1, head // 2, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape).contiguous()


def same(values, _):
    return values


def fill(file, model, order, plus_one):
    config = model.config
    width, mlp, head = config.hidden_size, config.intermediate_size, config.head_dim
    state, draw = {}, lambda n, mean=0.0: file.random.normal(mean, 0.3, n)
    parts = [("attn_q", "self_attn.q_proj", config.num_attention_heads * head, width, order),
             ("attn_k", "self_attn.k_proj", config.num_key_value_heads * head, width, order),
             ("attn_v", "self_attn.v_proj", config.num_key_value_heads * head, width, same),
             ("attn_output", "self_attn.o_proj", width, config.num_attention_heads * head, same),
             ("ffn_gate", "mlp.gate_proj", mlp, width, same), ("ffn_up", "mlp.up_proj", mlp, width, same),
             ("ffn_down", "mlp.down_proj", width, mlp, same)]
    named = dict(model.named_parameters())
    for i in range(config.num_hidden_layers):
        for short, name, rows, cols, turn in parts:
            at, to = f"blk.{i}.{short}", f"model.layers.{i}.{name}"
            state[to + ".weight"] = turn(file.matrix(at + ".weight", rows, cols, 1.4 / cols ** 0.5), head)
            if to + ".bias" in named:
                state[to + ".bias"] = turn(file.vector(at + ".bias", draw(rows)), head)
        for short, name in (("attn_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm")):
            state[f"model.layers.{i}.{name}.weight"] = \
                file.vector(f"blk.{i}.{short}.weight", draw(width, 1.0)) - plus_one
    state["model.norm.weight"] = file.vector("output_norm.weight", draw(width, 1.0)) - plus_one
    state["model.embed_tokens.weight"] = file.matrix("token_embd.weight", config.vocab_size, width, 0.02, Q.Q8_0)
    if not config.tie_word_embeddings:
        state["lm_head.weight"] = file.matrix("output.weight", config.vocab_size, width, 1.4 / width ** 0.5, Q.Q6_K)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("lm_head" in m for m in missing), (missing, unexpected)
    model.tie_weights()
    return model.float().eval()


def shape(writer, config, architecture):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if architecture != "qwen2":
        writer.add_rope_dimension_count(config.head_dim)
    if architecture == "gemma":
        writer.add_key_length(config.head_dim)


def expected(name, model, seed):
    """A prompt of many rows, a step of one, and greedy tokens."""
    torch.manual_seed(seed)
    tokens = torch.randint(3, model.config.vocab_size, (1, 13))
    more = torch.randint(3, model.config.vocab_size, (1, 3))
    with torch.no_grad():
        out = model(input_ids=tokens, use_cache=True)
        logits, steps = out.logits, []
        for i in range(more.shape[1]):
            out = model(input_ids=more[:, i:i + 1], past_key_values=out.past_key_values, use_cache=True)
            steps.append(out.logits[:, -1])
        row = torch.cat([tokens, more], 1)
        for _ in range(8):
            row = torch.cat([row, model(input_ids=row).logits[:, -1:].argmax(-1)], 1)
    save_file({"logits": logits.contiguous(), "decode_logits": torch.stack(steps, 1).contiguous(),
               "greedy_ids": row[:, -8:].contiguous()}, str(OUT / f"{name}.expected.safetensors"))
    save_file({"input_ids": tokens, "decode_ids": more, "max_new_tokens": torch.tensor([8])},
              str(OUT / f"{name}.inputs.safetensors"))


def bpe(writer, folder, pre, eos, bos=None):
    """The vocabulary and merges of a trained tokenizer.json; returns how many tokens it has."""
    made = json.loads((HERE / "tokenizers" / folder / "tokenizer.json").read_text())
    words = {i: w for w, i in made["model"]["vocab"].items()}
    kinds = {i: gguf.TokenType.NORMAL for i in words}
    for token in made["added_tokens"]:
        words[token["id"]] = token["content"]
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
        token.update(single_word=False, lstrip=False, rstrip=False, normalized=False)
    ids = {w: i for i, w in words.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([words[i] for i in range(len(words))])
    writer.add_token_types([kinds[i] for i in range(len(words))])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in made["model"]["merges"]])
    writer.add_eos_token_id(ids[eos])
    if bos:
        writer.add_bos_token_id(ids[bos])
    return len(words), Tokenizer.from_str(json.dumps(made))


def bpe_cases(name, tokenizer):
    made = []
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        made.append({"text": text, "ids": ids,
                     "with_special": tokenizer.encode(text, add_special_tokens=True).ids,
                     "decoded": tokenizer.decode(ids, skip_special_tokens=True)})
    (OUT / f"{name}.cases.json").write_text(json.dumps(made, ensure_ascii=True, indent=0) + "\n")


def pieces(writer, name, dummy_prefix):
    with tempfile.TemporaryDirectory() as folder:
        corpus = pathlib.Path(folder) / "corpus.txt"
        corpus.write_text(CORPUS)
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=f"{folder}/t", model_type="bpe", vocab_size=600, byte_fallback=True,
            character_coverage=0.99, hard_vocab_limit=False, num_threads=1, normalization_rule_name="identity",
            remove_extra_whitespaces=False, add_dummy_prefix=dummy_prefix, split_digits=True)
        p = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/t.model")
    kinds = [gguf.TokenType.UNKNOWN if p.is_unknown(i) else gguf.TokenType.CONTROL if p.is_control(i)
             else gguf.TokenType.BYTE if p.is_byte(i) else gguf.TokenType.NORMAL for i in range(p.vocab_size())]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([p.id_to_piece(i) for i in range(p.vocab_size())])
    writer.add_token_scores([p.get_score(i) for i in range(p.vocab_size())])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(p.bos_id())
    writer.add_eos_token_id(p.eos_id())
    writer.add_add_space_prefix(dummy_prefix)
    made = [{"text": t, "ids": p.encode(t), "with_special": [p.bos_id()] + p.encode(t), "decoded": p.decode(p.encode(t))}
            for t in TEXTS if "<" not in t and "\0" not in t]
    (OUT / f"{name}.cases.json").write_text(json.dumps(made, ensure_ascii=True, indent=0) + "\n")
    return p.vocab_size()


SIZES = dict(hidden_size=256, num_attention_heads=4, num_key_value_heads=2, head_dim=64, intermediate_size=256,
             rms_norm_eps=1e-5, max_position_embeddings=1024)


def make_llama():
    file = File("llama", "llama", 41)
    vocabulary, tokenizer = bpe(file.writer, "smollm", "smollm", "<|im_end|>", "<|im_start|>")
    bpe_cases("llama", tokenizer)
    file.writer.add_add_bos_token(False)
    file.writer.add_chat_template(CHATML)
    scaling = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    config = hf.LlamaConfig(num_hidden_layers=2, vocab_size=vocabulary, attention_bias=True, rope_parameters=scaling,
                            tie_word_embeddings=False, **SIZES)
    shape(file.writer, config, "llama")
    model = fill(file, hf.LlamaForCausalLM(config), in_order, 0)
    factors = []
    for i in range(0, 64, 2):  # as convert_hf_to_gguf.py computes them
        wave = 2 * math.pi * 10000.0 ** (i / 64)
        smooth = (64 / wave - 1) / (4 - 1)
        factors.append(1 if wave < 64 / 4 else 8 if wave > 64 else 1 / ((1 - smooth) / 8 + smooth))
    file.vector("rope_freqs.weight", factors)
    file.close()
    expected("llama", model, 42)


def make_qwen2():
    file = File("qwen2", "qwen2", 43)
    vocabulary, tokenizer = bpe(file.writer, "qwen2", "qwen2", "<|im_end|>")
    bpe_cases("qwen2", tokenizer)
    file.writer.add_chat_template(CHATML)
    config = hf.Qwen2Config(num_hidden_layers=1, vocab_size=vocabulary, tie_word_embeddings=True,
                            rope_parameters={"rope_type": "default", "rope_theta": 1e6}, **SIZES)
    shape(file.writer, config, "qwen2")
    model = fill(file, hf.Qwen2ForCausalLM(config), same, 0)
    file.close()
    expected("qwen2", model, 44)


def make_gemma():
    file = File("gemma", "gemma", 45)
    vocabulary = pieces(file.writer, "gemma", False)
    file.kinds = 5
    config = hf.GemmaConfig(num_hidden_layers=1, vocab_size=vocabulary,
                            rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, **SIZES)
    shape(file.writer, config, "gemma")
    model = fill(file, hf.GemmaForCausalLM(config), same, 1.0)
    file.close()
    expected("gemma", model, 46)


def make_others():
    """Tokenizers without a model, and a matrix of each type."""
    file = File("llama3", "llama", 47)
    _, tokenizer = bpe(file.writer, "llama3", "llama-bpe", "<|im_end|>", "<|begin_of_text|>")
    bpe_cases("llama3", tokenizer)
    file.close()
    file = File("llama2", "llama", 48)
    pieces(file.writer, "llama2", True)
    file.close()
    file = File("types", "llama", 49)
    save_file({kind.name: file.matrix(kind.name, 3, 512, 0.5, kind) for kind in TYPES},
              str(OUT / "types.expected.safetensors"))
    file.close()


def make_seeds():
    """Small whole files, from which the fuzzer starts."""
    for name, kind in (("llama", Q.Q4_1), ("qwen2", Q.Q8_0), ("gemma", Q.F16)):
        file = File(name, name, 50)
        file.writer.add_tokenizer_model("llama" if name == "gemma" else "gpt2")
        file.writer.add_tokenizer_pre("smollm" if name == "llama" else "qwen2")
        words = ["<unk>", "<s>", "</s>", "a", "b", "ab", "\u2581", "<0x0A>"]
        file.writer.add_token_list(words)
        file.writer.add_token_types([2, 3, 3, 1, 1, 1, 1, 6])
        file.writer.add_token_scores([-float(i) for i in range(len(words))])
        file.writer.add_token_merges(["a b"])
        file.writer.add_bos_token_id(1)
        file.writer.add_eos_token_id(2)
        file.writer.add_chat_template(CHATML)
        config = {"llama": hf.LlamaConfig, "qwen2": hf.Qwen2Config, "gemma": hf.GemmaConfig}[name](
            hidden_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=16, intermediate_size=32,
            num_hidden_layers=1, vocab_size=len(words), rope_parameters={"rope_type": "default", "rope_theta": 1e4})
        shape(file.writer, config, name)
        file.kinds = TYPES.index(kind)
        for short, rows in (("attn_q", 32), ("attn_k", 16), ("attn_v", 16), ("ffn_up", 32)):
            file.matrix(f"blk.0.{short}.weight", rows, 32, 0.1, kind)
        file.vector("output_norm.weight", [1.0] * 32)
        file.matrix("token_embd.weight", len(words), 32, 0.1, Q.Q8_0)
        file.close()
        seeds = HERE.parent / "fuzz" / "corpus" / "gguf"
        seeds.mkdir(parents=True, exist_ok=True)
        (OUT / f"{name}.gguf").rename(seeds / f"{name}.gguf")


if __name__ == "__main__":
    print("torch", torch.__version__, "transformers", hf.__version__)
    OUT.mkdir(exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    make_seeds()
    for make in (make_llama, make_qwen2, make_gemma, make_others):
        make()
    print(sum(f.stat().st_size for f in OUT.iterdir()) >> 10, "KiB")
    sys.exit(0)

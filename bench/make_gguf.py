#!/usr/bin/env python3
"""Writes the 386 M-parameter shape of bench_decoder with random weights as GGUF, for the peer.

Usage: make_gguf.py OUT_BF16 OUT_Q8_0

Not in the package lists: gguf, numpy
"""
import sys

import gguf
import numpy as np

LAYERS, WIDTH, HEADS, KV_HEADS, MLP, VOCABULARY = 24, 896, 14, 2, 4864, 32000


def write(path, kind):
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("llama")
    special = [b"<unk>", b"<s>", b"</s>"]
    tokens = special + [f"t{i}".encode() for i in range(VOCABULARY - 3)]
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([2, 3, 3] + [1] * (VOCABULARY - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def matrix(name, out, inner):
        values = random.uniform(-0.03, 0.03, (out, inner)).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    matrix("token_embd.weight", VOCABULARY, WIDTH)
    ones = np.ones(WIDTH, np.float32)
    writer.add_tensor("output_norm.weight", ones)
    head = WIDTH // HEADS
    for i in range(LAYERS):
        at = f"blk.{i}."
        writer.add_tensor(at + "attn_norm.weight", ones)
        writer.add_tensor(at + "ffn_norm.weight", ones)
        matrix(at + "attn_q.weight", WIDTH, WIDTH)
        matrix(at + "attn_k.weight", KV_HEADS * head, WIDTH)
        matrix(at + "attn_v.weight", KV_HEADS * head, WIDTH)
        matrix(at + "attn_output.weight", WIDTH, WIDTH)
        matrix(at + "ffn_gate.weight", MLP, WIDTH)
        matrix(at + "ffn_up.weight", MLP, WIDTH)
        matrix(at + "ffn_down.weight", WIDTH, MLP)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1], gguf.GGMLQuantizationType.BF16)
    write(sys.argv[2], gguf.GGMLQuantizationType.Q8_0)

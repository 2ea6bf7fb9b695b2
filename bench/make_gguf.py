#!/usr/bin/env python3
"""Writes the 386 M-parameter shape of bench_decoder with random weights as GGUF, for the peer.

Usage: make_gguf.py OUT_BF16 OUT_Q8_0

Not in the package lists: gguf, numpy
"""
import sys

import gguf
import numpy as np

SHAPE = (24, 896, 14, 2, 64, 4864, 32000)  # layers, width, heads, key heads, head, inner, vocabulary


def write(path, shape, values_of, kind):
    """A Llama with a tied head; `values_of(rows, columns)` are a matrix's bytes as they lie in the file."""
    layers, width, heads, kv_heads, head, inner, vocabulary = shape
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(head)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([b"<unk>", b"<s>", b"</s>"] + [f"t{i}".encode() for i in range(vocabulary - 3)])
    writer.add_token_scores([0.0] * vocabulary)
    writer.add_token_types([2, 3, 3] + [1] * (vocabulary - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def matrix(name, rows, columns):
        writer.add_tensor(name, values_of(rows, columns), raw_dtype=kind)

    matrix("token_embd.weight", vocabulary, width)
    ones = np.ones(width, np.float32)
    writer.add_tensor("output_norm.weight", ones)
    for i in range(layers):
        at = f"blk.{i}."
        writer.add_tensor(at + "attn_norm.weight", ones)
        writer.add_tensor(at + "ffn_norm.weight", ones)
        matrix(at + "attn_q.weight", heads * head, width)
        matrix(at + "attn_k.weight", kv_heads * head, width)
        matrix(at + "attn_v.weight", kv_heads * head, width)
        matrix(at + "attn_output.weight", width, heads * head)
        matrix(at + "ffn_gate.weight", inner, width)
        matrix(at + "ffn_up.weight", inner, width)
        matrix(at + "ffn_down.weight", width, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_quantised(path, kind):
    random = np.random.default_rng(1)
    write(path, SHAPE, lambda rows, columns: gguf.quants.quantize(
        random.uniform(-0.03, 0.03, (rows, columns)).astype(np.float32), kind), kind)


if __name__ == "__main__":
    write_quantised(sys.argv[1], gguf.GGMLQuantizationType.BF16)
    write_quantised(sys.argv[2], gguf.GGMLQuantizationType.Q8_0)

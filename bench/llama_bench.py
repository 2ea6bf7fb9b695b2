#!/usr/bin/env python3
"""llama.cpp's speed on a file, in the words of its llama-bench, by way of its Python package.

Usage: llama_bench.py -m FILE.gguf -p TOKENS -n TOKENS [-r RUNS] [-o json]      one of -p and -n is 0

As llama-bench: a warm-up, then the mean of the runs, each from an empty sequence; a thread for each core.
Not in the package lists: llama_cpp
"""
import argparse
import ctypes
import json
import os
import time

import llama_cpp

parser = argparse.ArgumentParser()
for name in "mpnro":
    parser.add_argument(f"-{name}", type=str if name in "mo" else int, default=1 if name == "r" else None)
options = parser.parse_args()
cores = len(os.sched_getaffinity(0))
SILENT = llama_cpp.llama_log_callback(lambda level, text, data: None)
llama_cpp.llama_log_set(SILENT, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()
model = llama_cpp.llama_model_load_from_file(options.m.encode(), llama_cpp.llama_model_default_params())
assert model, options.m
params = llama_cpp.llama_context_default_params()
params.n_ctx = params.n_batch = (options.p or 0) + (options.n or 0) + 16
params.n_threads = params.n_threads_batch = cores
context = llama_cpp.llama_init_from_model(model, params)
assert context, options.m
vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))


def decode(count):
    tokens = (llama_cpp.llama_token * count)(*[i * 7919 % vocabulary for i in range(count)])
    assert llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, count)) == 0
    llama_cpp.llama_synchronize(context)


def run():
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
    start = time.perf_counter()
    if options.p:
        decode(options.p)
    for _ in range(options.n or 0):
        decode(1)
    return ((options.p or 0) + (options.n or 0)) / (time.perf_counter() - start)


run()
rates = [run() for _ in range(options.r)]
print(json.dumps([{"model_filename": options.m, "n_threads": cores, "avg_ts": sum(rates) / len(rates)}]))

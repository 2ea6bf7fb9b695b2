#!/usr/bin/env python3
"""Writes a GGUF file again with its matrices in another type, for bench_decoder and its peer.

Usage: requantize_gguf.py IN.gguf OUT.gguf Q8_0|BF16|Q4_K_M|Q5_K_M|...

Blocks are widened to f32 and rounded to the new type; vectors stay in f32, metadata as they are. Mixtures of types, as
Q4_K_M is one, are made by llama.cpp's Python package, which knows which matrix has which.
Not in the package lists: gguf, llama_cpp, numpy
"""
import ctypes
import sys

import gguf
import numpy as np

source, target, name = sys.argv[1:]
if name not in ("Q8_0", "BF16"):
    import llama_cpp

    mixture = llama_cpp.llama_model_quantize_default_params()
    mixture.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}")
    mixture.allow_requantize = True
    sys.exit(llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(mixture)))
kind = gguf.GGMLQuantizationType[name]
reader = gguf.GGUFReader(source)
fields = reader.fields
writer = gguf.GGUFWriter(target, fields["general.architecture"].contents())
own = {"general.architecture", "general.file_type", "general.quantization_version"}
for key, field in fields.items():
    if key.startswith("GGUF.") or key in own:
        continue
    kinds = field.types
    of_items = kinds[-1] if kinds[0] == gguf.GGUFValueType.ARRAY else None
    writer.add_key_value(key, field.contents(), kinds[0], sub_type=of_items)
writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
for tensor in reader.tensors:
    wide = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])
    if len(tensor.shape) < 2:
        writer.add_tensor(tensor.name, wide.astype(np.float32))
    else:
        writer.add_tensor(tensor.name, gguf.quants.quantize(wide, kind), raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

#!/usr/bin/env python3
"""Writes a GGUF file again with its matrices in another type, for bench_decoder and its peer.

Usage: requantize_gguf.py IN.gguf OUT.gguf Q8_0|BF16

Blocks are widened to f32 and rounded to the new type; vectors stay in f32, metadata as they are.
Not in the package lists: gguf, numpy
"""
import sys

import gguf
import numpy as np

source, target, name = sys.argv[1:]
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

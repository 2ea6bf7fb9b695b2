// The tokenizer that a GGUF file's metadata describes, and the tokens that end its answers.
//
// Byte-pair encoding with merges ("gpt2") and its pre-tokenizers gpt-2, smollm, llama-bpe and
// qwen2; sentencepiece's ("llama"), whose merges are ordered by scores. Encodes as transformers
// does. Errors: corrupt, invalid_argument (a model or a pre-tokenizer that is not supported, by
// name). Source: llama.cpp's llama-vocab.cpp; Hugging Face tokenizers for the steps.
#pragma once

#include "engine/checkpoint/gguf.h"
#include "engine/text/tokenizer.h"

namespace sluice {

Result<Tokenizer> gguf_tokenizer(const GgufFile& file);
std::vector<std::int32_t> gguf_end_tokens(const GgufFile& file);

}  // namespace sluice

// Another program's speed on a GGUF file: llama.cpp's llama-bench, or one that takes its words
// (bench/llama_bench.py).
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace sluice {

struct Peer {
  std::string program, file;
};

/// Tokens per second that it gives for `what` ("-p": prompt, "-n": answer) of so many tokens, with
/// as many threads as it gives itself. Errors: what went wrong with it.
Result<double> ask_peer(const Peer& peer, const char* what, std::size_t tokens);

}  // namespace sluice

// What to tell whoever wrote words that a model of whole words does not know.
//
// It reads each of them as one and the same unknown word, so its answer means little.
#pragma once

#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"

namespace sluice {

/// "the model does not know the words 'a', 'b'; those it knows: DIRECTORY/README.md", eight of them
/// at most; empty: it knows them all, or spells what it does not. For people: without control
/// characters. Thread: any.
std::string unknown_words_text(const Tokenizer& tokenizer, std::string_view text,
                               const std::string& directory);

}  // namespace sluice

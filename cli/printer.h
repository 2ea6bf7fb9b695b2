// Shows what one call brings: pictures and tensors go to files, the rest to standard output.
//
// Thread: one.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "cli/output_files.h"
#include "cli/progress.h"

namespace sluice::cli {

/// What an answer that was cut off reached, as its attribute `cut_off` says.
inline const char* reached(std::int64_t cut_off) {
  return cut_off == 2 ? "has filled the pages there are (`pages` of its paged_kv)"
                      : "reached its most tokens (--max-tokens, max_tokens)";
}

class Printer {
 public:
  /// Borrows the progress, whose line gives way to what is shown.
  Printer(OutputFiles files, Progress& progress) : files_(std::move(files)), progress_(progress) {}

  void show(std::string_view output, const Payload& value);
  /// Ends the last line. The first thing that went wrong, or nothing.
  const std::string& finish();
  /// Whether a role said that an answer reached its most tokens.
  /// Why the last answer that was cut off was, as `reached` reads it; 0: none was.
  std::int64_t cut_off() const { return cut_off_; }

 private:
  void end_line();
  /// False: it could not be written. From then on the output's texts are shown.
  bool save(std::string_view output, const Payload& value);

  OutputFiles files_;
  Progress& progress_;
  std::string problem_;
  std::string last_;
  std::set<std::string, std::less<>> unwritten_;  // outputs whose file cannot be written
  bool line_open_ = false;
  std::int64_t cut_off_ = 0;
};

}  // namespace sluice::cli

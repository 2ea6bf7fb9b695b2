// Shows what one call brings: pictures and tensors go to files, the rest to standard output.
//
// Where several outputs go to standard output, each whole line stands behind its output's name, so
// that two answers which grow at the same time can be told apart. One alone is shown as it grows.
// Thread: one.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "cli/output_files.h"
#include "cli/progress.h"

namespace sluice::cli {

/// What an answer that was cut off reached, as its attribute `cut_off` says.
inline const char* reached(std::int64_t cut_off) {
  if (cut_off == 2) return "has filled the pages there are (`pages` of its paged_kv)";
  if (cut_off == 3) return "has filled the positions that the model has (begin a new session)";
  if (cut_off == 4) return "has filled what its tenant may have (`tenant_pages` of its paged_kv)";
  return "reached its most tokens (--max-tokens, or the role's option max_tokens)";
}

class Printer {
 public:
  /// Borrows the progress, whose line gives way to what is shown.
  /// `several`: more than one output may bring text.
  Printer(OutputFiles files, Progress& progress, bool several)
      : files_(std::move(files)), progress_(progress), several_(several) {}

  void show(std::string_view output, const Payload& value);
  /// Ends the last line. The first thing that went wrong, or nothing.
  const std::string& finish();
  /// Why the last answer that was cut off was, as `reached` reads it; 0: none was.
  std::int64_t cut_off() const { return cut_off_; }
  const OutputFiles& files() const { return files_; }

 private:
  void end_line();
  void show_lines(std::string_view output, const std::string& text);
  /// False: it could not be written. From then on the output's texts are shown.
  bool save(std::string_view output, const Payload& value);

  OutputFiles files_;
  Progress& progress_;
  std::string problem_;
  std::map<std::string, std::string, std::less<>> open_;  // of several: the line that grows
  std::set<std::string, std::less<>> unwritten_;          // outputs whose file cannot be written
  const bool several_;
  bool line_open_ = false;
  std::int64_t cut_off_ = 0;
};

}  // namespace sluice::cli

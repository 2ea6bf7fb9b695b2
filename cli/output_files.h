// Where a call's outputs go: pictures and tensors to files, the rest to standard output unless a
// file is named.
//
// The file that the command line names is written over; every other takes the next number that is
// free (NAME.png, NAME-2.png), so nothing else is. What can be known before anything runs is an
// error then: a file for two outputs, a folder that is not there or may not be written. A picture
// becomes .png, a tensor or audio .npy. Thread: one. Errors: invalid_argument (what `--out` says
// does not fit the workflow), unavailable (a file cannot be written).
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/payload.h"
#include "base/result.h"

namespace sluice::cli {

/// A declared output, and the type of its values as far as it is known.
struct OutputType {
  std::string name;
  ValueType type = ValueType::any;
};

class OutputFiles {
 public:
  /// `given`: what stands behind each `--out`: NAME=FILE, a folder, or the FILE of the workflow's
  /// one picture or tensor.
  static Result<OutputFiles> make(const std::vector<std::string>& given,
                                  const std::vector<OutputType>& outputs);

  /// For many calls: none of their files is named. Made where it is not there.
  static Result<OutputFiles> in_folder(const std::string& folder);

  /// The output that the command line sends to that file; empty: none.
  std::string name_of(const std::string& path) const;
  bool is_named(std::string_view output) const { return named_.contains(output); }
  /// What the command line names: the file of an output.
  const std::map<std::string, std::string, std::less<>>& named() const { return named_; }
  /// True when values of the output go to a file.
  bool takes(std::string_view output, const Payload& value) const;
  /// Writes the value; its file's path. Text, JSON, numbers and bytes of one output follow each
  /// other in one file. `prefix` stands before the names of files that nobody named.
  Result<std::string> write(std::string_view output, const Payload& value,
                            const std::string& prefix = "");
  /// Files that the command line names and that nothing was written to, in words.
  std::vector<std::string> unwritten() const;

 private:
  std::map<std::string, std::string, std::less<>> named_;  // the file of an output
  std::set<std::string, std::less<>> begun_;               // whose named file was written
  std::string folder_;                                     // of the others; empty: here
};

/// The file; of a folder, all files below it: what reads a checkpoint or plugins may read of it.
std::vector<std::string> files_below(const std::string& path);

/// That `path`, which stands behind `option`, is none of the files of `read`, so that it may be
/// written. Empty texts and `-` are no files. Errors: invalid_argument.
Result<void> check_not_over(const std::string& option, const std::string& path,
                            const std::vector<std::string>& read);

/// That neither an output nor a trace (empty: none) goes to a file of `read`: what the command line
/// names to be read. Empty texts and `-` are no files. Errors: invalid_argument.
Result<void> check_not_read(const OutputFiles& files, const std::string& trace,
                            const std::vector<std::string>& read);

/// Whether a file can be made or written over there, as far as that shows without doing it. Errors:
/// unavailable.
Result<void> check_can_write(const std::string& path);

/// The bytes of a value's file: PNG, .npy, or the text as it is.
std::string file_bytes(const Payload& value);

}  // namespace sluice::cli

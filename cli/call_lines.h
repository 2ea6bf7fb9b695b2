// Calls and results as JSON lines: what `sluice run --calls` reads and writes.
//
// A call: {"id": ANY, "session": NAME, "inputs": {NAME: VALUE}, "deadline_ms": N, "end_session":
// BOOL}; all but "inputs" may be left out. VALUE is by the input's declared type: JSON stands as it
// is, a text and bytes are a string, a number is one, and all but JSON may be {"file": PATH} or
// {"base64": BYTES}; null leaves an input out. Keys keep their order; none stands twice in an
// object, of at most 20,000. Errors: invalid_argument, with the part of the line that is wrong.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/given_inputs.h"
#include "runtime/runner.h"

namespace sluice::cli {

/// Of one call, in the order in which they came.
using CallOutputs = std::vector<std::pair<std::string_view, PayloadRef>>;

struct CallLine {
  std::size_t number = 0;   // of the line
  std::string id = "null";  // JSON
  std::string session;      // set before, for a line that names none; empty: it has its own
  std::chrono::milliseconds deadline{0};
  bool end_session = false;  // behind the call, or in place of one that is wrong
  CallInputs inputs;
  std::string lacks;  // what cannot run without the inputs that it leaves out; empty: nothing
};

/// What could be read stands in `call` in any case.
Result<void> read_call(std::string_view text, const Plan& plan, CallLine& call);

/// A value that went to a file. Many are in the order of `output`.
struct WrittenFile {
  std::size_t output = 0;  // its index among the call's outputs
  std::string path;
};

/// One line: {"line", "id", "session", "ok", "outputs", "warnings", "error"}. The values of an
/// output that are all texts are joined to one string; of any other all stand in a list.
std::string result_line(const CallLine& call, const CallOutcome& outcome,
                        const CallOutputs& outputs, const std::vector<WrittenFile>& files);

}  // namespace sluice::cli

// What the command line gives a call: `--input NAME=VALUE|@FILE|-`, read as the workflow declares.
//
// Errors: the option, the file, and what the input needs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/payload.h"
#include "base/result.h"
#include "graph/plan.h"

namespace sluice::cli {

using CallInputs = std::vector<std::pair<std::string, PayloadRef>>;

/// Index of an input among the plan's. Errors: not_found, with those there are.
Result<std::size_t> find_input(const Plan& plan, const std::string& name);

/// `NAME=VALUE`: the value itself, `@FILE` its bytes (`@@` a text that begins with one @), `-`
/// standard input.
Result<void> read_input(const Plan& plan, const std::string& given, CallInputs& inputs);

/// Whether a node, a count or an output reads this input.
bool is_read(const Plan& plan, std::string_view name);

/// Inputs that are read, and neither given nor said to be left out, in words; empty: the call is
/// whole.
std::string missing_inputs(const Plan& plan, const CallInputs& inputs,
                           const std::vector<std::string>& without);
/// The same as an error, and `without` checked.
Result<void> check_whole(const Plan& plan, const CallInputs& inputs,
                         const std::vector<std::string>& without);

/// The file that `NAME=@FILE` reads; empty: the value stands there, or comes from standard input.
std::string file_of_input(const std::string& given);

/// True when the value of `NAME=VALUE` is standard input.
bool reads_standard_input(const std::string& given);

}  // namespace sluice::cli

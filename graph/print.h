// Diagnostics and plans as people and programs read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/diagnostic.h"
#include "graph/included.h"
#include "graph/plan.h"

namespace sluice {

/// By place, errors before warnings on one place; those of included files behind the file's own.
void sort_diagnostics(Diagnostics& diagnostics);

/// `file:line:column: error: message [code]`, the line, a caret, and the suggestion. Control bytes
/// are escaped, a long line is cut around the caret. In an included file its own place and line,
/// and below it `included from file:line:column`, from there outwards.
std::string diagnostic_text(const Diagnostic& diagnostic, std::string_view file,
                            std::string_view source, const IncludedFiles& included = {});
/// {"file","line","column","severity","code","message","suggestion"}, in an included file with
/// "included_from": ["file:line:column", ...].
std::string diagnostic_json(const Diagnostic& diagnostic, std::string_view file,
                            const IncludedFiles& included = {});
/// The first twenty as text, and how many more there are.
std::string diagnostics_text(const Diagnostics& diagnostics, std::string_view file,
                             std::string_view source, const IncludedFiles& included = {});
/// `file:line` of a mark.
std::string place_text(const Mark& mark, std::string_view file, const IncludedFiles& included);

struct FileDiagnostics {
  std::string file;
  Diagnostics diagnostics;
  IncludedFiles included = {};
};
/// A SARIF 2.1.0 log of one run, with a rule for each code that occurs.
std::string diagnostics_sarif(const std::vector<FileDiagnostics>& files);

std::string plan_text(const Plan& plan);
std::string plan_json(const Plan& plan);
/// Pictures: each arrow into a node is an OR group; a gate needs all that leads into it.
std::string plan_svg(const Plan& plan);
std::string plan_dot(const Plan& plan);
std::string plan_mermaid(const Plan& plan);
/// In words: what makes the node run, and what can stop it.
std::string explain_node(const Plan& plan, const PlanNode& node);

/// What a call brings and who reads it; what is delivered, and in which order.
std::string explain_inputs(const Plan& plan);
std::string explain_output(const Plan& plan, const PlanOutput& output);

/// A string as JSON writes it, quotes included; bytes that are not UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace sluice

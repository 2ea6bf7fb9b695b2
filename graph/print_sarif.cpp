// Diagnostics as SARIF 2.1.0, which code hosts and editors show beside the lines.
#include <algorithm>
#include <string>

#include "graph/print.h"

namespace sluice {

namespace {

/// A path as a URI reference: what is not allowed in one is percent-encoded.
std::string uri_of(std::string_view path) {
  static constexpr std::string_view hex = "0123456789ABCDEF";
  std::string uri;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain)
      uri += c;
    else
      uri += {'%', hex[byte >> 4U], hex[byte & 15U]};
  }
  return uri;
}

/// "unknown-node" is the rule "unknown node".
std::string rule_json(const std::string& code) {
  std::string words = code;
  std::ranges::replace(words, '-', ' ');
  return "{\"id\":" + json_quote(code) + ",\"shortDescription\":{\"text\":" + json_quote(words) +
         "}}";
}

std::string region_json(const Mark& mark) {
  return "\"region\":{\"startLine\":" + std::to_string(line_in_file(mark)) +
         ",\"startColumn\":" + std::to_string(std::max(1U, mark.column)) +
         ",\"endColumn\":" + std::to_string(std::max(1U, mark.column) + std::max(1U, mark.length)) +
         "}";
}

std::string result_json(const Diagnostic& d, const FileDiagnostics& all, std::size_t rule) {
  const std::string& file =
      file_of(d.mark) == 0 ? all.file : all.included[file_of(d.mark) - 1].name;
  const std::string help = d.suggestion.empty() ? "" : " (" + d.suggestion + ")";
  return "{\"ruleId\":" + json_quote(d.code) + ",\"ruleIndex\":" + std::to_string(rule) +
         ",\"level\":\"" + (d.severity == Severity::error ? "error" : "warning") +
         "\",\"message\":{\"text\":" + json_quote(d.message + help) +
         "},\"locations\":[{\"physicalLocation\":{\"artifactLocation\":{\"uri\":" +
         json_quote(uri_of(file)) + "}" + (d.mark.line > 0 ? "," + region_json(d.mark) : "") +
         "}}]}";
}

}  // namespace

std::string diagnostics_sarif(const std::vector<FileDiagnostics>& files) {
  std::vector<std::string> rules;
  std::string results;
  std::string rule_list;
  for (const FileDiagnostics& file : files)
    for (const Diagnostic& d : file.diagnostics) {
      const auto at = std::ranges::find(rules, d.code);
      const auto rule = static_cast<std::size_t>(at - rules.begin());
      if (at == rules.end()) {
        rules.push_back(d.code);
        rule_list += (rule_list.empty() ? "" : ",") + rule_json(d.code);
      }
      results += (results.empty() ? "\n" : ",\n") + result_json(d, file, rule);
    }
  return "{\"version\":\"2.1.0\",\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\","
         "\"runs\":[{\"columnKind\":\"unicodeCodePoints\",\"tool\":{\"driver\":{\"name\":"
         "\"sluice\","
         "\"rules\":[" +
         rule_list + "]}},\"results\":[" + results + "]}]}\n";
}

}  // namespace sluice

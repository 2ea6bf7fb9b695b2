// The files of a new role's project, as `cli/role_template` has them when the program is built.
#pragma once

#include <span>
#include <string_view>

namespace sluice::cli {

struct TemplateFile {
  std::string_view name;  // as in the folder: NAME.role.yaml.in, plain.cpp.in
  std::string_view text;  // with @NAME@, @CLASS@ and @KIND@ in it
};

std::span<const TemplateFile> role_template();

}  // namespace sluice::cli

#include "plugin/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>

#include "graph/print.h"
#include "plugin/elf_size.h"
#include "plugin/text.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

bool anybody_may_write(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0;
}

/// The table of 1.0, whatever a later minor version adds at its end.
constexpr std::size_t table_bytes =
    offsetof(sluice_plugin, end_session) + sizeof(sluice_plugin::end_session);

Error wrong(const std::string& path, const std::string& what) {
  return invalid_argument(path + ": " + what);
}

/// A file that ends before what its headers name: to load it would end the process. What cannot be
/// read here the loader reads, or says why not.
Result<void> check_whole(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {};
  struct stat status {};
  const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<std::size_t>(is_file ? status.st_size : 0);
  void* bytes = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  ::close(file);
  if (bytes == MAP_FAILED) return {};
  const std::uint64_t needed = elf_bytes_needed({static_cast<const std::byte*>(bytes), size});
  ::munmap(bytes, size);
  if (needed <= size) return {};
  return wrong(path, "it cannot be loaded: it is cut off (its headers need " +
                         std::to_string(needed) + " bytes, it has " + std::to_string(size) +
                         "); build it or copy it anew");
}

std::string missing_function(const sluice_plugin& table, const RoleManifest& manifest) {
  if (table.create == nullptr) return "create";
  if (table.destroy == nullptr) return "destroy";
  if (!manifest.stepped) return table.run == nullptr ? "run" : "";
  if (table.admit == nullptr) return "admit";
  return table.step == nullptr ? "step" : "";
}

std::string missing_param_function(const sluice_plugin& table) {
  if (table.create_param == nullptr) return "create_param";
  if (table.destroy_param == nullptr) return "destroy_param";
  return table.end_session == nullptr ? "end_session" : "";
}

/// What the shared object says of itself, against its manifest.
Result<void> compare(const std::string& path, const sluice_plugin& table,
                     const RoleManifest& manifest) {
  const auto name = text_of(table.name, 64);
  if (!name || *name != manifest.declaration.name)
    return wrong(path, "it says that its name is " +
                           (name ? in_quotes(*name) : std::string("no readable text")) +
                           ", the manifest says '" + manifest.declaration.name + "'");
  const auto text = text_of(table.declaration, manifest_bytes_max);
  if (!text) return wrong(path, "it holds no readable declaration");
  const LoadedManifest own = load_manifest(*text);
  if (has_errors(own.diagnostics))
    return wrong(path, "the declaration in it is wrong:\n" +
                           diagnostics_text(own.diagnostics, "declaration", own.text));
  const std::string differs = difference(manifest, "the manifest", own.manifest, "it");
  if (!differs.empty())
    return wrong(path, "it was built with another manifest than the one beside it: " + differs);
  std::string missing = missing_function(table, manifest);
  if (missing.empty() && !manifest.declaration.global_param_kinds.empty())
    missing = missing_param_function(table);
  if (missing.empty()) return {};
  return wrong(
      path, "it has no function '" + missing + "', which a " +
                (manifest.stepped ? "stepped" : "plain") + " role" +
                (missing.ends_with("param") || missing == "end_session" ? " with global parameters"
                                                                        : "") +
                " needs");
}

}  // namespace

std::string abi_problem(std::uint32_t major, std::uint32_t minor) {
  const auto version = [](std::uint32_t a, std::uint32_t b) {
    return std::to_string(a) + "." + std::to_string(b);
  };
  const std::string versions = "plugin ABI " + version(major, minor) + ", this program plays " +
                               version(SLUICE_ABI_MAJOR, SLUICE_ABI_MINOR);
  if (major != SLUICE_ABI_MAJOR) return versions + ": build it with this program's headers";
  if (minor > SLUICE_ABI_MINOR) return versions + ": it needs a newer sluice";
  return "";
}

Result<std::string> find_library(const std::string& folder, const std::string& name) {
  std::error_code failed;
  const fs::path place = fs::canonical(folder, failed);
  if (failed == std::errc::no_such_file_or_directory)
    return Error{ErrorCode::not_found, folder + ": no such folder"};
  if (failed) return invalid_argument(folder + ": cannot be read: " + failed.message());
  std::vector<fs::path> found;
  for (const std::string& file : {name + ".so", "lib" + name + ".so"})
    if (fs::is_regular_file(place / file, failed)) found.push_back(place / file);
  if (found.empty())
    return Error{ErrorCode::not_found, "plugin '" + name + "': neither " + name + ".so nor lib" +
                                           name + ".so is in " + place.string()};
  if (found.size() > 1)
    return invalid_argument("plugin '" + name + "': both " + name + ".so and lib" + name +
                            ".so are in " + place.string() + "; remove one");
  // What is checked is what is loaded, wherever a link leads.
  const fs::path code = fs::canonical(found.front(), failed);
  if (failed)
    return invalid_argument(found.front().string() + ": cannot be read: " + failed.message());
  for (const fs::path& path : {place, code, code.parent_path()})
    if (anybody_may_write(path))
      return invalid_argument(path.string() + ": anybody may write it, so its code is not run; " +
                              "try chmod o-w");
  return code.string();
}

Result<const sluice_plugin*> open_library(const std::string& path, const RoleManifest& manifest) {
  if (Result<void> whole = check_whole(path); !whole.ok()) return whole.error();
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return wrong(path, std::string("it cannot be loaded: ") + (why != nullptr ? why : "no reason"));
  }
  using Entry = const sluice_plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "sluice_plugin_entry"));
  if (entry == nullptr)
    return wrong(path, "it has no symbol 'sluice_plugin_entry', so it is no plugin of Sluice");
  const sluice_plugin* table = nullptr;
  try {
    table = entry();
  } catch (...) {
    return wrong(path, "its sluice_plugin_entry threw an exception");
  }
  if (table == nullptr) return wrong(path, "its sluice_plugin_entry returned nothing");
  if (std::string why = abi_problem(table->abi_major, table->abi_minor); !why.empty())
    return wrong(path, "it was built for " + why);
  if (table->struct_size < table_bytes)
    return wrong(path, "its table has " + std::to_string(table->struct_size) +
                           " bytes, ABI 1.0 has " + std::to_string(table_bytes));
  if (Result<void> same = compare(path, *table, manifest); !same.ok()) return same.error();
  return table;
}

}  // namespace sluice

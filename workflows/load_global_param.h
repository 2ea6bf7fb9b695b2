// One entry of a workflow's `global_params`, read strictly. Private to workflows/.
#pragma once

#include <array>
#include <string_view>

#include "graph/spec.h"
#include "workflows/yaml_reader.h"

namespace sluice {

class GlobalParamReader : public YamlReader {
 public:
  static constexpr std::array<std::string_view, 10> keys{
      "kind", "model",     "page_tokens", "pages",      "kv_dtype",
      "ssd",  "ssd_bytes", "device",      "host_bytes", "tenant_pages"};

  using YamlReader::YamlReader;

  /// `key` is the name as it stands in the file.
  GlobalParamSpec load(const Name& param, const YamlNode& key, const YamlNode& node);

 private:
  void load_kv_dtype(const YamlNode& node, GlobalParamSpec& spec);
  void load_device(const YamlNode& node, GlobalParamSpec& spec);
  void load_ssd(const YamlNode& node, GlobalParamSpec& spec);
  void load_host_bytes(const YamlNode& node, GlobalParamSpec& spec);
  void load_tenant_pages(const YamlNode& node, GlobalParamSpec& spec);
};

}  // namespace sluice

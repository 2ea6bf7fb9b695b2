#include "workflows/load_global_param.h"

#include "base/byte_size.h"

namespace sluice {

using Kind = YamlNode::Kind;

GlobalParamSpec GlobalParamReader::load(const Name& param, const YamlNode& key,
                                        const YamlNode& node) {
  GlobalParamSpec spec;
  spec.name = param;
  if (!expect(node, Kind::map, "global parameter " + in_quotes(key.scalar))) return spec;
  check_keys(node, keys, "global parameter " + in_quotes(key.scalar));
  if (const YamlNode* kind = find(node, "kind")) {
    spec.kind = name(*kind, "a kind").value_or(Name{});
  } else {
    error(key.mark, "missing-key", "global parameter '" + key.scalar + "' needs a 'kind'",
          "kind: paged_kv");
  }
  // What was refused stands as a model without a name, so that it is not said to lack one.
  if (const YamlNode* model = find(node, "model"))
    spec.model = expect(*model, Kind::scalar, "model") ? Name{model->scalar, model->mark} : Name{};
  if (const YamlNode* tokens = find(node, "page_tokens"))
    spec.page_tokens = number(*tokens, "page_tokens", 1, 4096).value_or(spec.page_tokens);
  if (const YamlNode* pages = find(node, "pages"))
    spec.pages = number(*pages, "pages", 1, 1 << 30).value_or(spec.pages);
  if (const YamlNode* dtype = find(node, "kv_dtype");
      dtype && expect(*dtype, Kind::scalar, "kv_dtype"))
    load_kv_dtype(*dtype, spec);
  load_ssd(node, spec);
  load_device(node, spec);
  load_host_bytes(node, spec);
  load_tenant_pages(node, spec);
  return spec;
}

void GlobalParamReader::load_tenant_pages(const YamlNode& node, GlobalParamSpec& spec) {
  const YamlNode* pages = find(node, "tenant_pages");
  if (!pages) return;
  spec.tenant_pages = number(*pages, "tenant_pages", 1, 1 << 30).value_or(0);
  spec.tenant_pages_mark = pages->mark;
  if (spec.pages > 0 && spec.tenant_pages > spec.pages)
    error(pages->mark, "wrong-value",
          "tenant_pages is " + std::to_string(spec.tenant_pages) + ", and the pool has " +
              std::to_string(spec.pages) + " pages: that limits no tenant",
          "fewer tenant_pages, or leave them out");
}

void GlobalParamReader::load_kv_dtype(const YamlNode& node, GlobalParamSpec& spec) {
  if (node.scalar == "bf16")
    spec.kv_dtype = Dtype::bf16;
  else if (node.scalar != "f32")
    error(node.mark, "wrong-value",
          in_quotes(node.scalar) + " is no kv_dtype, keys and values are kept in f32 or bf16",
          "kv_dtype: bf16");
}

/// A GPU's pages are in the precision of the roles that compute on them.
void GlobalParamReader::load_device(const YamlNode& node, GlobalParamSpec& spec) {
  const YamlNode* device = find(node, "device");
  if (!device || !expect(*device, Kind::scalar, "device") || device->scalar == "cpu") return;
  if (device->scalar != "cuda") {
    error(device->mark, "wrong-value",
          in_quotes(device->scalar) + " is no device, models run on the cpu or on cuda, a GPU",
          "device: cuda");
    return;
  }
  spec.device = EngineDevice::cuda;
  spec.device_mark = device->mark;
  if (const YamlNode* dtype = find(node, "kv_dtype"))
    error(dtype->mark, "wrong-value",
          "kv_dtype is of pages of the CPU; with device: cuda they have the precision of the roles "
          "that list them",
          "leave kv_dtype out, and write the option precision: bf16 at the role");
}

void GlobalParamReader::load_host_bytes(const YamlNode& node, GlobalParamSpec& spec) {
  const YamlNode* bytes = find(node, "host_bytes");
  if (!bytes || !expect(*bytes, Kind::scalar, "host_bytes")) return;
  const auto size = parse_byte_size(bytes->scalar);
  if (!size)
    error(bytes->mark, "wrong-value",
          in_quotes(bytes->scalar) + " is no size for host_bytes: it " +
              std::string(byte_size_fault(bytes->scalar)),
          "a whole number and KiB, MiB, GiB or TiB: host_bytes: 16GiB, or 0 for none");
  else if (spec.device != EngineDevice::cuda)
    error(bytes->mark, "wrong-value",
          "host_bytes is of pages that a GPU has given up; without device: cuda all pages are in "
          "the host's memory, and `pages` says how many",
          "device: cuda, or leave host_bytes out");
  else if (*size == 0 && spec.ssd)
    error(bytes->mark, "wrong-value",
          "host_bytes is 0, but pages of a GPU go through the host's memory into the folder of ssd",
          "leave host_bytes out, or ssd");
  else {
    spec.host_bytes = static_cast<std::int64_t>(*size);
    spec.host_bytes_mark = bytes->mark;
  }
}

void GlobalParamReader::load_ssd(const YamlNode& node, GlobalParamSpec& spec) {
  const YamlNode* ssd = find(node, "ssd");
  const YamlNode* bytes = find(node, "ssd_bytes");
  if (ssd && expect(*ssd, Kind::scalar, "ssd")) {
    if (ssd->scalar.find_first_not_of(' ') == std::string::npos)
      error(ssd->mark, "wrong-value", "ssd names no folder", "ssd: /var/cache/pages");
    else if (ssd->scalar == "~" || ssd->scalar.starts_with("~/") ||
             ssd->scalar.find("${") != std::string::npos)
      error(ssd->mark, "wrong-value",
            in_quotes(ssd->scalar) + ": ssd is a plain path; neither ~ nor ${NAME} is read in it",
            "ssd: /var/cache/pages, or a path relative to the workflow file");
    else
      spec.ssd = Name{ssd->scalar, ssd->mark};
  }
  if (!bytes || !expect(*bytes, Kind::scalar, "ssd_bytes")) return;
  const auto size = parse_byte_size(bytes->scalar);
  if (!size || *size < 1 << 20)
    error(bytes->mark, "wrong-value",
          in_quotes(bytes->scalar) + " is no size for ssd_bytes: it " +
              std::string(size ? "is less than 1 MiB" : byte_size_fault(bytes->scalar)),
          "a whole number and KiB, MiB, GiB or TiB: ssd_bytes: 4GiB");
  else if (!ssd)
    error(bytes->mark, "wrong-value", "ssd_bytes stands without ssd, the folder that it limits",
          "ssd: /var/cache/pages");
  else {
    spec.ssd_bytes = static_cast<std::int64_t>(*size);
    spec.ssd_bytes_mark = bytes->mark;
  }
}

}  // namespace sluice

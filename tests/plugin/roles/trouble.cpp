// A plugin that does wrong what its input says: over the C interface alone, and in C++, so that it
// can throw across it.
#include <sluice/sluice_plugin.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
extern const char sluice_role_declaration[];
extern const std::uint64_t sluice_role_declaration_size;
}

namespace {

sluice_text text(const char* words) { return {words, std::strlen(words)}; }

struct Trouble {
  const sluice_host* host = nullptr;
  std::uint32_t threads = 0;
  std::uint64_t before = 0;  // an activation that has ended
};

sluice_value value_of(std::uint32_t type) {
  sluice_value value{};
  value.struct_size = sizeof value;
  value.type = type;
  return value;
}

struct Doing {
  Trouble& self;
  std::uint64_t id;
  sluice_error& error;

  std::int32_t yield(const char* field, const sluice_value& value) const {
    const sluice_field one{text(field), &value};
    self.host->yield(self.host, id, &one, 1);
    return SLUICE_OK;  // as if all were well
  }
  std::int32_t word(const char* words) const {
    sluice_value value = value_of(SLUICE_TEXT);
    value.text = text(words);
    return yield("word", value);
  }
  std::int32_t grid(std::uint32_t dtype, std::vector<std::int64_t> shape, std::uint64_t bytes,
                    bool with_data = true) const {
    static const float zeros[64]{};
    sluice_value value = value_of(SLUICE_TENSOR);
    value.dtype = dtype;
    value.shape = shape.data();
    value.rank = shape.size();
    value.data = with_data ? zeros : nullptr;
    value.data_size = bytes;
    return yield("grid", value);
  }
  std::int32_t text_of_size(const char* data, std::uint64_t size) const {
    sluice_value value = value_of(SLUICE_TEXT);
    value.text = {data, size};
    return yield("word", value);
  }
  std::int32_t fails(std::int32_t code, const char* message) const {
    std::strcpy(error.message, message);
    return code;
  }
};

using Deed = std::function<std::int32_t(const Doing&)>;

std::int32_t waits(const Doing& d, int end_of_pipe) {
  char byte = 0;
  const auto got = ::read(end_of_pipe, &byte, 1);  // looks at no cancellation
  return d.word(got == 1 ? "waited" : "no pipe");
}

const std::map<std::string, Deed>& deeds() {
  static const std::map<std::string, Deed> all{
      {"well", [](const Doing& d) { return d.word("well"); }},
      {"throw", [](const Doing&) -> std::int32_t { throw std::runtime_error("a tantrum"); }},
      {"throw a number", [](const Doing&) -> std::int32_t { throw 7; }},
      {"fail", [](const Doing& d) { return d.fails(SLUICE_INVALID_ARGUMENT, "no\x01\xff\nway"); }},
      {"fail oddly", [](const Doing& d) { return d.fails(77, "odd"); }},
      {"fail silently", [](const Doing& d) { return d.fails(SLUICE_EXHAUSTED, ""); }},
      {"fail at length",
       [](const Doing& d) {
         std::memset(d.error.message, 'a', sizeof d.error.message);
         return std::int32_t{SLUICE_CORRUPT};
       }},
      {"field", [](const Doing& d) { return d.yield("nowhere", value_of(SLUICE_NUMBER)); }},
      {"type", [](const Doing& d) { return d.yield("word", value_of(SLUICE_NUMBER)); }},
      {"unknown type", [](const Doing& d) { return d.yield("word", value_of(99)); }},
      {"good grid",
       [](const Doing& d) {
         return d.grid(SLUICE_F32, {3, 2}, 24);
       }},
      {"dtype",
       [](const Doing& d) {
         return d.grid(SLUICE_I32, {3, 2}, 24);
       }},
      {"unknown dtype",
       [](const Doing& d) {
         return d.grid(9, {3, 2}, 24);
       }},
      {"shape",
       [](const Doing& d) {
         return d.grid(SLUICE_F32, {3, 3}, 36);
       }},
      {"rank",
       [](const Doing& d) { return d.grid(SLUICE_F32, std::vector<std::int64_t>(9, 1), 4); }},
      {"negative",
       [](const Doing& d) {
         return d.grid(SLUICE_F32, {-3, 2}, 24);
       }},
      {"overflow",
       [](const Doing& d) {
         return d.grid(SLUICE_F32, {std::int64_t{1} << 62, std::int64_t{1} << 62}, 0);
       }},
      {"data size",
       [](const Doing& d) {
         return d.grid(SLUICE_F32, {3, 2}, std::uint64_t{1} << 60);
       }},
      {"no grid data",
       [](const Doing& d) {
         return d.grid(SLUICE_F32, {3, 2}, 24, false);
       }},
      {"no rows",
       [](const Doing& d) {
         return d.grid(SLUICE_F32, {0, 2}, 0, false);
       }},
      {"huge", [](const Doing& d) { return d.text_of_size("a", ~std::uint64_t{0}); }},
      {"no data", [](const Doing& d) { return d.text_of_size(nullptr, 5); }},
      {"not text", [](const Doing& d) { return d.text_of_size("a\xff", 2); }},
      {"long", [](const Doing& d) { return d.word("0123456789012345678901234567890123456789!"); }},
      {"threads", [](const Doing& d) { return d.word(std::to_string(d.self.threads).c_str()); }},
      {"three",
       [](const Doing& d) {
         for (int i = 0; i < 3; ++i) d.word("one");
         return std::int32_t{SLUICE_OK};
       }},
      {"handle",
       [](const Doing& d) {
         sluice_value value = value_of(SLUICE_TEXT);
         value.handle = 12345;
         return d.yield("word", value);
       }},
      {"small value",
       [](const Doing& d) {
         sluice_value value = value_of(SLUICE_TEXT);
         value.struct_size = 8;
         return d.yield("word", value);
       }},
      {"no value",
       [](const Doing& d) {
         const sluice_field one{text("word"), nullptr};
         d.self.host->yield(d.self.host, d.id, &one, 1);
         return std::int32_t{SLUICE_OK};
       }},
      {"no name",
       [](const Doing& d) {
         const sluice_value value = value_of(SLUICE_NUMBER);
         const sluice_field one{{nullptr, 9}, &value};
         d.self.host->yield(d.self.host, d.id, &one, 1);
         return std::int32_t{SLUICE_OK};
       }},
      {"many fields",
       [](const Doing& d) {
         d.self.host->yield(d.self.host, d.id, nullptr, std::uint64_t{1} << 40);
         return std::int32_t{SLUICE_OK};
       }},
      {"read",
       [](const Doing& d) {
         return d.word(d.self.host->input_count(d.self.host, d.id, text("secret")) == 0 ? "none"
                                                                                        : "some");
       }},
      {"retire",
       [](const Doing& d) {
         return d.self.host->retire(d.self.host, d.id, 0, text("")), d.word("a");
       }},
      // Says as its word with what codes the host refused it.
      {"stale",
       [](const Doing& d) {
         sluice_value value = value_of(SLUICE_NUMBER);
         const sluice_field one{text("word"), &value};
         const int yielded = d.self.host->yield(d.self.host, d.self.before, &one, 1);
         const int asked = d.self.host->cancelled(d.self.host, d.self.before);
         return d.word((std::to_string(yielded) + " " + std::to_string(asked)).c_str());
       }},
      {"tensor", [](const Doing& d) {
         const std::int64_t shape[]{-1, 1, 1, 1, 1, 1, 1, 1, 1};
         sluice_value value = value_of(0);
         void* data = nullptr;
         const auto made = [&](std::uint32_t type, std::uint32_t dtype, std::uint64_t rank) {
           return d.self.host->make_tensor(d.self.host, d.id, type, dtype, shape, rank, &value,
                                           &data);
         };
         const int no_shape = d.self.host->make_tensor(d.self.host, d.id, SLUICE_TENSOR, SLUICE_F32,
                                                       nullptr, 3, &value, &data);
         const int codes = no_shape * 10000 + made(SLUICE_TEXT, SLUICE_F32, 1) * 1000 +
                           made(SLUICE_TENSOR, 9, 1) * 100 +
                           made(SLUICE_TENSOR, SLUICE_F32, 1) * 10 +
                           made(SLUICE_TENSOR, SLUICE_F32, std::uint64_t{1} << 60);
         return d.word(std::to_string(codes).c_str());
       }}};
  return all;
}

std::int32_t create(const sluice_host* host, const sluice_making* making, void** instance,
                    sluice_error* error) {
  const std::string how(making->options[0].text.data, making->options[0].text.size);
  if (how == "throw") throw std::runtime_error("no start");
  if (how == "badly") {
    std::strcpy(error->message, "out of stock");
    return SLUICE_UNAVAILABLE;
  }
  *instance = new Trouble{host, making->threads};
  return SLUICE_OK;
}

std::int32_t run(void* instance, std::uint64_t id, sluice_error* error) {
  Trouble& self = *static_cast<Trouble*>(instance);
  const Doing doing{self, id, *error};
  sluice_value value = value_of(0);
  sluice_about about{};
  about.struct_size = sizeof about;
  self.host->about(self.host, id, &about);
  if (std::string(about.interface_name.data, about.interface_name.size) == "look") {
    self.host->input(self.host, id, text("grid"), 0, &value);
    std::string sizes = std::to_string(value.data_size) + " bytes:";
    for (std::uint64_t i = 0; i < value.rank; ++i) sizes += " " + std::to_string(value.shape[i]);
    return doing.word(sizes.c_str());
  }
  self.host->input(self.host, id, text("text"), 0, &value);
  const std::string words(value.text.data, value.text.size);
  std::int32_t code = SLUICE_OK;
  if (words.starts_with("wait ")) {
    code = waits(doing, std::atoi(words.c_str() + 5));
  } else {
    const auto it = deeds().find(words);
    code = it == deeds().end() ? doing.fails(SLUICE_NOT_FOUND, "no such deed") : it->second(doing);
  }
  self.before = id;
  return code;
}

}  // namespace

extern "C" const sluice_plugin* sluice_plugin_entry(void) {
  static sluice_plugin table{};
  table.struct_size = sizeof table;
  table.abi_major = SLUICE_ABI_MAJOR;
  table.abi_minor = SLUICE_ABI_MINOR;
  table.name = text("trouble");
  table.declaration = {sluice_role_declaration, sluice_role_declaration_size};
  table.create = create;
  table.destroy = [](void* instance) { delete static_cast<Trouble*>(instance); };
  table.run = run;
  return &table;
}

// What a program and its role hosts say to each other: every place changed, and what is made of it.
#include "runtime/hosts/host_protocol.h"

#include <catch2/catch.hpp>
#include <type_traits>

#include "tests/outcomes.h"

using namespace sluice;
using namespace sluice::hosts;

namespace {

template <typename Message>
std::string words(const Result<Message>& message, const wire::Bytes& bytes) {
  if (!message.ok()) return message.error().message;
  if constexpr (std::is_same_v<Message, Control>) {
    return encode(*message) == bytes ? "read" : "read, and written in another way";
  } else {
    const Result<wire::Bytes> again = encode(*message);
    if (!again.ok()) return "read, and " + again.error().message;
    return *again == bytes ? "read" : "read, and written in another way";
  }
}

MakeParam param() {
  MakeParam make;
  make.spec.name.text = "kv";
  make.spec.kind.text = "paged_kv";
  make.spec.page_tokens = 16;
  make.spec.pages = 300;
  make.spec.kv_dtype = Dtype::bf16;
  make.model_directory = "/m";
  make.spec.ssd = Name{"/s", {}};
  make.spec.ssd_bytes = 1 << 20;
  make.spec.device = EngineDevice::cuda;
  return make;
}

MakeRole role() {
  MakeRole make;
  make.role.name.text = "r";
  make.role.plugin.text = "p";
  make.role.model = Name{"m", {}};
  make.role.global_params = {Name{"kv", {}}};
  make.role.replicas = 2;
  make.role.balance = Balance::session;
  make.role.options = {OptionSpec{{"o", {}}, {"v", {}}}};
  make.replica = 1;
  make.model_directory = "/m";
  make.params = {4};
  make.threads = 2;
  return make;
}

HostedWork work() {
  HostedWork made;
  made.id = 9;
  made.admit = true;
  made.node = "n";
  made.interface = "go";
  made.session = "lisa";
  made.call = 300;
  made.group = 1;
  made.fields = {{"f", {make_text("x"), make_number(2)}}, {"g", {}}};
  return made;
}

PoolReport pool() {
  PoolReport report;
  report.name = "kv";
  report.model = "/m";
  report.layout = "l";
  report.page_tokens = 16;
  report.page_bytes = 1000;
  report.pages = 300;
  report.free = 290;
  report.cached = 4;
  report.used = 6;
  report.window_blocks = 400;
  report.window_hits = 100;
  report.window_optimum = 200;
  report.source = PoolReport::Source::disk;
  report.source_off = "full";
  report.disk_broken = 2;
  report.disk_reads = {1, 300, 400};
  report.pulls = {500, 6, 7};
  report.index = PoolReport::Index{1, 2, 3, 4, 5, 600, "away"};
  report.tenant_pages = 8;
  report.tenants = 1;
  report.tenant_list = {{"t", 7, 300}};
  report.sessions = 1;
  report.session_list = {{"s", "r", 300, 200, true, -1}};
  report.age_ms = 70;
  return report;
}

}  // namespace

TEST_CASE("each place of a message of a role host that is changed is refused or read, as before") {
  test::Outcomes outcomes("host_messages");
  const Error lost{ErrorCode::cancelled, "lost"};
  const std::vector<std::pair<std::string, Control>> controls{
      {"hello", Hello{}}, {"open", OpenChannel{3}}, {"ping", Ping{300}}, {"cancel", Cancel{1, 2}}};
  for (const auto& [title, one] : controls)
    outcomes.change_bytes(title, encode(one), [](const wire::Bytes& bytes) {
      return words(decode_control(bytes), bytes);
    });
  const std::vector<std::pair<std::string, Request>> requests{{"make a parameter", param()},
                                                              {"make a role", role()},
                                                              {"work", work()},
                                                              {"step", StepRequest{{1, 200}}},
                                                              {"end a session", EndSession{"s"}},
                                                              {"look", LookAtPool{300}}};
  for (const auto& [title, one] : requests)
    outcomes.change_bytes(title, encode(one).value(), [](const wire::Bytes& bytes) {
      return words(decode_request(bytes), bytes);
    });
  const std::vector<std::pair<std::string, Reply>> replies{
      {"made", Made{true, lost}},
      {"made well", Made{}},
      {"yielded", Yielded{1, {{"f", make_text("x"), 0, 0}, {"g", {}, 1, 2}}}},
      {"warned", Warned{1, "w"}},
      {"ended", Ended{1, lost, "u"}},
      {"stepped", Stepped{true}},
      {"seen", PoolSeen{pool()}},
      {"no pool", PoolSeen{}}};
  for (const auto& [title, one] : replies)
    outcomes.change_bytes(title, encode(one).value(), [](const wire::Bytes& bytes) {
      return words(decode_reply(bytes), bytes);
    });
  outcomes.require_as_kept();
}

TEST_CASE("names and words of a role host are taken up to 64 KiB") {
  test::Outcomes outcomes("host_limits");
  const auto add = [&](const std::string& title, const Request& request) {
    const Result<wire::Bytes> bytes = encode(request);
    outcomes.add(title, !bytes.ok() ? bytes.error().message
                                    : std::to_string(bytes->size()) +
                                          " bytes: " + words(decode_request(*bytes), *bytes));
  };
  const auto reply = [&](const std::string& title, const Reply& one) {
    const wire::Bytes bytes = encode(one).value();
    outcomes.add(title,
                 std::to_string(bytes.size()) + " bytes: " + words(decode_reply(bytes), bytes));
  };
  constexpr std::size_t most = 64 << 10;
  for (const std::size_t size : {most, most + 1}) {
    const std::string name(size, 'n');
    add("a session that ends", EndSession{name});
    for (std::string HostedWork::*const part :
         {&HostedWork::node, &HostedWork::interface, &HostedWork::session}) {
      HostedWork made = work();
      made.*part = name;
      add("a name of work", made);
    }
    HostedWork made = work();
    made.fields[0].name = name;
    add("a field's name", made);
    reply("a warning is cut", Warned{1, name});
    reply("an error is cut", Ended{1, Error{ErrorCode::corrupt, name}, ""});
    reply("an undeclared field is cut", Ended{1, {}, name});
  }
  for (const std::size_t count : {1024U, 1025U}) {
    MakeRole make = role();
    make.params.assign(count, 1);
    add("channels of parameters", make);
    make = role();
    make.role.global_params.assign(count, Name{"p", {}});
    add("parameters", make);
    make = role();
    make.role.options.assign(count, OptionSpec{{"o", {}}, {"v", {}}});
    add("options", make);
    HostedWork made = work();
    made.fields.assign(count, HostedField{"f", {}});
    add("fields", made);
    reply("fields of a frame",
          Yielded{1, std::vector<HostedValue>(count, HostedValue{"f", {}, 1, 1})});
  }
  for (const std::size_t size : {4096U, 4097U}) {
    MakeParam make = param();
    make.model_directory.assign(size, 'd');
    add("a model's directory", make);
    make = param();
    make.spec.ssd->text.assign(size, 'd');
    add("a folder", make);
    MakeRole other = role();
    other.role.model->text.assign(size, 'd');
    add("a role's model", other);
    other = role();
    other.model_directory.assign(size, 'd');
    add("a role's directory", other);
  }
  for (const std::size_t size : {std::size_t{1} << 20U, (std::size_t{1} << 20U) + 1}) {
    MakeRole make = role();
    make.role.options[0].value.text.assign(size, 'v');
    add("an option's value", make);
    StepRequest step;
    step.cancelled.assign(size, 1);
    add("cancelled activations", step);
  }
  outcomes.require_as_kept();
}

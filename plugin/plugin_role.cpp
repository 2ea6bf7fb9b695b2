#include "plugin/plugin_role.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "plugin/host.h"
#include "plugin/text.h"

namespace sluice {

namespace {

Error thrown(const char* what) {
  return {ErrorCode::unavailable, std::string("the plugin threw: ") + what};
}

/// Calls into the plugin: its code and message, or what it threw, as a result.
template <typename Call>
Result<void> call(Call work) {
  sluice_error error;
  error.message[0] = '\0';
  try {
    const std::int32_t code = work(error);
    if (code == SLUICE_OK) return {};
    return error_from(code, {error.message, ::strnlen(error.message, sizeof error.message)});
  } catch (const std::exception& exception) {
    return thrown(exception.what());
  } catch (...) {
    return thrown("something that is no std::exception");
  }
}

/// For functions that have no way to fail.
template <typename Call>
void call_silently(const char* function, Call work) {
  const Result<void> done = call([&](sluice_error&) {
    work();
    return std::int32_t{SLUICE_OK};
  });
  if (!done.ok())
    std::fprintf(stderr, "warning: %s: %s\n", function, one_line(done.error().message).c_str());
}

class PluginParam final : public GlobalParam {
 public:
  PluginParam(const sluice_plugin& table, std::string name, std::string kind, void* param)
      : table_(table), name_(std::move(name)), kind_(std::move(kind)), param_(param) {}
  ~PluginParam() override {
    call_silently("destroy_param", [&] { table_.destroy_param(param_); });
  }
  void end_session(std::string_view session) override {
    call_silently("end_session", [&] { table_.end_session(param_, to_c(session)); });
  }
  const sluice_plugin& table() const { return table_; }
  sluice_param view() const { return {to_c(name_), to_c(kind_), param_}; }

 private:
  const sluice_plugin& table_;
  const std::string name_;
  const std::string kind_;
  void* const param_;
};

/// The plugin's instance, from `create` to `destroy`.
class Instance {
 public:
  Instance(const sluice_plugin& table, std::string role, bool stepped)
      : table_(table), host_(std::move(role), stepped) {}
  ~Instance() {
    // What the runner has taken back is no activation to a plugin that asks while it goes.
    std::vector<StepOutcome> ignored;
    host_.end_all({ErrorCode::cancelled, "the runner has ended"}, ignored);
    if (made_) call_silently("destroy", [&] { table_.destroy(instance_); });
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Result<void> create(const sluice_making& making) {
    Result<void> done = call(
        [&](sluice_error& error) { return table_.create(&host_, &making, &instance_, &error); });
    made_ = done.ok();
    return done;
  }
  const sluice_plugin& table() const { return table_; }
  PluginHost& host() { return host_; }
  void* get() const { return instance_; }

 private:
  const sluice_plugin& table_;
  PluginHost host_;
  void* instance_ = nullptr;
  bool made_ = false;
};

class PlainPlugin final : public Role {
 public:
  explicit PlainPlugin(std::unique_ptr<Instance> instance) : instance_(std::move(instance)) {}

  Result<void> run(Activation& activation) override {
    const std::uint64_t id = instance_->host().begin(activation);
    return instance_->host().end(id, call([&](sluice_error& error) {
                                   return instance_->table().run(instance_->get(), id, &error);
                                 }));
  }

 private:
  const std::unique_ptr<Instance> instance_;
};

class SteppedPlugin final : public SteppedRole {
 public:
  explicit SteppedPlugin(std::unique_ptr<Instance> instance) : instance_(std::move(instance)) {}

  void admit(Activation& activation) override {
    const std::uint64_t id = instance_->host().begin(activation);
    Result<void> done = call([&](sluice_error& error) {
      return instance_->table().admit(instance_->get(), id, &error);
    });
    if (!done.ok()) refused_.push_back({id, &activation, done.error()});
  }
  bool busy() const override { return instance_->host().holds_any(); }
  void step(std::vector<StepOutcome>& ended) override {
    PluginHost& host = instance_->host();
    for (Refused& refused : std::exchange(refused_, {}))
      if (host.holds(refused.id))
        ended.push_back({refused.activation, host.end(refused.id, std::move(refused.error))});
    host.take_retired(ended);
    if (!host.holds_any()) return;
    const Result<void> done = call(
        [&](sluice_error& error) { return instance_->table().step(instance_->get(), &error); });
    host.take_retired(ended);
    if (!done.ok()) host.end_all(done.error(), ended);
  }

 private:
  struct Refused {
    std::uint64_t id;
    Activation* activation;
    Error error;
  };
  const std::unique_ptr<Instance> instance_;
  std::vector<Refused> refused_;  // by `admit`; they end with the next step
};

/// The options as the workflow gives them, then the defaults of the others.
std::vector<sluice_option> options_of(const RoleSpec& role, const PluginDeclaration& declared) {
  std::vector<sluice_option> options;
  for (const OptionDeclaration& known : declared.options) {
    const std::string* text = known.fallback ? &*known.fallback : nullptr;
    for (const OptionSpec& given : role.options)
      if (given.key.text == known.name) text = &given.value.text;
    if (text == nullptr) continue;
    sluice_option option{};
    option.name = to_c(known.name);
    option.text = to_c(*text);
    option.type = SLUICE_OPTION_TEXT;
    const char* end = text->data() + text->size();
    if (known.choices.empty() && known.type == OptionType::whole) {
      option.type = SLUICE_OPTION_WHOLE;
      std::from_chars(text->data(), end, option.whole);
      option.real = static_cast<double>(option.whole);
    }
    if (known.choices.empty() && known.type == OptionType::real) {
      option.type = SLUICE_OPTION_REAL;
      std::from_chars(text->data(), end, option.real);
    }
    options.push_back(option);
  }
  return options;
}

Result<std::vector<sluice_param>> params_of(const sluice_plugin& table, const RoleMaking& making) {
  std::vector<sluice_param> params;
  for (std::size_t i = 0; i < making.global_params.size(); ++i) {
    const auto* param = dynamic_cast<const PluginParam*>(making.global_params[i]);
    if (param == nullptr || &param->table() != &table)
      return invalid_argument("the global parameter '" + making.role->global_params[i].text +
                              "' is not of this plugin; a plugin shares its own kinds only");
    params.push_back(param->view());
  }
  return params;
}

}  // namespace

Result<RoleInstance> make_plugin_role(const sluice_plugin& table, const RoleManifest& manifest,
                                      const RoleMaking& making) {
  const std::vector<sluice_option> options = options_of(*making.role, manifest.declaration);
  const Result<std::vector<sluice_param>> params = params_of(table, making);
  if (!params.ok()) return params.error();
  sluice_making given{};
  given.struct_size = sizeof given;
  given.role = to_c(making.role->name.text);
  given.model_directory = to_c(making.model_directory);
  given.replica = making.replica;
  given.threads = making.threads;
  given.options = options.data();
  given.option_count = options.size();
  given.params = params.value().data();
  given.param_count = params.value().size();
  auto instance = std::make_unique<Instance>(table, making.role->name.text, manifest.stepped);
  if (Result<void> created = instance->create(given); !created.ok()) return created.error();
  if (manifest.stepped)
    return RoleInstance(
        std::unique_ptr<SteppedRole>(std::make_unique<SteppedPlugin>(std::move(instance))));
  return RoleInstance(std::unique_ptr<Role>(std::make_unique<PlainPlugin>(std::move(instance))));
}

Result<std::unique_ptr<GlobalParam>> make_plugin_param(const sluice_plugin& table,
                                                       const GlobalParamMaking& making) {
  const GlobalParamSpec& spec = *making.spec;
  sluice_param_making given{};
  given.struct_size = sizeof given;
  given.name = to_c(spec.name.text);
  given.kind = to_c(spec.kind.text);
  given.model_directory = to_c(making.model_directory);
  given.page_tokens = spec.page_tokens;
  given.pages = spec.pages;
  void* param = nullptr;
  const Result<void> created =
      call([&](sluice_error& error) { return table.create_param(&given, &param, &error); });
  if (!created.ok()) return created.error();
  return std::unique_ptr<GlobalParam>(
      std::make_unique<PluginParam>(table, spec.name.text, spec.kind.text, param));
}

}  // namespace sluice

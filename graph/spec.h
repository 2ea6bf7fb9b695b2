// A workflow as its author wrote it: names, not yet resolved, each with its place in the file.
//
// Made by `workflows/load` from YAML, or by hand in a test; read by `check` and `compile`.
// Source: omni-flow, section 3.1 (role, placeholder, global parameters, OR-AND inputs).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/payload.h"
#include "graph/diagnostic.h"

namespace sluice {

struct Name {
  std::string text;
  Mark mark;
};

/// `node.field`, or `inputs.field` for what a call brings in.
struct FieldRef {
  std::string node;
  std::string field;
  Mark mark;        // the whole reference
};

/// One AND member of a group: the frames of any of its sources arrive in this input field.
struct FieldSpec {
  Name field;
  std::vector<FieldRef> sources;
};

/// One OR group: it runs the node when all its fields are there.
struct GroupSpec {
  std::vector<FieldSpec> fields;
  Mark mark;
};

struct CountAll {};
/// How many frames of a field a count group consumes.
struct CountSpec {
  Name field;
  std::variant<std::int64_t, FieldRef, CountAll> frames;
  Mark mark;        // the number, reference or `all`
};

enum class OnError : std::uint8_t { fail, skip };
enum class OnFull : std::uint8_t { wait, drop_oldest };

struct NodeSpec {
  Name name;
  Name role;                       // of `run: role.interface`
  Name interface;
  std::vector<GroupSpec> groups;   // in OR order
  std::vector<CountSpec> counts;   // non-empty: a count group (then there is one group)
  std::vector<Name> outputs;       // given for `scripted` roles only
  std::vector<std::string> refused_outputs;  // names that are none, as written; "": not even a word
  OnError on_error = OnError::fail;
  std::chrono::milliseconds deadline{0};  // of one activation; 0: none
  std::chrono::milliseconds max_age{0};   // older calls' frames are dropped; 0: never
  OnFull on_full = OnFull::wait;
  std::int64_t queue = 0;          // that may wait before one is dropped; 0: not said
  Mark deadline_mark;              // these where the file says it
  Mark max_age_mark;
  Mark on_full_mark;
  Mark queue_mark;
};

enum class Balance : std::uint8_t { round_robin, session, broadcast };

struct OptionSpec {
  Name key;
  Name value;                      // scalar text, read by the plugin
};

struct RoleSpec {
  Name name;
  std::string included_from;       // the file it was imported from; empty: this one
  Name plugin;
  std::optional<Name> model;
  std::vector<Name> global_params;
  std::optional<Name> colocate;    // shares the executor of this role
  std::uint32_t replicas = 1;
  Balance balance = Balance::round_robin;
  bool by_cache = false;           // `balance: cache`: a new session goes where it is known
  bool idempotent = false;         // an activation that yielded nothing may be tried again
  Mark idempotent_mark;
  std::vector<OptionSpec> options; // `options: { key: value }`
};

/// Where the engine of a global parameter computes.
enum class EngineDevice : std::uint8_t { cpu, cuda };

struct GlobalParamSpec {
  Name name;
  std::string included_from;
  Name kind;                       // "paged_kv"
  std::optional<Name> model;
  std::int64_t page_tokens = 16;
  std::int64_t pages = 0;          // 0: the roles propose
  std::int64_t tenant_pages = 0;   // that one tenant may have; 0: all
  Mark tenant_pages_mark;
  Dtype kv_dtype = Dtype::f32;     // of keys and values; or bf16
  std::optional<Name> ssd;         // folder in which full pages are kept too
  std::int64_t ssd_bytes = std::int64_t{4} << 30;
  std::optional<Mark> ssd_bytes_mark;  // where the file says it
  EngineDevice device = EngineDevice::cpu;
  Mark device_mark;                // where the file says it
  /// Of the host's memory, for pages of a GPU; none: the roles propose, 0: none of it.
  std::optional<std::int64_t> host_bytes;
  Mark host_bytes_mark;
};

struct InputSpec {
  Name name;
  ValueType type = ValueType::any;
};

struct OutputSpec {
  Name name;
  std::vector<FieldRef> sources;
};

struct WorkflowLimits {
  std::chrono::milliseconds deadline{30'000};
  std::int64_t loop_iterations = 64;
  std::int64_t frames = 100'000;   // per call
  std::int64_t calls = 10'000;     // under way at once; one more is refused
  std::chrono::milliseconds session_idle{0};  // a session ends without a call for so long; 0: never
};

enum class CallMode : std::uint8_t { serial, overlap };

/// Parts that could not be read: what they lack may have been in them.
struct UnreadParts {
  bool inputs = false;
  bool global_params = false;
  bool roles = false;
  bool nodes = false;
  bool outputs = false;
};

struct WorkflowSpec {
  std::string file;                // as shown in diagnostics
  Name name;
  std::vector<Name> includes;      // files whose roles and global params are known here too
  std::vector<InputSpec> inputs;
  std::vector<GlobalParamSpec> global_params;
  std::vector<RoleSpec> roles;
  std::vector<NodeSpec> nodes;
  std::vector<OutputSpec> outputs;
  WorkflowLimits limits;
  CallMode calls = CallMode::serial;
  bool cancel_on_error = false;    // `on_error: cancel` at the top
  bool is_library = false;         // roles and global params for others to include, no workflow
  UnreadParts unread;
};

}  // namespace sluice

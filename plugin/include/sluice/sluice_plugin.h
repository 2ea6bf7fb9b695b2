// The C interface of a role plugin: what a shared object gives Sluice, and what it is given.
//
// A plugin is one shared object that exports one function, `sluice_plugin_entry`. It needs no
// symbol of Sluice: what it may call stands in the `sluice_host` that it gets when an instance is
// made. `sluice/role.hpp` is a C++20 layer over this file; docs/PLUGINS.md is the guide.
//
// Versions: a host takes a plugin of its own major version and of a minor version no newer than its
// own. Structures with a `struct_size` may get members at their end in a minor version; whoever
// allocates one sets it to sizeof, and the other side touches no byte beyond it. All other
// structures, and the meaning of what is here, change with the major version only.
// Text: UTF-8 with its size in bytes; nobody promises a zero at its end.
// Owns: whoever allocated a buffer owns it, and says below for how long the other side may read it.
// Activations: numbers. A role may use one until it has ended: until `run` returns, or until it is
// retired. What it reads of its inputs is the activation's own and stays as long. A number is never
// used twice, so one that has ended is refused (SLUICE_STALE) and harms nobody.
// Thread: the host calls the functions of an instance on one thread at a time, and different
// instances at the same time. Host functions may be called on that thread, inside that call.
// Parameters are shared by instances on different threads: the plugin locks what they share.
// Errors: a function that returns int32_t gives 0 or a code below. No exception may leave a plugin.
#pragma once

#include <stdint.h>

#define SLUICE_ABI_MAJOR 1
#define SLUICE_ABI_MINOR 1

#if defined(__GNUC__)
#define SLUICE_EXPORT __attribute__((visibility("default")))
#else
#define SLUICE_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

// What the caller can do about an error.
enum {
  SLUICE_OK = 0,
  SLUICE_INVALID_ARGUMENT = 1,  // the input is wrong: change it
  SLUICE_NOT_FOUND = 2,         // the named thing does not exist
  SLUICE_EXHAUSTED = 3,         // a limit was reached: try later or raise it
  SLUICE_DEADLINE = 4,          // time ran out
  SLUICE_UNAVAILABLE = 5,       // something is away: try again
  SLUICE_STALE = 6,             // the activation has ended
  SLUICE_CORRUPT = 7,           // bytes do not hold what they should
  SLUICE_CANCELLED = 8          // somebody asked for the end
};

// Types of values.
enum {
  SLUICE_JSON = 1,    // text
  SLUICE_TEXT = 2,    // text
  SLUICE_IMAGE = 3,   // u8 [height, width, 3], RGB
  SLUICE_AUDIO = 4,   // a tensor
  SLUICE_TENSOR = 5,  // dense, row-major, outermost dimension first, at most 8 dimensions
  SLUICE_NUMBER = 6,  // number
  SLUICE_BYTES = 7    // text, of any bytes
};

// Types of a tensor's elements.
enum { SLUICE_U8 = 1, SLUICE_I32 = 2, SLUICE_I64 = 3, SLUICE_F32 = 4, SLUICE_BF16 = 5 };

typedef struct sluice_text {
  const char* data;
  uint64_t size;  // bytes
} sluice_text;

typedef struct sluice_error {
  char message[1024];  // ends with a zero; what failed, which thing, its value and the limit
} sluice_error;

// A small fact that goes with a value from role to role.
typedef struct sluice_attribute {
  sluice_text name;
  int64_t value;
} sluice_attribute;

// One value. Of an input, all pointers are readable until the activation ends; of a yield, the host
// has copied what it keeps when `yield` returns.
typedef struct sluice_value {
  uint64_t struct_size;
  uint32_t type;
  uint32_t dtype;        // of image, audio, tensor
  sluice_text text;      // of text, json, bytes
  const int64_t* shape;  // of image, audio, tensor: `rank` sizes
  uint64_t rank;
  const void* data;    // aligned for its elements
  uint64_t data_size;  // bytes: the product of the sizes and of an element's size
  int64_t number;      // of number
  const sluice_attribute* attributes;
  uint64_t attribute_count;
  // Names a value that the host holds, of an input, `make_tensor` or `make_output`: yielding it
  // copies nothing, and all members but struct_size are ignored. 0: it is not the host's.
  uint64_t handle;
} sluice_value;

typedef struct sluice_field {
  sluice_text name;
  const sluice_value* value;
} sluice_field;

// What an activation is. Texts are readable until it ends.
typedef struct sluice_about {
  uint64_t struct_size;
  sluice_text node;
  sluice_text interface_name;
  sluice_text session;
  uint64_t call;
  uint64_t group;  // the OR group that fired, from 0
} sluice_about;

// What a plugin may call. It outlives the instance that it was given to.
typedef struct sluice_host sluice_host;
struct sluice_host {
  uint32_t struct_size;
  uint16_t abi_major;
  uint16_t abi_minor;

  int32_t (*about)(const sluice_host* host, uint64_t activation, sluice_about* about);
  // Frames of an input field, in logical order; 0: the group that fired has no such field.
  uint64_t (*input_count)(const sluice_host* host, uint64_t activation, sluice_text field);
  // One of them. Errors: SLUICE_NOT_FOUND, and the value is left as it is.
  int32_t (*input)(const sluice_host* host, uint64_t activation, sluice_text field, uint64_t index,
                   sluice_value* value);
  // A tensor (image, audio) of the host's, zero-filled, for `yield` without a copy. `data` may be
  // written until the value is yielded or the activation ends. Errors: SLUICE_INVALID_ARGUMENT
  // (type, dtype, shape), SLUICE_EXHAUSTED.
  int32_t (*make_tensor)(const sluice_host* host, uint64_t activation, uint32_t type,
                         uint32_t dtype, const int64_t* shape, uint64_t rank, sluice_value* value,
                         void** data);
  // Sends one frame downstream at once; a declared field that is left out is a branch not taken.
  // A frame against the declaration goes nowhere, and is an error of the activation when it ends.
  // It may wait until readers on other machines have taken what came before: hold no lock that
  // another role or the end of a session takes.
  int32_t (*yield)(const sluice_host* host, uint64_t activation, const sluice_field* fields,
                   uint64_t field_count);
  // 1 once nobody wants the result any more: a long role looks and returns early. Else 0.
  int32_t (*cancelled)(const sluice_host* host, uint64_t activation);
  // Stepped roles only, inside `admit` or `step`: the activation has ended, well (code 0) or not.
  int32_t (*retire)(const sluice_host* host, uint64_t activation, int32_t code,
                    sluice_text message);

  // Since 1.1. As `make_tensor`, for this output field of the role, and holding anything at first:
  // all of it is to be written before it is yielded. Where another machine of this computer reads
  // the field it stands in memory that both have, so that nobody copies it.
  int32_t (*make_output)(const sluice_host* host, uint64_t activation, sluice_text field,
                         uint32_t type, uint32_t dtype, const int64_t* shape, uint64_t rank,
                         sluice_value* value, void** data);
};

enum { SLUICE_OPTION_WHOLE = 1, SLUICE_OPTION_REAL = 2, SLUICE_OPTION_TEXT = 3 };

// An option of the role as the workflow gives it, or its default; checked against the declaration.
typedef struct sluice_option {
  sluice_text name;
  sluice_text text;  // as it was written; a choice is a text
  int64_t whole;
  double real;
  uint32_t type;
  uint32_t reserved;
} sluice_option;

// A global parameter that the role shares, made by this plugin's `create_param`.
typedef struct sluice_param {
  sluice_text name;
  sluice_text kind;
  void* param;
} sluice_param;

// What an instance is made from. Texts and arrays are readable until `create` returns.
typedef struct sluice_making {
  uint64_t struct_size;
  sluice_text role;             // its name in the workflow
  sluice_text model_directory;  // empty when the role names no model
  uint32_t replica;
  uint32_t threads;  // that it may compute on
  const sluice_option* options;
  uint64_t option_count;
  const sluice_param* params;  // in the order of the role's `global_params`
  uint64_t param_count;
} sluice_making;

typedef struct sluice_param_making {
  uint64_t struct_size;
  sluice_text name;
  sluice_text kind;
  sluice_text model_directory;
  int64_t page_tokens;
  int64_t pages;  // 0: not given
} sluice_param_making;

// What `sluice_plugin_entry` returns: constant, and readable as long as the process lives.
typedef struct sluice_plugin {
  uint32_t struct_size;
  uint16_t abi_major;  // these three stand here in every version
  uint16_t abi_minor;
  sluice_text name;
  sluice_text declaration;  // the manifest it was built with: NAME.role.yaml, word for word

  int32_t (*create)(const sluice_host* host, const sluice_making* making, void** instance,
                    sluice_error* error);
  void (*destroy)(void* instance);

  // A plain role: runs one activation to its end. Null for a stepped role.
  int32_t (*run)(void* instance, uint64_t activation, sluice_error* error);

  // A stepped role: takes an activation in, and later advances all it holds by one step. An error
  // of `admit` ends that activation; an error of `step` ends all that the role holds. Null for a
  // plain role.
  int32_t (*admit)(void* instance, uint64_t activation, sluice_error* error);
  int32_t (*step)(void* instance, sluice_error* error);

  // Global parameters: state of sessions that its roles share. Null when it declares none. They
  // outlive the instances that share them. `end_session` drops what the session holds.
  int32_t (*create_param)(const sluice_param_making* making, void** param, sluice_error* error);
  void (*destroy_param)(void* param);
  void (*end_session)(void* param, sluice_text session);
} sluice_plugin;

// The one exported symbol.
SLUICE_EXPORT const sluice_plugin* sluice_plugin_entry(void);

#ifdef __cplusplus
}
#endif

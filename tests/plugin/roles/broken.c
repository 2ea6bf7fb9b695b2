// A plugin in C whose table is wrong in one way, which a definition names.
#include <sluice/sluice_plugin.h>
#include <stddef.h>
#include <string.h>

#ifndef BROKEN_KIND
#define BROKEN_KIND "plain"
#endif
static const char declaration[] =
    "sluice_role: 1\nname: broken\nabi: 1.0\nkind: " BROKEN_KIND
    "\ninterfaces: { say: { inputs: { x: { type: text } }, outputs: { y: { type: text } } } }\n";

static int32_t create(const sluice_host* host, const sluice_making* making, void** instance,
                      sluice_error* error) {
  (void)making, (void)error;
  *instance = (void*)host;
  return SLUICE_OK;
}

static void destroy(void* instance) { (void)instance; }

static int32_t run(void* instance, uint64_t activation, sluice_error* error) {
  const sluice_host* host = instance;
  sluice_value value = {0};
  const sluice_text from = {"x", 1};
  const sluice_field to = {{"y", 1}, &value};
  (void)error;
  value.struct_size = sizeof value;
  host->input(host, activation, from, 0, &value);
  return host->yield(host, activation, &to, 1);
}

static sluice_plugin table;

#ifdef BROKEN_SYMBOL
#define sluice_plugin_entry another_name
SLUICE_EXPORT const sluice_plugin* another_name(void);
#endif

const sluice_plugin* sluice_plugin_entry(void) {
  table.struct_size = sizeof table;
  table.abi_major = SLUICE_ABI_MAJOR;
  table.abi_minor = SLUICE_ABI_MINOR;
  table.name.data = "broken";
  table.name.size = 6;
  table.declaration.data = declaration;
  table.declaration.size = strlen(declaration);
  table.create = create;
  table.destroy = destroy;
  table.run = run;
#ifdef BROKEN_TABLE
  BROKEN_TABLE;
#endif
  return &table;
}

// A role host over the plugins of folders, as `sluice role-host` is one. Usage: host_main FOLDER...
#include <cstdio>

#include "plugin/folder.h"
#include "runtime/hosts/host_child.h"

#if defined(__SANITIZE_ADDRESS__)
// A crash is to look like one.
extern "C" const char* __asan_default_options() { return "handle_segv=0"; }
#endif

int main(int argc, char** argv) {
  sluice::Catalog catalog;
  for (int i = 1; i < argc; ++i)
    if (const std::string wrong = sluice::add_plugins(catalog, argv[i]); !wrong.empty())
      return std::fputs(wrong.c_str(), stderr), 2;
  return sluice::hosts::serve_host(catalog, sluice::hosts::control_socket);
}

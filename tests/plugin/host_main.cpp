// A role host over the plugins of folders, as `sluice role-host` is one. Usage: host_main FOLDER...
#include <cstdio>

#include "plugin/folder.h"
#include "runtime/hosts/host_child.h"

int main(int argc, char** argv) {
  sluice::Catalog catalog;
  for (int i = 1; i < argc; ++i)
    if (const std::string wrong = sluice::add_plugins(catalog, argv[i]); !wrong.empty())
      return std::fputs(wrong.c_str(), stderr), 2;
  return sluice::hosts::serve_host(catalog, sluice::hosts::control_socket);
}

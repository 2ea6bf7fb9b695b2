// Where the sources and this build lie.
//
// As definitions on the command line they would make the objects of each checkout its own, and a
// compiler cache useless between checkouts.
#pragma once

namespace sluice::test {

const char* source_dir();
const char* binary_dir();

}  // namespace sluice::test

#define SLUICE_SOURCE_DIR ::sluice::test::source_dir()
#define SLUICE_BINARY_DIR ::sluice::test::binary_dir()

#include "tests/directories.h"

namespace sluice::test {

const char* source_dir() { return SLUICE_SOURCE_DIRECTORY; }
const char* binary_dir() { return SLUICE_BINARY_DIRECTORY; }

}  // namespace sluice::test

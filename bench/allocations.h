// How often a program that links this has asked for memory: calls of operator new.
//
// Thread: any.
#pragma once

#include <cstdint>

/// Since the program began, of all threads.
std::uint64_t allocations();

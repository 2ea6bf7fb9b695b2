# find_package(sluice): the target sluice::plugin (headers, C++20 and nothing else), the program
# sluice::sluice, and the functions of sluice_add_role.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/sluiceTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/sluice_add_role.cmake)

# What `cmake --install` gives others: the program, the headers of plugins, and a CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(${CMAKE_CURRENT_LIST_DIR}/sluice_add_role.cmake)

# The public interface brings no option of this build with it.
add_library(sluice_role_interface INTERFACE)
add_library(sluice::plugin ALIAS sluice_role_interface)
set_target_properties(sluice_role_interface PROPERTIES EXPORT_NAME plugin)
target_compile_features(sluice_role_interface INTERFACE cxx_std_20)
target_include_directories(sluice_role_interface INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/plugin/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
install(TARGETS sluice sluice_role_interface EXPORT sluiceTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugin/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/sluiceConfig.cmake
  ${CMAKE_CURRENT_LIST_DIR}/sluice_add_role.cmake
  ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake DESTINATION ${package})

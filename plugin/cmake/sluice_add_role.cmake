# sluice_add_role(NAME SOURCES...): a role plugin NAME.so from NAME.role.yaml and the sources.
#
# The manifest goes into the shared object and, when it is built, beside it: a folder that holds
# both is what `--plugins` takes. sluice_add_role_test(NAME TEST SOURCES...) makes a program of the
# same sources, with the role's libraries, include paths and definitions, and of a test's; it needs no
# `sluice`.

function(sluice_add_role name)
  set(manifest ${CMAKE_CURRENT_SOURCE_DIR}/${name}.role.yaml)
  if(NOT EXISTS ${manifest})
    message(FATAL_ERROR "sluice_add_role(${name}): there is no ${manifest}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifest})
  file(READ ${manifest} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  string(REGEX REPLACE "(................................................................)"
    "\\1\"\n  \"" bytes "${bytes}")
  set(declaration ${CMAKE_CURRENT_BINARY_DIR}/${name}.declaration.cpp)
  file(CONFIGURE OUTPUT ${declaration} @ONLY CONTENT "// Made from @name@.role.yaml.
#include <cstdint>
extern \"C\" {
extern const char sluice_role_name[] = \"@name@\";
extern const std::uint64_t sluice_role_declaration_size = @size@;
extern const char sluice_role_declaration[] =
  \"@bytes@\";
}
")
  set(sources ${ARGN})
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  list(APPEND sources ${declaration})
  add_library(${name} MODULE ${sources})
  target_link_libraries(${name} PRIVATE sluice::plugin)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so" SLUICE_SOURCES "${sources}")
  add_custom_command(TARGET ${name} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${manifest} $<TARGET_FILE_DIR:${name}>)
endfunction()

function(sluice_add_role_test name test)
  get_target_property(sources ${name} SLUICE_SOURCES)
  add_executable(${test} ${ARGN} ${sources})
  # What the role is given, before or after this line, is the test's too.
  target_link_libraries(${test} PRIVATE sluice::plugin $<TARGET_PROPERTY:${name},LINK_LIBRARIES>)
  target_include_directories(${test} PRIVATE $<TARGET_PROPERTY:${name},INCLUDE_DIRECTORIES>)
  target_compile_definitions(${test} PRIVATE $<TARGET_PROPERTY:${name},COMPILE_DEFINITIONS>)
endfunction()

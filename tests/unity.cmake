# sluice_unity(TARGET): with SLUICE_UNITY a unity build of the target, its sources grouped by unity.py. Takes two thirds
# of the time to compile all, and longer after a change.
function(sluice_unity target)
  if(NOT SLUICE_UNITY)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(made_by ${PROJECT_SOURCE_DIR}/tests/unity.py)
  get_target_property(sources ${target} SOURCES)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${made_by} ${PROJECT_SOURCE_DIR} ${sources}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE groups COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" groups "${groups}")
  foreach(line ${groups})
    string(REGEX MATCH "([0-9]+) (.+)" line "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${target}_${CMAKE_MATCH_1})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${made_by} ${CMAKE_MATCH_2})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

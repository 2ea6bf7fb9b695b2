# Makes page_index.cpp of the Lua library beside this file.
set(page_index_lua ${PROJECT_SOURCE_DIR}/runtime/redis/page_index.lua)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_index_lua})
file(READ ${page_index_lua} text)
set(page_index ${PROJECT_BINARY_DIR}/page_index.cpp)
file(WRITE ${page_index}.new "#include \"runtime/redis/page_index.h\"

namespace sluice {

std::string_view page_index_functions() { return R\"~~~(${text})~~~\"; }

}  // namespace sluice
")
file(COPY_FILE ${page_index}.new ${page_index} ONLY_IF_DIFFERENT)
target_sources(sluice_redis PRIVATE ${page_index})

# Makes role_template.cpp of the files in cli/role_template.
file(GLOB templates CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/role_template/*.in)
set(entries "")
foreach(template ${templates})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${template})
  get_filename_component(name ${template} NAME)
  file(READ ${template} text)
  string(APPEND entries "    {\"${name}\", R\"~~~(${text})~~~\"},\n")
endforeach()
set(role_template ${PROJECT_BINARY_DIR}/role_template.cpp)
file(WRITE ${role_template}.new "#include \"cli/role_template.h\"

namespace sluice::cli {

std::span<const TemplateFile> role_template() {
  static constexpr TemplateFile files[]{
${entries}  };
  return files;
}

}  // namespace sluice::cli
")
file(COPY_FILE ${role_template}.new ${role_template} ONLY_IF_DIFFERENT)
target_sources(sluice PRIVATE ${role_template})

# Manual pages, completions and notices (target shell_files), and the Debian package: `cpack` in the build folder,
# by tools/make_deb.sh. The package holds the components "program" and "service"; those who install from
# source get "program" and "development" (install.cmake).

# The program describes itself; a foreign one runs in CMAKE_CROSSCOMPILING_EMULATOR.
set(shell_dir ${PROJECT_BINARY_DIR}/shell)
add_custom_command(OUTPUT ${shell_dir}/stamp
  COMMAND ${CMAKE_COMMAND} -E make_directory ${shell_dir}
  COMMAND munia describe --lang en > ${shell_dir}/en.json
  COMMAND munia describe --lang zh > ${shell_dir}/zh.json
  COMMAND ${PROJECT_SOURCE_DIR}/tools/make_man.py ${shell_dir}/en.json ${shell_dir}/zh.json ${shell_dir}/man
  COMMAND ${PROJECT_SOURCE_DIR}/tools/make_completions.py ${shell_dir}/en.json ${shell_dir}
  COMMAND ${PROJECT_SOURCE_DIR}/tools/notices.py > ${shell_dir}/NOTICES
  COMMAND ${CMAKE_COMMAND} -E touch ${shell_dir}/stamp
  DEPENDS munia ${PROJECT_SOURCE_DIR}/tools/make_man.py ${PROJECT_SOURCE_DIR}/tools/make_completions.py
    ${PROJECT_SOURCE_DIR}/tools/notices.py
  COMMENT "Writing manual pages, completions and notices")
add_custom_target(shell_files DEPENDS ${shell_dir}/stamp)

# OPTIONAL: they are there only once shell_files was built.
install(DIRECTORY ${shell_dir}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program OPTIONAL)
install(FILES ${shell_dir}/munia.bash DESTINATION share/bash-completion/completions RENAME munia
  COMPONENT program OPTIONAL)
install(FILES ${shell_dir}/_munia DESTINATION share/zsh/vendor-completions COMPONENT program OPTIONAL)
install(FILES ${shell_dir}/munia.fish DESTINATION share/fish/vendor_completions.d
  COMPONENT program OPTIONAL)

set(deploy ${PROJECT_SOURCE_DIR}/deploy)
install(FILES ${deploy}/munia.service DESTINATION lib/systemd/system
  COMPONENT service EXCLUDE_FROM_ALL)
install(FILES ${deploy}/munia.toml DESTINATION /etc/munia COMPONENT service EXCLUDE_FROM_ALL)
install(PROGRAMS ${deploy}/health.sh DESTINATION lib/munia RENAME health
  COMPONENT service EXCLUDE_FROM_ALL)
install(FILES ${deploy}/debian/copyright ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  ${PROJECT_SOURCE_DIR}/docs/operations.md ${shell_dir}/NOTICES DESTINATION share/doc/munia
  COMPONENT service EXCLUDE_FROM_ALL)

set(debian_architectures "x86_64=amd64;aarch64=arm64")
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR})
foreach(pair ${debian_architectures})
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 processor)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL processor)
    list(GET pair 1 CPACK_DEBIAN_PACKAGE_ARCHITECTURE)
  endif()
endforeach()
file(STRINGS ${deploy}/debian/depends.txt depends REGEX "^[^#]")
list(JOIN depends ", " CPACK_DEBIAN_PACKAGE_DEPENDS)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME munia)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "the authors of munia <munia@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "feelings of texts and replies to them on a plain CPU")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Inference for one small chat model (Qwen2, Qwen3, Llama and Mistral architectures) on a CPU: labels
with probabilities and replies from one copy of the weights, as commands, as an HTTP service with a
web page, and in OpenAI's API. Models are not part of the package.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-pip")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${deploy}/debian/conffiles ${deploy}/debian/postinst
  ${deploy}/debian/prerm ${deploy}/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program service)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON)  # for /etc
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_SOURCE_GENERATOR "")
include(CPack)

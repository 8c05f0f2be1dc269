# `cmake --install`: the program, the public headers, libmunia.a and the CMake package, so that
# find_package(munia) gives another project the target munia::munia.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(munia_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/munia)
install(TARGETS munia RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/munia DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.h")
install(TARGETS munia_library EXPORT munia_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT munia_targets NAMESPACE munia:: FILE munia-targets.cmake
  DESTINATION ${munia_package_dir} COMPONENT development)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/munia-config.cmake.in
  ${PROJECT_BINARY_DIR}/munia-config.cmake INSTALL_DESTINATION ${munia_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/munia-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/munia-config.cmake
  ${PROJECT_BINARY_DIR}/munia-config-version.cmake DESTINATION ${munia_package_dir}
  COMPONENT development)

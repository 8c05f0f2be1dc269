# Cross-compiling for 64-bit ARM Linux (preset arm64) with Debian's compiler; libraries and headers
# are those of build/arm64-root (tools/arm64_root.sh). Programs run under qemu (tools/arm64_run.sh).
set(munia_arm64_root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root)
cmake_path(NORMAL_PATH munia_arm64_root)
if(NOT EXISTS ${munia_arm64_root}/stamp)
  message(FATAL_ERROR "${munia_arm64_root} is not there: run tools/arm64_root.sh, or make arm64")
endif()

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_SYSROOT ${munia_arm64_root})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${munia_arm64_root})
set(ENV{PKG_CONFIG_LIBDIR}
  ${munia_arm64_root}/usr/lib/aarch64-linux-gnu/pkgconfig:${munia_arm64_root}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../tools/arm64_run.sh)

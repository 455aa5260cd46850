# SPDX-License-Identifier: Apache-2.0
# arm64 from an amd64 machine: Debian's cross compiler and multiarch libraries, tests under qemu-user.
# tests/support/arm64.sh makes a root that has them: cmake --preset arm64 there.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
# Not the build machine's: /usr/lib/x86_64-linux-gnu/pkgconfig.
set(PKG_CONFIG_EXECUTABLE aarch64-linux-gnu-pkg-config)

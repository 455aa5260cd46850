# SPDX-License-Identifier: Apache-2.0
# The libraries of design: docs/architecture.md says which folder may use which.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(protobuf_c REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(libseccomp REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(libdeflate REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(libcrypto REQUIRED IMPORTED_TARGET libcrypto>=3)
pkg_check_modules(nghttp2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(libwebsockets REQUIRED IMPORTED_TARGET libwebsockets)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(libcurl REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(libpq REQUIRED IMPORTED_TARGET libpq)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)
if(PFL_TESTS OR PFL_BENCH)
    pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib) # undoes what libdeflate did
endif()
find_program(PFL_PROTOC_C protoc-c REQUIRED)
if(PFL_TESTS)
    pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
endif()

# Debian's mbedtls 2.28 ships no pkg-config file.
find_path(MBEDTLS_INCLUDE_DIR mbedtls/ssl.h REQUIRED)
foreach(part mbedtls mbedx509 mbedcrypto)
    find_library(PFL_${part}_LIBRARY ${part} REQUIRED)
endforeach()
add_library(pfl_mbedtls INTERFACE)
target_include_directories(pfl_mbedtls SYSTEM INTERFACE ${MBEDTLS_INCLUDE_DIR})
target_link_libraries(pfl_mbedtls INTERFACE
    ${PFL_mbedtls_LIBRARY} ${PFL_mbedx509_LIBRARY} ${PFL_mbedcrypto_LIBRARY})

# SPDX-License-Identifier: Apache-2.0
# What every target of the project is compiled with.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(PFL_TESTS "Build the tests" ON)
option(PFL_UNIT_TESTS "Unit tests and corpora are among all targets" ON)
option(PFL_BENCH "Build the benchmarks" ON)
option(PFL_WERROR "Warnings are errors" ON)
option(PFL_LTO "Optimise programs across their libraries (gcc)" OFF)
set(PFL_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
option(PFL_FUZZ "Build the fuzz targets with libFuzzer (clang only)" OFF)

# Where settings go: beneath the prefix of the installation, but /etc where that is no part of it.
set(PFL_SETTINGS_DIR ${CMAKE_INSTALL_FULL_SYSCONFDIR})
string(FIND "${PFL_SETTINGS_DIR}/" "${CMAKE_INSTALL_PREFIX}/" at)
if(at EQUAL 0)
    set(PFL_SETTINGS_DIR ${CMAKE_INSTALL_SYSCONFDIR})
endif()

add_library(pfl_options INTERFACE)
target_include_directories(pfl_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(pfl_options INTERFACE _GNU_SOURCE PFL_VERSION="${PROJECT_VERSION}")
target_compile_options(pfl_options INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -Wundef -fno-strict-aliasing -fstack-protector-strong)
if(PFL_WERROR)
    target_compile_options(pfl_options INTERFACE -Werror)
endif()
if(PFL_SANITIZE)
    add_compile_options(-fsanitize=${PFL_SANITIZE} -fno-omit-frame-pointer)
    add_compile_definitions(PFL_SANITIZED) # base/sandbox lets their runtimes work
    add_link_options(-fsanitize=${PFL_SANITIZE})
    if(PFL_SANITIZE MATCHES thread)
        add_compile_definitions(PFL_SANITIZED_THREADS) # its runtime knows one table of descriptors
    endif()
    if(PFL_SANITIZE MATCHES undefined)
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
endif()
if(PFL_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Across libraries the path of a chunk from the socket into the buffer is one piece of code: 10 to
# 15 % of the service's CPU time. Objects stay ordinary ones besides, so that tests link as ever.
function(pfl_optimise_across_libraries name)
    if(NOT PFL_LTO)
        return()
    endif()
    get_target_property(type ${name} TYPE)
    target_compile_options(${name} PRIVATE -flto=auto -ffat-lto-objects)
    if(type STREQUAL EXECUTABLE)
        target_link_options(${name} PRIVATE -flto=auto)
    endif()
endfunction()

# A test takes the ordinary objects.
function(pfl_link_quickly name)
    if(PFL_LTO)
        target_link_options(${name} PRIVATE -fno-lto)
    endif()
endfunction()

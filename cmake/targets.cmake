# SPDX-License-Identifier: Apache-2.0
# The three kinds of target a folder registers, each with the project's options.
#   pfl_library(<name> SOURCES ... [LINKS ...] [PUBLIC_LINKS ...])
#   pfl_program(<name> SOURCES ... [LINKS ...])
#   pfl_unit_test(<name> SOURCES ... [LINKS ...])      a cmocka program, run by ctest (label unit)
#   pfl_fuzz(<name> SOURCES ... [LINKS ...])           LLVMFuzzerTestOneInput; its corpus is
#                                                      tests/fuzz/corpus/<name>/, replayed by ctest

function(pfl_library name)
    cmake_parse_arguments(A "" "" "SOURCES;LINKS;PUBLIC_LINKS" ${ARGN})
    add_library(${name} STATIC ${A_SOURCES})
    target_link_libraries(${name} PRIVATE pfl_options ${A_LINKS} PUBLIC ${A_PUBLIC_LINKS})
endfunction()

function(pfl_program name)
    cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
    add_executable(${name} ${A_SOURCES})
    target_link_libraries(${name} PRIVATE pfl_options ${A_LINKS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

function(pfl_unit_test name)
    if(NOT PFL_TESTS)
        return()
    endif()
    cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
    add_executable(${name} ${A_SOURCES})
    target_link_libraries(${name} PRIVATE pfl_options pfl_test_support ${A_LINKS} PkgConfig::cmocka)
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    add_test(NAME unit.${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 120)
endfunction()

function(pfl_fuzz name)
    if(NOT PFL_TESTS)
        return()
    endif()
    cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
    if(PFL_FUZZ)
        add_executable(${name} ${A_SOURCES})
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    else()
        add_executable(${name} ${A_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/fuzz_replay.c)
    endif()
    target_link_libraries(${name} PRIVATE pfl_options ${A_LINKS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    if(PFL_FUZZ)
        set(args -runs=0)
    endif()
    add_test(NAME fuzz.${name}
        COMMAND ${name} ${args} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()

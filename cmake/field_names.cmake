# SPDX-License-Identifier: Apache-2.0
# Writes a C header with a name for each field number and each enum value of a .proto file:
#   message TraceConfig { message BufferConfig { enum FillPolicy { DISCARD = 2; } optional uint32 size_kb = 1; } }
# gives TRACE_CONFIG__BUFFER_CONFIG__SIZE_KB = 1 and, in the scope that protobuf gives a value,
# TRACE_CONFIG__BUFFER_CONFIG__DISCARD = 2. A line of the file holds one declaration, as those in proto/ do.
#
# Usage: cmake -DPROTO=FILE.proto -DHEADER=FILE.fields.h -P field_names.cmake
file(READ ${PROTO} text)
string(REGEX REPLACE "//[^\n]*" "" text "${text}")
# What CMake would take for a list's own.
string(REGEX REPLACE "[][]" "|" text "${text}")
string(REPLACE ";" "." text "${text}")
string(REPLACE "\n" ";" lines "${text}")

set(names)
set(scopes) # the kind of each block that is open, and for messages its name
set(prefix)
foreach(line IN LISTS lines)
    if(line MATCHES "^ *(message|enum|oneof) ([A-Za-z0-9_]+) *{(}?)")
        if(CMAKE_MATCH_3)
            continue() # empty
        endif()
        list(APPEND scopes "${CMAKE_MATCH_1}:${prefix}")
        if(CMAKE_MATCH_1 STREQUAL message)
            string(REGEX REPLACE "([A-Z])([A-Z][a-z])" "\\1_\\2" word ${CMAKE_MATCH_2})
            string(REGEX REPLACE "([a-z0-9])([A-Z])" "\\1_\\2" word ${word})
            string(TOUPPER ${word} word)
            string(APPEND prefix ${word}__)
        endif()
    elseif(line MATCHES "^ *}")
        list(POP_BACK scopes scope)
        string(REGEX REPLACE "^[a-z]+:" "" prefix "${scope}")
    elseif(line MATCHES "^([^=]* )?([A-Za-z0-9_]+) = (-?[0-9]+)")
        set(number ${CMAKE_MATCH_3})
        string(TOUPPER ${CMAKE_MATCH_2} word)
        string(APPEND names "    ${prefix}${word} = ${number},\n")
    endif()
endforeach()
if(scopes OR NOT names)
    message(FATAL_ERROR "${PROTO}: a line holds more than one declaration, or there is none")
endif()
get_filename_component(source ${PROTO} NAME)
file(WRITE ${HEADER} "/* Field numbers and enum values of ${source}, by name. Generated. */\n#pragma once\n\nenum {\n${names}};\n")

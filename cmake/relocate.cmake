# SPDX-License-Identifier: Apache-2.0
# Part of the installation: with another prefix than the build was configured with (cmake --install
# BUILD --prefix P), the files that name the configured one name the new one. A package is staged
# below a folder that is no prefix, and keeps the configured one.
if(CMAKE_INSTALL_PREFIX STREQUAL pfl_prefix OR CMAKE_INSTALL_PREFIX MATCHES "/_CPack_Packages/")
    return()
endif()
foreach(pfl_file IN LISTS pfl_files)
    set(pfl_path "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${pfl_file}")
    if(IS_ABSOLUTE "${pfl_file}" OR NOT EXISTS "${pfl_path}")
        continue()
    endif()
    file(READ "${pfl_path}" pfl_text)
    foreach(pfl_folder IN LISTS pfl_folders)
        string(REPLACE "${pfl_prefix}/${pfl_folder}/" "${CMAKE_INSTALL_PREFIX}/${pfl_folder}/"
            pfl_text "${pfl_text}")
    endforeach()
    file(WRITE "${pfl_path}" "${pfl_text}")
endforeach()

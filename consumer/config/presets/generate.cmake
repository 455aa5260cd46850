# SPDX-License-Identifier: Apache-2.0
# Turns .pbtx files into one C table: cmake -DOUT=file.c -DPRESETS=a.pbtx;b.pbtx -P generate.cmake
set(arrays "")
set(rows "")
foreach(path ${PRESETS})
    get_filename_component(name ${path} NAME_WE)
    file(READ ${path} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${name}[] = {\n${bytes}};\n")
    string(APPEND rows "    {\"${name}\", (const char *)text_${name}, sizeof(text_${name})},\n")
endforeach()
file(WRITE ${OUT}
"/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from consumer/presets. */
#include \"consumer/config/preset.h\"

${arrays}
const struct pfl_preset pfl_presets[] = {
${rows}};
const size_t pfl_presets_len = sizeof(pfl_presets) / sizeof(pfl_presets[0]);
")

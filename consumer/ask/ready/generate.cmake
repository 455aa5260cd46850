# SPDX-License-Identifier: Apache-2.0
# Turns .sql files into one C table: cmake -DOUT=file.c -DQUESTIONS=a.sql;b.sql -P generate.cmake
set(arrays "")
set(rows "")
foreach(path ${QUESTIONS})
    get_filename_component(name ${path} NAME_WE)
    string(REPLACE "-" "_" word ${name})
    file(READ ${path} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${word}[] = {\n${bytes}};\n")
    string(APPEND rows "    {\"${name}\", (const char *)text_${word}, sizeof(text_${word})},\n")
endforeach()
file(WRITE ${OUT}
"/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from consumer/ask/ready. */
#include \"consumer/ask/ready_question.h\"

${arrays}
const struct pfl_ready_question pfl_ready_questions[] = {
${rows}};
const size_t pfl_ready_questions_len =
    sizeof(pfl_ready_questions) / sizeof(pfl_ready_questions[0]);
")

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages as whole texts, compared with the ones in tests/fixtures/pages: FILE.txt has each text
 * below a line "== NAME". With PFL_UPDATE_PAGES in the environment a test writes the file; read it
 * before you commit it.
 */
#ifndef PFL_TESTS_PAGE_TEXT_H
#define PFL_TESTS_PAGE_TEXT_H

#include <stddef.h>

#include "consumer/web/html/layout.h"

#define PAGE_TEXT_MAX (1u << 20)

struct CMUnitTest;

/* The text, which lives until the next take; fini of `h`. */
const char *page_text_take(struct pfl_html *h);
/* Of a whole page, what is between <main and </main>. */
const char *page_text_take_main(struct pfl_html *h);
void page_text_check(const char *text, const char *name);
/* A frame without tabs, whose forms have the token "0123". */
struct pfl_layout page_text_layout(const char *title);
/* Runs the tests with the texts of tests/fixtures/pages/FILE.txt. */
int page_text_run(const char *file, const struct CMUnitTest *tests, size_t len);

#endif

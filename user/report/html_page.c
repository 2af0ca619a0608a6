// SPDX-License-Identifier: BSD-2-Clause
#include "report/html_page.h"

const unsigned char xp_html_page[] = {
#include "report/page.inc"
};
const size_t xp_html_page_bytes = sizeof(xp_html_page);

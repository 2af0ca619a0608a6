// SPDX-License-Identifier: BSD-2-Clause
#include "export/html_page.h"

const unsigned char xp_html_page[] = {
#include "export/page.inc"
};
const size_t xp_html_page_bytes = sizeof(xp_html_page);

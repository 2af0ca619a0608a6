/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page of `export --format html`, without a recording: page.html with page.css and the page_*.js in it, as the
 * build joins them. "@DATA@" stands where the recording goes, as JSON.
 */
#ifndef XPROF_EXPORT_HTML_PAGE_H
#define XPROF_EXPORT_HTML_PAGE_H

#include <stddef.h>

extern const unsigned char xp_html_page[];
extern const size_t xp_html_page_bytes;

#endif

// SPDX-License-Identifier: BSD-2-Clause
/* The text of a forecast. */
#include <string.h>

#include "record/forecast.h"
#include "unit.h"

static const char *text_of(const struct xp_forecast *forecast)
{
	static char text[256];

	xp_forecast_text(forecast, text, sizeof(text));
	return text;
}

TEST(nothing_is_known)
{
	assert_string_equal(text_of(&(struct xp_forecast){ .sleds = 3 }), "");
	assert_string_equal(text_of(&(struct xp_forecast){ .call_ns = 84 }), "");
}

TEST(calls_that_were_recorded)
{
	struct xp_forecast forecast = {
		.sleds = 4812,
		.made = true,
		.call_ns = 1,
		.seen = { .calls_per_s = 309700, .call_ns = 84, .share = 0.2 },
	};

	assert_string_equal(text_of(&forecast),
			    "4812 sleds, about 310 000 calls/s: the target uses 25 % more CPU time; "
			    "1 000 calls/s take 0.0084 % of a core, 12 000 000 a whole one");
	forecast.seen.share = 0.02;
	assert_non_null(strstr(text_of(&forecast), ": the target uses 2.0 % more CPU time;"));
	forecast.seen.share = 0.75;
	assert_non_null(strstr(text_of(&forecast), ": the target uses 4.0 times the CPU time;"));
	/* Only the cost of a call is exact. */
	forecast.seen.share = 1;
	assert_non_null(strstr(text_of(&forecast), ": the target uses 20.0 times the CPU time;"));
	/* Too little CPU time for a forecast. */
	forecast.seen.share = 0;
	assert_non_null(strstr(text_of(&forecast), "about 310 000 calls/s; 1 000 calls/s take"));
}

TEST(functions_without_sleds)
{
	struct xp_forecast forecast = { .sites = 177, .call_ns = 84, .private_bytes = 12288 };

	assert_int_equal(strncmp(text_of(&forecast), "177 entries and exits, ", 23), 0);
	assert_non_null(strstr(text_of(&forecast), "a whole one; 12 KiB of code become private memory"));
	forecast.sleds = 1;
	assert_int_equal(strncmp(text_of(&forecast), "1 sled and 177 entries and exits, ", 34), 0);
}

TEST(no_calls)
{
	struct xp_forecast forecast = { .sleds = 1, .call_ns = 84, .child_ns = 2500 };

	assert_string_equal(text_of(&forecast), "1 sled, calls not counted; 1 000 calls/s take 0.0084 % of a core, "
						"12 000 000 a whole one; in children of the target 0.25 %");
	forecast.made = true;
	assert_non_null(strstr(text_of(&forecast), "1 sled, no calls now; "));
}

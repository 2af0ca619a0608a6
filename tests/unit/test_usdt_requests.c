// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>

#include "unit.h"

#include "explain/usdt_requests.h"

TEST(pairs)
{
	static const char *const others[] = {
		"handle_request",    "a::b",	  "p:b",	 "p:b..",      "p:b...e",
		"p::b..e",	     "f<int...>", "p:b..e/arg0", "p:b..e/arg", "p:b..e/arg1x",
		"p:b..e/arg12/arg1", "p:b*..e",	  "o:p:b..e",	 "..",	       ""
	};
	struct xp_usdt_pair pair;

	assert_true(xp_usdt_pair_parse(&pair, "shop:begin..end"));
	assert_string_equal(pair.begin, "shop:begin");
	assert_string_equal(pair.end, "shop:end");
	assert_int_equal(pair.argument, 0);
	assert_true(xp_usdt_pair_parse(&pair, "shop:begin..end/arg12"));
	assert_int_equal(pair.argument, 12);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (xp_usdt_pair_parse(&pair, others[i]))
			fail_msg("%s", others[i]);
}

/* Two processes; the first one has the threads 0 and 1. */
static struct xp_model_thread threads[] = { { .tid = 1, .process = 0 },
					    { .tid = 2, .process = 0 },
					    { .tid = 3, .process = 1 } };

static struct xp_usdt_requests find(const char *text, struct xp_model_hit *hits, size_t count)
{
	static struct xp_usdt_pair pair;
	const struct xp_model model = { .threads = threads, .thread_count = 3, .hits = hits, .hit_count = count };
	struct xp_usdt_requests requests = { .pairs = &pair, .pair_count = 1 };

	assert_true(xp_usdt_pair_parse(&pair, text));
	assert_int_equal(xp_usdt_requests_find(&requests, &model), 0);
	return requests;
}

static void expect(const struct xp_usdt_request *request, uint32_t thread, uint64_t begin_ns, uint64_t end_ns)
{
	assert_int_equal(request->thread, thread);
	assert_int_equal(request->begin_ns, begin_ns);
	assert_int_equal(request->end_ns, end_ns);
}

TEST(by_thread)
{
	/* An end without a begin; a begin that is begun again; another probe; another thread; not in the order of time.
	 */
	struct xp_model_hit hits[] = {
		{ "p:e", 0, 0, "", 1, 1 },  { "p:b", 0, 0, "", 2, 1 }, { "p:b", 0, 5, "", 3, 1 },
		{ "p:x", 0, 0, "", 4, 1 },  { "p:e", 1, 0, "", 5, 1 }, { "p:e", 0, 0, "", 9, 1 },
		{ "p:b", 0, 0, "", 10, 1 }, { "p:b", 1, 0, "", 4, 1 }, { "p:e", 2, 0, "", 11, 1 },
	};
	struct xp_usdt_requests found = find("p:b..e", hits, 9);

	assert_int_equal(found.count, 2);
	expect(&found.list[0], 0, 3, 9);
	assert_int_equal(found.list[0].cpu, 5);
	expect(&found.list[1], 1, 4, 5);
	free(found.list);
}

TEST(by_argument)
{
	/* Two requests of a process at once; the same number in another process; unknown and missing numbers. */
	struct xp_model_hit hits[] = {
		{ "p:b", 0, 0, "arg1=1 arg2=-7", 1, 1 },  { "p:b", 0, 0, "arg1=1 arg2=8", 2, 1 },
		{ "p:e", 1, 0, "arg1=8 arg2=8", 3, 1 },	  { "p:e", 2, 0, "arg1=8 arg2=-7", 4, 1 },
		{ "p:e", 1, 0, "arg1=8 arg2=-7", 5, 1 },  { "p:b", 0, 0, "arg1=1 arg2=?", 6, 1 },
		{ "p:e", 0, 0, "arg1=1 arg2=?", 7, 1 },	  { "p:b", 0, 0, "", 8, 1 },
		{ "p:e", 0, 0, "arg12=8 arg22=3", 9, 1 },
	};
	struct xp_usdt_requests found = find("p:b..e/arg2", hits, 9);

	assert_int_equal(found.count, 2);
	expect(&found.list[found.list[0].begin_ns == 1 ? 0 : 1], 1, 1, 5);
	expect(&found.list[found.list[0].begin_ns == 1 ? 1 : 0], 1, 2, 3);
	free(found.list);
	found = find("p:b..e/arg3", hits, 0);
	assert_int_equal(found.count, 0);
	free(found.list);
}

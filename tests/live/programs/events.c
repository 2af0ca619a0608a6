// SPDX-License-Identifier: BSD-2-Clause
/*
 * Custom and typed events of known payload: byte i of a payload of n bytes is 31 n + 7 i. Arguments: sizes. With the
 * first argument "unmapped", payloads at addresses that cannot be read.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "go.h"

static char *payload_of(size_t size)
{
	static char payload[8192];

	for (size_t i = 0; i < size; i++)
		payload[i] = (char)(31 * size + 7 * i);
	return payload;
}

/*
 * The event's operands are in rdi, rsi (and rdx). Here, they are in these registers in every order, and clang moves
 * them, which may overwrite one with another.
 */
TRACED static void custom_in_place(const char *payload, size_t size)
{
	__xray_customevent(payload, size);
}
TRACED static void custom_swapped(size_t size, const char *payload)
{
	__xray_customevent(payload, size);
}
TRACED static void custom_shifted(long unused, const char *payload, size_t size)
{
	(void)unused;
	__xray_customevent(payload, size);
}
TRACED static void custom_far(long a, long b, long c, long d, size_t size, const char *payload)
{
	__xray_customevent(payload, size);
	if (a + b + c + d == 0)
		abort();
}
TRACED static void custom_called(size_t size)
{
	const char *payload = payload_of(size);

	__xray_customevent(payload, size);
}

#ifdef TYPED_EVENTS
#define TYPED(name, ...)                                                                                               \
	TRACED static void typed_##name(__VA_ARGS__)                                                                   \
	{                                                                                                              \
		__xray_typedevent(type, payload, size);                                                                \
	}
TYPED(in_place, size_t type, const char *payload, size_t size)
TYPED(tsp, size_t type, size_t size, const char *payload)
TYPED(pts, const char *payload, size_t type, size_t size)
TYPED(pst, const char *payload, size_t size, size_t type)
TYPED(stp, size_t size, size_t type, const char *payload)
TYPED(spt, size_t size, const char *payload, size_t type)
#endif

static void unmapped(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(page + 4096, 4096);
	custom_in_place(page + 4096, 32);
	custom_in_place(page + 4080, 32); /* only the second half is readable */
	custom_in_place(NULL, 700);
	custom_in_place((const char *)-1, 5000);
	custom_in_place(page, (size_t)-1);
	puts("survived");
}

UNTRACED int main(int argc, char **argv)
{
	int first = 1;

	wait_for_go(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "wait"))
		first = 2;
	if (argc > first && !strcmp(argv[first], "unmapped")) {
		unmapped();
		return 0;
	}
	for (int i = first; i < argc; i++) {
		size_t size = strtoul(argv[i], NULL, 0);
		const char *payload = payload_of(size);

		custom_in_place(payload, size);
		custom_swapped(size, payload);
		custom_shifted(1, payload, size);
		custom_far(1, 2, 3, 4, size, payload);
		custom_called(size);
#ifdef TYPED_EVENTS
		typed_in_place(0x1000, payload, size);
		typed_tsp(0x1001, size, payload);
		typed_pts(payload, 0x1002, size);
		typed_pst(payload, size, 0x1003);
		typed_stp(size, 0x1004, payload);
		typed_spt(size, payload, 0x1005);
#endif
	}
	return 0;
}

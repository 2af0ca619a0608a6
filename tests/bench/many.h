/* SPDX-License-Identifier: BSD-2-Clause */
/* 20 000 functions. */
/* Names are digits put together: traced10000 to traced29999. */
/* clang-format off */
#define TEN(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
#define HUNDRED(m, n) \
	TEN(m, n##0) TEN(m, n##1) TEN(m, n##2) TEN(m, n##3) TEN(m, n##4) \
	TEN(m, n##5) TEN(m, n##6) TEN(m, n##7) TEN(m, n##8) TEN(m, n##9)
#define THOUSAND(m, n) \
	HUNDRED(m, n##0) HUNDRED(m, n##1) HUNDRED(m, n##2) HUNDRED(m, n##3) HUNDRED(m, n##4) \
	HUNDRED(m, n##5) HUNDRED(m, n##6) HUNDRED(m, n##7) HUNDRED(m, n##8) HUNDRED(m, n##9)
#define TEN_THOUSAND(m, n) \
	THOUSAND(m, n##0) THOUSAND(m, n##1) THOUSAND(m, n##2) THOUSAND(m, n##3) THOUSAND(m, n##4) \
	THOUSAND(m, n##5) THOUSAND(m, n##6) THOUSAND(m, n##7) THOUSAND(m, n##8) THOUSAND(m, n##9)
/* clang-format on */

#define DEFINE(n)                                                                                                      \
	__attribute__((noinline, xray_always_instrument)) static int traced##n(int x)                                  \
	{                                                                                                              \
		return x ^ n;                                                                                          \
	}
#define NAME(n) traced##n,

TEN_THOUSAND(DEFINE, 1)
TEN_THOUSAND(DEFINE, 2)

static int (*const functions[])(int) = { TEN_THOUSAND(NAME, 1) TEN_THOUSAND(NAME, 2) };

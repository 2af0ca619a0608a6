// SPDX-License-Identifier: BSD-2-Clause
#include "elf/demangle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

TEST(test_names)
{
	static const char *const cases[][2] = {
		{ "_Z3fooi", "foo(int)" },
		{ "_ZN2ns1SC2Ei", "ns::S::S(int)" },
		{ "_ZN12_GLOBAL__N_14workEv.cold", "(anonymous namespace)::work() [clone .cold]" },
		{ "_ZSt4sortIPiEvT_S1_", "void std::sort<int*>(int*, int*)" },
		{ "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write" }, /* Rust, legacy: without the hash */
		{ "_RNvC5crate4main", "crate::main" },				  /* Rust, v0 */
		/* C++20 and C++23: constraints, a class as a template argument, an explicit object parameter, _BitInt.
		 */
		{ "_Z11abbreviatedITkSt8integraliEvT_", "abbreviated" },
		{ "_ZN4shop5StockITkSt8integraliE4takeEi", "shop::Stock::take" },
		{ "_Z8requiredIiQgtstT_Li1EEvS0_", "required" },
		{ "_ZN1SIiE8requiredITkSt8integralS0_EEvT_Qsr3stdE7is_sameE", "S::required" },
		{ "_ZN2ns3BoxIiE3twoIiQsr3stdE7same_asITL0__T_EEES4_S4_i", "ns::Box::two" },
		{ "_ZN2ns3BoxIiEC2ITkSt8integraljEET_", "ns::Box::Box" },
		{ "_Z12lambda_paramITnDaXtlZ4mainE3$_0EEEvv", "lambda_param" },
		{ "_ZNH1S13explicit_thisIRS_EEvOT_", "S::explicit_this" },
		{ "_Z6bitintDB77_", "bitint" },
		{ "_Z6bitintDU77_i", "bitint" },
		{ "main", NULL },
		{ "", NULL },
		{ "_", NULL },
		{ "_Z", NULL },
		{ "_Zx", NULL },
		{ "_start", NULL },
		{ "i", NULL }, /* int, if it were a type */
		{ "_R", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *name = xp_demangle(cases[i][0]);

		if (cases[i][1])
			assert_string_equal(name ? name : "(none)", cases[i][1]);
		else
			assert_null(name);
		free(name);
	}
}

/* Each parameter is a pair of the previous one: 2^30 times "int" if expanded. */
TEST(test_explosion)
{
	char symbol[1024] = "_Z1f1pIiiE";
	char *name;

	for (unsigned int i = 0; i < 30; i++) {
		/* Substitutions: S_ is p, S0_ its first use, then one for each parameter. */
		char digit = i < 10 ? '0' + i : 'A' + i - 10;

		snprintf(symbol + strlen(symbol), sizeof(symbol) - strlen(symbol), "S_IS%c_S%c_E", digit, digit);
	}
	name = xp_demangle(symbol);
	assert_non_null(name);
	assert_int_equal(strlen(name), XP_DEMANGLED_BYTES_MAX);
	assert_string_equal(name + XP_DEMANGLED_BYTES_MAX - 3, "...");
	free(name);
}

/* The recursion of the demangler must not exhaust the stack. */
TEST(test_deep)
{
	static const char *const starts[] = { "_Z1f", "_ZN", "_RNvC", "_R" };
	static const char *const repeated[] = { "P", "N", "F", "1aI", "X", "L_Z", "IS_", "Q", "TkN", "NH" };
	static char symbol[100000];

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		for (size_t j = 0; j < sizeof(repeated) / sizeof(repeated[0]); j++) {
			for (size_t bytes = 1000; bytes <= 99000; bytes += 14000) {
				size_t used = strlen(starts[i]);

				memcpy(symbol, starts[i], used + 1);
				for (; used < bytes; used += strlen(repeated[j]))
					strcpy(symbol + used, repeated[j]);
				free(xp_demangle(symbol));
			}
		}
	}
}

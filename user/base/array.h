/* SPDX-License-Identifier: BSD-2-Clause */
/* Growing arrays: a pointer, the number of elements, and the capacity. Also a binary search, for any array. */
#ifndef XPROF_BASE_ARRAY_H
#define XPROF_BASE_ARRAY_H

#include <errno.h>
#include <stddef.h>

/*
 * Returns the array with space for at least `need` elements. If out of memory, returns NULL and leaves the array and
 * *room unchanged. The capacity grows by at least half, so that appending n elements moves O(n) of them.
 */
void *xp_array_grow(void *array, size_t *room, size_t need, size_t element_bytes);

/*
 * Like xp_array_grow(), but updates `array`, which must be an lvalue. `room` must be a size_t lvalue. Returns 0 or
 * -ENOMEM.
 */
#define XP_ARRAY_RESERVE(array, room, need)                                                                            \
	({                                                                                                             \
		void *grown_ = xp_array_grow(array, &(room), need, sizeof(*(array)));                                  \
		if (grown_)                                                                                            \
			(array) = grown_;                                                                              \
		grown_ ? 0 : -ENOMEM;                                                                                  \
	})

/* Appends an element; `count` must be an lvalue. Returns 0 or -ENOMEM. */
#define XP_ARRAY_ADD(array, count, room, ...)                                                                          \
	({                                                                                                             \
		int added_ = XP_ARRAY_RESERVE(array, room, (count) + 1);                                               \
		if (!added_)                                                                                           \
			(array)[(count)++] = (__VA_ARGS__);                                                            \
		added_;                                                                                                \
	})

/* Keeps the elements for which `condition`, an expression of the variable that `index` names, is true. */
#define XP_ARRAY_KEEP(array, count, index, condition)                                                                  \
	do {                                                                                                           \
		size_t kept_ = 0;                                                                                      \
		for (size_t index = 0; index < (count); index++)                                                       \
			if (condition)                                                                                 \
				(array)[kept_++] = (array)[index];                                                     \
		(count) = kept_;                                                                                       \
	} while (0)

/*
 * Returns the lowest of `count` indices for which is_before is false, or `count` if it is true for all. is_before is an
 * expression of the variable that `index` names. It must be true for all indices before that one, and false from there
 * on.
 */
#define XP_FIND_FIRST(count, index, is_before)                                                                         \
	({                                                                                                             \
		size_t low_ = 0, high_ = (count);                                                                      \
		while (low_ < high_) {                                                                                 \
			size_t index = low_ + (high_ - low_) / 2;                                                      \
			if (is_before)                                                                                 \
				low_ = index + 1;                                                                      \
			else                                                                                           \
				high_ = index;                                                                         \
		}                                                                                                      \
		low_;                                                                                                  \
	})

#endif

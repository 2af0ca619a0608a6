/* SPDX-License-Identifier: BSD-2-Clause */
/* Growing arrays: a pointer, the number of elements, and the capacity. Also a binary search, for any array. */
#ifndef XPROF_BASE_ARRAY_H
#define XPROF_BASE_ARRAY_H

#include <errno.h>
#include <stddef.h>

/*
 * Returns the array with space for at least `need` elements, or NULL if memory is out: then the array and *room are as
 * they were. The room grows by half at least, so that appending n elements moves O(n) of them.
 */
void *xp_array_grow(void *array, size_t *room, size_t need, size_t element_bytes);

/* Like xp_array_grow(), for an lvalue, whose room is a size_t. 0 or -ENOMEM. */
#define XP_ARRAY_RESERVE(array, room, need)                                                                            \
	({                                                                                                             \
		void *grown_ = xp_array_grow(array, &(room), need, sizeof(*(array)));                                  \
		if (grown_)                                                                                            \
			(array) = grown_;                                                                              \
		grown_ ? 0 : -ENOMEM;                                                                                  \
	})

/*
 * Returns the first of `count` indices for which is_before, an expression of the variable that `index` names, is false;
 * count if there is none. is_before must be true for all lower indices, and false for all higher ones.
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

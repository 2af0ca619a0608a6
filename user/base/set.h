/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays without duplicates. The first members of an element are its identity: two elements are the same if these bytes
 * are equal. So these members must have no padding between them, and a text in them must have only one address.
 */
#ifndef XPROF_BASE_SET_H
#define XPROF_BASE_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

/* An array, its number of elements, its capacity, and its hash table. The caller owns all of them. */
struct xp_set {
	struct xp_hash *hash;
	void *array; /* address of the pointer to the first element */
	size_t *count;
	size_t *room;
	size_t element_bytes;
	size_t identity_bytes;
	size_t max; /* maximum number of elements */
};

/* The identity_bytes of an element whose last identity member is `last`. */
#define XP_SET_IDENTITY(element, last) (offsetof(__typeof__(element), last) + sizeof((element).last))

/* Finds the same element, or adds this one. *index: its index. Returns 0, -ENOMEM, or -E2BIG beyond max. */
int xp_set_add(const struct xp_set *set, const void *element, uint32_t *index);

#endif

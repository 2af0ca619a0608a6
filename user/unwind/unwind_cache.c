// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/unwind_cache.h"

#include <stdlib.h>

#include "base/util.h"

#define STEP_BYTES sizeof(struct xp_cached_step)
#define ROOM_STEP 16

static void forget(struct xp_unwind_cache *chains, struct xp_cached_chain *chain)
{
	chains->bytes -= chain->room * STEP_BYTES;
	free(chain->steps);
	*chain = (struct xp_cached_chain){ .tid = chain->tid };
}

void xp_unwind_cache_free(struct xp_unwind_cache *chains)
{
	for (size_t i = 0; i < XP_CHAINS; i++)
		forget(chains, &chains->all[i]);
}

struct xp_cached_chain *xp_unwind_cache_get(struct xp_unwind_cache *chains, pid_t tid,
					    const struct xp_address_space *space, bool has_code)
{
	struct xp_cached_chain *chain = &chains->all[(uint32_t)tid % XP_CHAINS];

	if (chain->tid != tid || chain->space != space || chain->space_changed != space->changed ||
	    chain->has_code != has_code) {
		chain->tid = tid;
		chain->space = space;
		chain->space_changed = space->changed;
		chain->has_code = has_code;
		chain->count = 0;
	}
	return chain;
}

static bool reserve(struct xp_unwind_cache *chains, struct xp_cached_chain *chain, size_t count)
{
	size_t room = (count + ROOM_STEP - 1) / ROOM_STEP * ROOM_STEP, more = (room - chain->room) * STEP_BYTES;
	struct xp_cached_step *steps;

	if (count <= chain->room)
		return true;
	if (chains->bytes + more > XP_UNWIND_CACHE_BYTES_MAX) {
		xp_unwind_cache_free(chains);
		return false;
	}
	steps = reallocarray(chain->steps, room, sizeof(*steps));
	if (!steps)
		return false;
	chain->steps = steps;
	chain->room = room;
	chains->bytes += more;
	return true;
}

void xp_unwind_cache_store(struct xp_unwind_cache *chains, struct xp_cached_chain *chain, size_t same,
			   const struct xp_cached_step *steps, size_t count)
{
	if (!reserve(chains, chain, count))
		same = count = 0;
	for (size_t i = same; i < count; i++)
		chain->steps[i] = steps[count - i];
	chain->count = count;
}

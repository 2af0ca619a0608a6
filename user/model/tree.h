/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model as one call tree of functions: its stacks without addresses and lines, below a node for each process, thread,
 * name or CPU. Make it after xp_model_name().
 *
 * Each thread may have its own nodes for all stacks of a recording, and a compressed perf.data of 200 KB can need 20
 * million nodes: samples beyond XP_MODEL_NODES_MAX are in a separate group, with a warning. Memory: 56 bytes and a slot
 * of 8 per node; up to 24 MB more while it is made.
 */
#ifndef XPROF_MODEL_TREE_H
#define XPROF_MODEL_TREE_H

#include "base/u64_map.h"
#include "model/model.h"

/* How samples are grouped: as in enum xp_by_option. */
enum xp_model_group {
	XP_MODEL_BY_PROCESS, /* "comm (pid)" */
	XP_MODEL_BY_THREAD,  /* its process, and below it "comm (tid)" */
	XP_MODEL_BY_COMM,    /* name of the process */
	XP_MODEL_BY_CPU,     /* "cpu N" */
	XP_MODEL_BY_NONE,
	XP_MODEL_BY_CGROUP, /* its path */
	XP_MODEL_GROUPS,    /* their number */
};

extern const char *const xp_model_group_names[XP_MODEL_GROUPS]; /* names in files: "process" and so on */
#define XP_MODEL_NO_CGROUP "[unknown control group]"
#define XP_MODEL_OTHERS "[others]"
#define XP_MODEL_RARE "(rare stacks)"

#define XP_MODEL_NODES_MAX (2u << 20)

struct xp_model_node {
	const char *group; /* clean; NULL: a function, or the root */
	uint32_t parent;   /* lower than the node's own index; 0: the root, node 0, whose parent is XP_MODEL_NONE */
	uint32_t function; /* first function with this shown name and object; XP_MODEL_NONE: a group, or the root */
	bool is_inlined;   /* into its parent */
	/* not identity (base/set.h) */
	uint64_t self[2];  /* values of the model's samples that end here */
	uint64_t total[2]; /* self and the values of all nodes below */
};

struct xp_model_tree {
	struct xp_model_node *nodes;
	size_t count;
	size_t rare_count; /* nodes that xp_model_tree_bound() has removed */
	bool is_of_callers;
	uint64_t in_others; /* number of samples, calls or waits in the group XP_MODEL_OTHERS */
	/* private */
	uint32_t others; /* the node of that group; 0: none */
	size_t room;
	uint32_t *same_as; /* for each function: the first function with the same shown name */
	uint32_t *path;
	size_t path_room;
	struct xp_hash by_node;
	struct xp_u64_map by_stack;
};

/* The caller calls xp_model_tree_free(), also after an error. The model owns the strings. Returns 0 or -ENOMEM. */
int xp_model_tree_make(struct xp_model_tree *tree, struct xp_model *model, enum xp_model_group by);
/* Finds the node of such a tree whose `self` includes a sample. by: that of the tree. Returns 0 or -ENOMEM. */
int xp_model_tree_node(struct xp_model_tree *tree, struct xp_model *model, enum xp_model_group by,
		       const struct xp_model_sample *sample, uint32_t *node);
/*
 * Makes the tree of the callers of functions whose name matches a glob: the children of a function are its callers.
 * Each sample counts once, from the innermost matching function in its stack. Calls of other functions count only with
 * their time. self: of stacks that begin here.
 */
int xp_model_tree_callers(struct xp_model_tree *tree, struct xp_model *model, enum xp_model_group by, const char *glob);
/*
 * Bounds a tree to `max` nodes. A larger tree keeps its groups, and then the functions with the largest totals, in all
 * half as many nodes. The rest of the children of each of these becomes one child, the function XP_MODEL_RARE, with the
 * same sum: totals remain exact. Returns the new index of each old node, which the caller frees; NULL: out of memory.
 * xp_model_tree_node() cannot be called afterwards.
 */
uint32_t *xp_model_tree_bound(struct xp_model_tree *tree, struct xp_model *model, size_t max);
void xp_model_tree_free(struct xp_model_tree *tree);

/* Formats "comm (id)", without an id of 0. Returns to. */
const char *xp_model_label(char *to, size_t size, const char *name, uint64_t id);
/* Formats "cpu N". Returns to. */
const char *xp_model_cpu_label(char *to, size_t size, uint32_t cpu);
#define XP_MODEL_LABEL_BYTES 128

#endif

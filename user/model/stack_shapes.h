/* SPDX-License-Identifier: BSD-2-Clause */
/* Reduces a stack to functions of the program. Kernel functions are used only if the stack has no others. */
#ifndef XPROF_MODEL_STACK_SHAPES_H
#define XPROF_MODEL_STACK_SHAPES_H

#include "model/model.h"

/*
 * Sets a number for each stack. Stacks with the same functions have the same number, even at different addresses. The
 * caller frees shapes, also after an error. Returns 0 or -ENOMEM.
 */
int xp_stack_shapes(const struct xp_model *model, uint64_t **shapes);

/* Lists the shown names of a stack's functions, the innermost first, at most max. Returns the number of functions. */
size_t xp_stack_frames(const struct xp_model *model, uint32_t stack, const char **names, size_t max);

#endif

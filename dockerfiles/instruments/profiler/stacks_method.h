#ifndef STACKS_METHOD_H
#define STACKS_METHOD_H

#include "counts.h"
#include "elf_file.h"
#include "profiler.h"
#include "stacks.h"
#include "stacked.skel.h"

/* Before the program is loaded, after it, and at the end. */
void prepare_stacks(struct syscalls *program, const struct target *target);
void fill_stacks(struct syscalls *program);

/* The files whose functions may be on a stack. */
const struct elf_file *stack_files(unsigned *count);

/* Before the program is loaded: whether acquisitions and pauses are probed; after it; and at the end. */
void choose_acquires(struct syscalls *program, const struct target *target);
void attach_acquires(struct syscalls *program, const struct target *target);
void detach_acquires(void);
/* Prints `, "probed": [...], "acquires": [...], "pauses": [...]`. */
void print_acquires(const struct syscalls *program, const char *const *phases, unsigned phase_count);

/* Prints `, "stacks": {...}, "sites": [...], "edges": [...], "threads": {...}, "with_symbols": [...]`. */
void print_stacks(const struct syscalls *program, const char *const *phases, unsigned phase_count);

#endif

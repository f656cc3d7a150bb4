/* What the BPF side counts and the user side reads. */
#ifndef COUNTS_H
#define COUNTS_H

#include <linux/types.h>

/* A program says which phase begins by closing a file descriptor that cannot exist: any language can do that, it costs
 * one failing system call, and without a profiler nothing happens.
 *   close(PHASE_MARK | phase)               the phase begins now
 *   close(PHASE_MARK | FROM_EXEC | phase)   it begins when the next program is executed in this cell, and what the
 *                                           caller itself does is never counted: the launcher is no part of a workload
 */
#define PHASE_MARK 0x7fff0000u
#define PHASE_MASK 0x7u
#define FROM_EXEC 0x8u

enum phase { OUTSIDE, STARTUP, WARMUP, WORK, END, PHASES = 8 };

enum {
    SYSCALLS = 512,
    FUTEX_OPERATIONS = 16,
    MAX_OPEN_CALLS = 65536,
    MAX_ERRORS = 4096,
    MAX_LOCKS = 16384,
};

struct call_counts {
    __u64 calls, ns, max_ns;
};

struct futex_counts {
    __u64 calls, ns, max_ns, errors, woke_nobody;
};

struct error_key {
    __u32 phase, number, error;
};

struct lock_key {
    __u64 address;
    __u32 process, phase;
};

struct lock_counts {
    __u64 waits, ns;
};

/* Events that did not fit: a profile in which one of them is not 0 is not exact. */
struct lost {
    __u64 open_calls, errors, locks, unknown_numbers, stacks, sites, edges, codes, acquires, pauses, threads;
};

#endif

/* Counts the system calls of one cell, told from all others by its cgroup (or, where the engine uses cgroup v1 alone, by
 * its PID namespace).
 *
 * Raw tracepoints, because they cost least.
 */
#include "counts.h"

#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* Numbers of system calls and where struct pt_regs keeps their arguments: fixed by each architecture's ABI. */
#if defined(__TARGET_ARCH_x86)
enum { CLOSE = 3, FUTEX = 202 };
enum { FIRST_ARGUMENT = 14 * 8, SECOND_ARGUMENT = 13 * 8 };
#elif defined(__TARGET_ARCH_arm64)
enum { CLOSE = 57, FUTEX = 98 };
enum { FIRST_ARGUMENT = 0, SECOND_ARGUMENT = 8 };
#else
#error "no table for this architecture"
#endif

/* From linux/futex.h: FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME are no part of the operation. */
enum { OPERATION_MASK = 0x7f };
enum { WAIT = 0, WAKE = 1, WAKE_OP = 5, LOCK_PI = 6, WAIT_BITSET = 9, WAKE_BITSET = 10, WAIT_REQUEUE_PI = 11, LOCK_PI2 = 13 };
enum { MAX_ERRNO = 4095 };

const volatile bool by_namespace;
const volatile __u64 namespace_device, namespace_inode;

/* Of this cell alone: a profiler watches one. */
__u32 phase, phase_at_exec, launcher;
__u64 phase_since_ns, phase_ns[PHASES];
struct lost lost;

struct open_call {
    __u64 since_ns, address, stack;
    __u32 number, operation, phase;
    bool is_stacked;
};

#define ARRAY(NAME, ENTRIES, VALUE)                \
    struct {                                       \
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);   \
        __uint(max_entries, ENTRIES);              \
        __type(key, __u32);                        \
        __type(value, VALUE);                      \
    } NAME SEC(".maps")

ARRAY(totals, PHASES, __u64);
ARRAY(calls, PHASES * SYSCALLS, struct call_counts);
ARRAY(futexes, PHASES * FUTEX_OPERATIONS, struct futex_counts);

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, MAX_ERRORS);
    __type(key, struct error_key);
    __type(value, __u64);
} errors SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_LOCKS);
    __type(key, struct lock_key);
    __type(value, struct lock_counts);
} locks SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_OPEN_CALLS);
    __type(key, __u32);
    __type(value, struct open_call);
} open_calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} cell SEC(".maps");

/* The value at a key, which is this one if there was none; NULL if the map is full. */
static __always_inline void *kept_at(void *map, const void *key, const void *first) {
    void *value = bpf_map_lookup_elem(map, key);
    if (value)
        return value;
    /* Another CPU may have put one there in between: then that one is used. */
    bpf_map_update_elem(map, key, first, BPF_NOEXIST);
    return bpf_map_lookup_elem(map, key);
}

static __always_inline bool is_watched(void) {
    if (!by_namespace)
        return bpf_current_task_under_cgroup(&cell, 0) == 1;
    struct bpf_pidns_info ids;
    return bpf_get_ns_current_pid_tgid(namespace_device, namespace_inode, &ids, sizeof ids) == 0;
}

static __always_inline __u64 argument(const struct bpf_raw_tracepoint_args *event, __u32 offset) {
    __u64 value = 0;
    bpf_probe_read_kernel(&value, sizeof value, (void *)(event->args[0] + offset));
    return value;
}

static __always_inline void begin(__u32 next) {
    __u64 now = bpf_ktime_get_ns();
    if (phase_since_ns)
        phase_ns[phase & PHASE_MASK] += now - phase_since_ns;
    phase_since_ns = now;
    phase = next & PHASE_MASK;
}

static __always_inline void mark(__u32 descriptor, __u32 process) {
    if (!(descriptor & FROM_EXEC)) {
        begin(descriptor);
        return;
    }
    launcher = process;
    phase_at_exec = descriptor & PHASE_MASK;
}

static __always_inline bool waits_in(__u32 operation) {
    return operation == WAIT || operation == WAIT_BITSET || operation == LOCK_PI || operation == LOCK_PI2 ||
           operation == WAIT_REQUEUE_PI;
}

static __always_inline bool wakes_in(__u32 operation) {
    return operation == WAKE || operation == WAKE_BITSET || operation == WAKE_OP;
}

/* Compiled twice: stacks need kernels that describe their types, and counting does not. */
#ifdef WITH_STACKS
#include "stacks.bpf.h"
#include "acquires.bpf.h"
#endif

SEC("raw_tp/sys_enter")
int interlock_enter(struct bpf_raw_tracepoint_args *event) {
    if (!is_watched())
        return 0;
    __u64 ids = bpf_get_current_pid_tgid();
    __u32 thread = ids, process = ids >> 32, number = event->args[1];
    __u64 first = 0;
    if (number == CLOSE || number == FUTEX)
        first = argument(event, FIRST_ARGUMENT);
    if (number == CLOSE && ((__u32)first & ~(PHASE_MASK | FROM_EXEC)) == PHASE_MARK) {
        mark(first, process);
        return 0;
    }
    if (process == launcher)
        return 0;
    struct open_call call = {.number = number, .phase = phase & PHASE_MASK};
    __u64 *total = bpf_map_lookup_elem(&totals, &call.phase);
    if (total)
        ++*total;
    if (number >= SYSCALLS) {
        __sync_fetch_and_add(&lost.unknown_numbers, 1);
        return 0;
    }
    __u32 slot = call.phase * SYSCALLS + number;
    struct call_counts *counts = bpf_map_lookup_elem(&calls, &slot);
    if (counts)
        counts->calls++;
    if (number == FUTEX) {
        call.address = first;
        call.operation = argument(event, SECOND_ARGUMENT) & OPERATION_MASK & (FUTEX_OPERATIONS - 1);
        slot = call.phase * FUTEX_OPERATIONS + call.operation;
        struct futex_counts *futex = bpf_map_lookup_elem(&futexes, &slot);
        if (futex)
            futex->calls++;
    }
#ifdef WITH_STACKS
    note_working(thread, call.phase);
    if (number == FUTEX && waits_in(call.operation))
        note_parking(thread);
    if (is_stacked(number))
        open_site(&call, process, event->args[0]);
#endif
    call.since_ns = bpf_ktime_get_ns();
    if (bpf_map_update_elem(&open_calls, &thread, &call, BPF_ANY))
        __sync_fetch_and_add(&lost.open_calls, 1);
    return 0;
}

static __always_inline void count_error(const struct open_call *call, __u32 error) {
    struct error_key key = {.phase = call->phase, .number = call->number, .error = error};
    __u64 one = 1, *count = bpf_map_lookup_elem(&errors, &key);
    if (count)
        ++*count;
    else if (bpf_map_update_elem(&errors, &key, &one, BPF_ANY))
        __sync_fetch_and_add(&lost.errors, 1);
}

static __always_inline void count_wait(const struct open_call *call, __u32 process, __u64 ns) {
    struct lock_key key = {.address = call->address, .process = process, .phase = call->phase};
    struct lock_counts none = {}, *lock = kept_at(&locks, &key, &none);
    if (!lock) {
        __sync_fetch_and_add(&lost.locks, 1);
        return;
    }
    __sync_fetch_and_add(&lock->waits, 1);
    __sync_fetch_and_add(&lock->ns, ns);
}

static __always_inline void count_futex(const struct open_call *call, __u32 process, __u64 ns, long result) {
    __u32 slot = call->phase * FUTEX_OPERATIONS + call->operation;
    struct futex_counts *futex = bpf_map_lookup_elem(&futexes, &slot);
    if (!futex)
        return;
    futex->ns += ns;
    if (ns > futex->max_ns)
        futex->max_ns = ns;
    if (result < 0)
        futex->errors++;
    if (result == 0 && wakes_in(call->operation))
        futex->woke_nobody++;
    if (waits_in(call->operation))
        count_wait(call, process, ns);
}

SEC("raw_tp/sys_exit")
int interlock_exit(struct bpf_raw_tracepoint_args *event) {
    if (!is_watched())
        return 0;
    __u64 now = bpf_ktime_get_ns(), ids = bpf_get_current_pid_tgid();
    __u32 thread = ids;
    /* A new child leaves a call that it never entered. */
    struct open_call *open = bpf_map_lookup_elem(&open_calls, &thread);
    if (!open)
        return 0;
    struct open_call call = *open;
    bpf_map_delete_elem(&open_calls, &thread);
    long result = event->args[1];
    __u64 ns = now - call.since_ns;
    __u32 slot = call.phase * SYSCALLS + call.number;
    struct call_counts *counts = bpf_map_lookup_elem(&calls, &slot);
    if (counts) {
        counts->ns += ns;
        if (ns > counts->max_ns)
            counts->max_ns = ns;
    }
    if (result < 0 && result >= -MAX_ERRNO)
        count_error(&call, -result);
    if (call.number == FUTEX)
        count_futex(&call, ids >> 32, ns, result);
#ifdef WITH_STACKS
    if (call.is_stacked)
        close_site(&call, ids >> 32, ns, result);
#endif
    return 0;
}

SEC("raw_tp/sched_process_exec")
int interlock_exec(struct bpf_raw_tracepoint_args *event) {
    if (!is_watched())
        return 0;
    /* A thread that executes a program takes the process's number: what it had open under its own will not end. */
    __u32 thread = bpf_get_current_pid_tgid(), before = event->args[1];
    if (before != thread)
        bpf_map_delete_elem(&open_calls, &before);
    if (phase_at_exec) {
        begin(phase_at_exec);
        phase_at_exec = OUTSIDE;
    }
    return 0;
}

SEC("raw_tp/sched_process_exit")
int interlock_end(void *unused) {
    (void)unused;
    if (!is_watched())
        return 0;
    __u32 thread = bpf_get_current_pid_tgid();
    bpf_map_delete_elem(&open_calls, &thread);
#ifdef WITH_STACKS
    forget_acquires(thread);
    bpf_map_delete_elem(&open_pauses, &thread);
#endif
    return 0;
}

char LICENSE[] SEC("license") = "GPL";

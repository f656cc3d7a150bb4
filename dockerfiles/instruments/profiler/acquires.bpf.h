/* Acquisitions of locks, how long each is held, and pauses of all threads, by uprobes on the interpreter's own functions:
 * part of syscalls.bpf.c where it is compiled with stacks, and loaded in a pass of its own alone.
 *
 * A return probe takes the place of a return address, so that a stack that is taken inside a probed function ends there:
 * stacks are taken at its entry.
 */
#ifndef ACQUIRES_BPF_H
#define ACQUIRES_BPF_H

#if defined(__TARGET_ARCH_x86)
enum { RESULT = 10 * 8 };
#else
enum { RESULT = FIRST_ARGUMENT };
#endif

/* Programs at tracepoints cannot be preempted, and those at probes can: two would share one scratch. Since Linux 6.10. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

struct open_acquire {
    __u64 lock, since_ns, stack;
    __u32 phase, kind, depth;
    bool was_set, is_parked;
};

struct holder {
    __u64 since_ns, stack;
    __u32 phase, reserved;
};

struct open_pause {
    __u64 since_ns, stopped_ns, stack;
    __u32 phase, reserved;
};

/* By thread: of a lock, and of the GIL, which is given back and taken again while a thread waits for a lock. */
HASH(open_acquires, BPF_MAP_TYPE_HASH, MAX_OPEN_CALLS, __u64, struct open_acquire);
/* Of a lock that nobody gives back the entry stays until others need its place. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, MAX_HOLDERS);
    __type(key, struct waker_key);
    __type(value, struct holder);
} holders SEC(".maps");
HASH(acquires, BPF_MAP_TYPE_HASH, MAX_SITES, struct place_key, struct acquire_counts);
HASH(open_pauses, BPF_MAP_TYPE_HASH, MAX_OPEN_CALLS, __u32, struct open_pause);
HASH(pauses, BPF_MAP_TYPE_HASH, MAX_SITES, struct place_key, struct pause_counts);

static __always_inline __u64 in_register(void *context, __u32 offset) {
    __u64 value = 0;
    bpf_probe_read_kernel(&value, sizeof value, context + offset);
    return value;
}

/* The lowest bit of a lock: of a mutex that is taken it is 1, of a semaphore that is taken 0. */
static __always_inline bool is_set(__u64 lock) {
    __u8 bits = 0;
    bpf_probe_read_user(&bits, sizeof bits, (void *)lock);
    return bits & 1;
}

static __always_inline __u64 acquire_key(__u32 thread, __u64 kind) {
    return thread | (kind & OF_THE_THREAD ? 1ULL << 32 : 0);
}

static __always_inline __u64 lock_of(void *context, __u32 thread, __u64 kind) {
    return kind & OF_THE_THREAD ? thread : in_register(context, FIRST_ARGUMENT);
}

static __always_inline __u64 stack_at(void *context) {
    bpf_preempt_disable();
    __u64 stack = take_stack((__u64)context);
    bpf_preempt_enable();
    return stack;
}

static __always_inline struct acquire_counts *acquires_of(__u64 stack, __u32 at_phase) {
    struct place_key key = {.stack = stack, .phase = at_phase};
    struct acquire_counts none = {}, *counts = kept_at(&acquires, &key, &none);
    if (!counts)
        __sync_fetch_and_add(&lost.acquires, 1);
    return counts;
}

/* One of the functions that take a lock begins. Where one calls another the outer one counts. */
SEC("uprobe")
int interlock_acquire(void *context) {
    if (!is_watched())
        return 0;
    __u32 thread = bpf_get_current_pid_tgid();
    __u64 kind = bpf_get_attach_cookie(context), key = acquire_key(thread, kind);
    struct open_acquire *outer = bpf_map_lookup_elem(&open_acquires, &key);
    if (outer) {
        outer->depth++;
        return 0;
    }
    struct open_acquire open = {.lock = lock_of(context, thread, kind), .phase = phase & PHASE_MASK, .kind = kind};
    open.depth = 1;
    open.stack = stack_at(context);
    open.was_set = !(kind & OF_THE_THREAD) && is_set(open.lock);
    open.since_ns = bpf_ktime_get_ns();
    if (bpf_map_update_elem(&open_acquires, &key, &open, BPF_ANY))
        __sync_fetch_and_add(&lost.acquires, 1);
    return 0;
}

/* Where threads are switched inside these functions they return on another stack, so that only their beginning is
 * probed: of GNU pth's locks the first byte says whether one is taken, and the second argument whether to wait then. */
SEC("uprobe")
int interlock_attempt(void *context) {
    if (!is_watched())
        return 0;
    bool was_set = is_set(in_register(context, FIRST_ARGUMENT));
    if (was_set && !(__u32)in_register(context, SECOND_ARGUMENT))
        return 0;
    struct acquire_counts *counts = acquires_of(stack_at(context), phase & PHASE_MASK);
    if (!counts)
        return 0;
    __sync_fetch_and_add(&counts->acquires, 1);
    if (was_set)
        __sync_fetch_and_add(&counts->contended, 1);
    return 0;
}

/* A thread gives up spinning: for the GIL, if it is taking that, or for a lock. */
static __always_inline void note_parking(__u32 thread) {
    __u64 gil = acquire_key(thread, OF_THE_THREAD), lock = acquire_key(thread, 0);
    struct open_acquire *open = bpf_map_lookup_elem(&open_acquires, &gil);
    if (!open)
        open = bpf_map_lookup_elem(&open_acquires, &lock);
    if (open)
        open->is_parked = true;
}

/* Of the time that a lock takes, the GIL's is not its own. */
static __always_inline void leave_out(__u32 thread, __u64 ns) {
    __u64 lock = acquire_key(thread, 0);
    struct open_acquire *open = bpf_map_lookup_elem(&open_acquires, &lock);
    if (open)
        open->since_ns += ns;
}

static __always_inline void forget_acquires(__u32 thread) {
    __u64 gil = acquire_key(thread, OF_THE_THREAD), lock = acquire_key(thread, 0);
    bpf_map_delete_elem(&open_acquires, &gil);
    bpf_map_delete_elem(&open_acquires, &lock);
}

SEC("uprobe")
int interlock_park(void *context) {
    (void)context;
    if (is_watched())
        note_parking(bpf_get_current_pid_tgid());
    return 0;
}

static __always_inline void note_holder(const struct open_acquire *open, __u32 process, __u64 now) {
    struct waker_key lock = {.address = open->lock, .process = process};
    struct holder holder = {.since_ns = now, .stack = open->stack, .phase = open->phase};
    bpf_map_update_elem(&holders, &lock, &holder, BPF_ANY);
}

SEC("uretprobe")
int interlock_acquired(void *context) {
    if (!is_watched())
        return 0;
    __u64 now = bpf_ktime_get_ns(), ids = bpf_get_current_pid_tgid(), key = acquire_key(ids, bpf_get_attach_cookie(context));
    struct open_acquire *found = bpf_map_lookup_elem(&open_acquires, &key);
    if (!found || --found->depth)
        return 0;
    struct open_acquire open = *found;
    bpf_map_delete_elem(&open_acquires, &key);
    if (open.kind & OF_THE_THREAD)
        leave_out(ids, now - open.since_ns);
    /* 1 is success in all of them; an attempt that fails takes nothing. */
    if (!(open.kind & ALWAYS_TAKES) && (__u32)in_register(context, RESULT) != 1)
        return 0;
    struct acquire_counts *counts = acquires_of(open.stack, open.phase);
    if (!counts)
        return 0;
    __sync_fetch_and_add(&counts->acquires, 1);
    /* Now that it is taken its bit says what it is; a semaphore that has to be waited for is waited for in the kernel. */
    if (open.is_parked || (open.was_set && is_set(open.lock))) {
        __u64 ns = now - open.since_ns;
        __sync_fetch_and_add(&counts->contended, 1);
        __sync_fetch_and_add(&counts->wait_ns, ns);
        if (ns > counts->max_wait_ns)
            counts->max_wait_ns = ns;
    }
    if (open.is_parked)
        __sync_fetch_and_add(&counts->parked, 1);
    if (!(open.kind & GIVEN_BACK_UNSEEN))
        note_holder(&open, ids >> 32, now);
    return 0;
}

/* One of the functions that give a lock back begins: any thread may, of a lock that is none's own. */
SEC("uprobe")
int interlock_release(void *context) {
    if (!is_watched())
        return 0;
    __u64 ids = bpf_get_current_pid_tgid();
    struct waker_key lock = {.process = ids >> 32};
    lock.address = lock_of(context, ids, bpf_get_attach_cookie(context));
    struct holder *found = bpf_map_lookup_elem(&holders, &lock);
    if (!found)
        return 0;
    __u64 ns = bpf_ktime_get_ns() - found->since_ns;
    struct acquire_counts *counts = acquires_of(found->stack, found->phase);
    bpf_map_delete_elem(&holders, &lock);
    if (!counts)
        return 0;
    __sync_fetch_and_add(&counts->held, 1);
    __sync_fetch_and_add(&counts->held_ns, ns);
    if (ns > counts->max_held_ns)
        counts->max_held_ns = ns;
    return 0;
}

/* A thread asks all others to stop. */
SEC("uprobe")
int interlock_stop(void *context) {
    if (!is_watched())
        return 0;
    __u32 thread = bpf_get_current_pid_tgid();
    struct open_pause open = {.phase = phase & PHASE_MASK, .stack = stack_at(context), .since_ns = bpf_ktime_get_ns()};
    if (bpf_map_update_elem(&open_pauses, &thread, &open, BPF_ANY))
        __sync_fetch_and_add(&lost.pauses, 1);
    return 0;
}

SEC("uretprobe")
int interlock_stopped(void *context) {
    (void)context;
    if (!is_watched())
        return 0;
    __u32 thread = bpf_get_current_pid_tgid();
    struct open_pause *open = bpf_map_lookup_elem(&open_pauses, &thread);
    if (open)
        open->stopped_ns = bpf_ktime_get_ns();
    return 0;
}

/* It has let them go on. */
SEC("uretprobe")
int interlock_restarted(void *context) {
    (void)context;
    if (!is_watched())
        return 0;
    __u64 now = bpf_ktime_get_ns();
    __u32 thread = bpf_get_current_pid_tgid();
    struct open_pause *open = bpf_map_lookup_elem(&open_pauses, &thread);
    if (!open)
        return 0;
    struct place_key key = {.stack = open->stack, .phase = open->phase};
    struct pause_counts none = {}, *counts = kept_at(&pauses, &key, &none);
    __u64 ns = now - open->since_ns, stopping_ns = open->stopped_ns ? open->stopped_ns - open->since_ns : ns;
    bpf_map_delete_elem(&open_pauses, &thread);
    if (!counts) {
        __sync_fetch_and_add(&lost.pauses, 1);
        return 0;
    }
    __sync_fetch_and_add(&counts->pauses, 1);
    __sync_fetch_and_add(&counts->ns, ns);
    __sync_fetch_and_add(&counts->stopping_ns, stopping_ns);
    if (ns > counts->max_ns)
        counts->max_ns = ns;
    return 0;
}

#endif

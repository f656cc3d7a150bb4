/* Counting by BPF: loads syscalls.bpf.c for one cell and prints what it counted. Compiled twice: with stacks and without. */
#define _GNU_SOURCE
#include "counts.h"
#include "profiler.h"
#ifdef WITH_STACKS
#include "stacks_method.h"
#define METHOD stacks_method
#else
#include "syscalls.skel.h"
#define METHOD bpf_method
#endif

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct syscalls *program;
static int cpus;

static const char *const phase_names[] = {"outside", "startup", "warmup", "work", "end"};
enum { SHOWN_PHASES = sizeof phase_names / sizeof *phase_names, SHOWN_LOCKS = 10 };

static int only_warnings(enum libbpf_print_level level, const char *format, va_list arguments) {
    return level == LIBBPF_WARN ? vfprintf(stderr, format, arguments) : 0;
}

static void start(const struct target *target) {
    libbpf_set_print(only_warnings);
    cpus = libbpf_num_possible_cpus();
    program = syscalls__open();
    if (!program)
        give_up("the BPF program cannot be opened: %s", strerror(errno));
    program->rodata->by_namespace = target->cgroup < 0;
    program->rodata->namespace_device = target->device;
    program->rodata->namespace_inode = target->inode;
#ifdef WITH_STACKS
    prepare_stacks(program, target);
    choose_acquires(program, target);
#endif
    if (syscalls__load(program) != 0)
        give_up("the kernel refuses the BPF program: %s", strerror(errno));
#ifdef WITH_STACKS
    fill_stacks(program);
#endif
    __u32 slot = 0;
    if (target->cgroup >= 0 && bpf_map_update_elem(bpf_map__fd(program->maps.cell), &slot, &target->cgroup, BPF_ANY))
        give_up("the cell's cgroup cannot be watched: %s", strerror(errno));
    if (syscalls__attach(program) != 0)
        give_up("the BPF program cannot be attached: %s", strerror(errno));
#ifdef WITH_STACKS
    attach_acquires(program, target);
#endif
}

/* A slot of a per-CPU map, its 64-bit fields added up over the CPUs; those whose bit is set in `maxima` are maxima. */
static void sum(const struct bpf_map *map, const void *key, void *result, size_t size, unsigned maxima) {
    size_t fields = size / sizeof(__u64);
    __u64 *values = calloc(cpus, size), *total = result;
    memset(result, 0, size);
    if (!values)
        give_up("out of memory");
    if (bpf_map_lookup_elem(bpf_map__fd(map), key, values) == 0)
        for (int cpu = 0; cpu < cpus; cpu++)
            for (size_t field = 0; field < fields; field++) {
                __u64 value = values[cpu * fields + field];
                if (!(maxima >> field & 1))
                    total[field] += value;
                else if (value > total[field])
                    total[field] = value;
            }
    free(values);
}

#define SUM(MAP, KEY, RESULT, MAXIMA) sum(program->maps.MAP, &(KEY), &(RESULT), sizeof(RESULT), MAXIMA)

static void print_errors(unsigned phase, unsigned number) {
    struct error_key key = {0}, *previous = NULL;
    const char *comma = "";
    char buffer[16];
    printf(", \"errors\": {");
    while (bpf_map_get_next_key(bpf_map__fd(program->maps.errors), previous, &key) == 0) {
        __u64 count;
        previous = &key;
        if (key.phase != phase || key.number != number)
            continue;
        SUM(errors, key, count, 0);
        printf("%s\"%s\": %" PRIu64, comma, error_name(key.error, buffer), (uint64_t)count);
        comma = ", ";
    }
    putchar('}');
}

static void print_calls(unsigned phase) {
    const char *comma = "";
    char buffer[16];
    printf("\"syscalls\": {");
    for (unsigned number = 0; number < SYSCALLS; number++) {
        struct call_counts counts;
        __u32 slot = phase * SYSCALLS + number;
        SUM(calls, slot, counts, 1 << 2);
        if (!counts.calls)
            continue;
        printf("%s\"%s\": {\"calls\": %llu, \"ns\": %llu, \"max_ns\": %llu", comma, syscall_name(number, buffer),
               counts.calls, counts.ns, counts.max_ns);
        print_errors(phase, number);
        putchar('}');
        comma = ", ";
    }
    putchar('}');
}

static void print_futexes(unsigned phase) {
    const char *comma = "";
    printf(", \"futex\": {");
    for (unsigned operation = 0; operation < FUTEX_OPERATIONS; operation++) {
        struct futex_counts counts;
        __u32 slot = phase * FUTEX_OPERATIONS + operation;
        SUM(futexes, slot, counts, 1 << 2);
        if (!counts.calls)
            continue;
        printf("%s\"%s\": {\"calls\": %llu, \"ns\": %llu, \"max_ns\": %llu, \"errors\": %llu, \"woke_nobody\": %llu}", comma,
               futex_operation_name(operation), counts.calls, counts.ns, counts.max_ns, counts.errors,
               counts.woke_nobody);
        comma = ", ";
    }
    putchar('}');
}

struct lock {
    struct lock_key key;
    struct lock_counts counts;
};

static int by_ns(const void *left, const void *right) {
    __u64 a = ((const struct lock *)left)->counts.ns, b = ((const struct lock *)right)->counts.ns;
    return (a < b) - (a > b);
}

static size_t read_locks(unsigned phase, struct lock *locks) {
    struct lock_key key, *previous = NULL;
    size_t count = 0;
    while (count < MAX_LOCKS && bpf_map_get_next_key(bpf_map__fd(program->maps.locks), previous, &key) == 0) {
        previous = &key;
        if (key.phase != phase)
            continue;
        locks[count].key = key;
        if (bpf_map_lookup_elem(bpf_map__fd(program->maps.locks), &key, &locks[count].counts) == 0)
            count++;
    }
    qsort(locks, count, sizeof *locks, by_ns);
    return count;
}

static void print_locks(unsigned phase) {
    static struct lock locks[MAX_LOCKS];
    size_t count = read_locks(phase, locks);
    printf(", \"locks_waited_for\": %zu, \"locks\": [", count);
    for (size_t index = 0; index < count && index < SHOWN_LOCKS; index++)
        printf("%s{\"process\": %u, \"address\": \"0x%llx\", \"waits\": %llu, \"ns\": %llu}", index ? ", " : "",
               locks[index].key.process, locks[index].key.address, locks[index].counts.waits, locks[index].counts.ns);
    putchar(']');
}

static void print_phase(unsigned phase) {
    __u64 total;
    __u32 slot = phase;
    SUM(totals, slot, total, 0);
    printf("%s\"%s\": {\"ns\": %llu, \"total\": %llu, ", phase > STARTUP ? ", " : "", phase_names[phase],
           program->bss->phase_ns[phase], total);
    print_calls(phase);
    print_futexes(phase);
    print_locks(phase);
    putchar('}');
}

/* What the kernel did not run because a program was already running on that CPU. */
static __u64 missed(void) {
    __u64 total = 0;
    struct bpf_program *one;
    bpf_object__for_each_program(one, program->obj) {
        struct bpf_prog_info info = {0};
        __u32 size = sizeof info;
        if (bpf_program__fd(one) >= 0 && bpf_obj_get_info_by_fd(bpf_program__fd(one), &info, &size) == 0)
            total += info.recursion_misses;
    }
    return total;
}

static void print(void) {
    const struct lost *lost = &program->bss->lost;
    syscalls__detach(program);
#ifdef WITH_STACKS
    detach_acquires();
#endif
    printf("{\"schema_version\": 1, \"method\": \"bpf\", \"filter\": \"%s\", ",
           program->rodata->by_namespace ? "pid namespace" : "cgroup");
    printf("\"lost\": {\"open_calls\": %llu, \"errors\": %llu, \"locks\": %llu, \"unknown_numbers\": %llu, "
           "\"stacks\": %llu, \"sites\": %llu, \"edges\": %llu, \"codes\": %llu, "
           "\"acquires\": %llu, \"pauses\": %llu, \"threads\": %llu, \"missed\": %llu}, \"phases\": {",
           lost->open_calls, lost->errors, lost->locks, lost->unknown_numbers, lost->stacks, lost->sites, lost->edges,
           lost->codes, lost->acquires, lost->pauses, lost->threads, missed());
    for (unsigned phase = STARTUP; phase < SHOWN_PHASES; phase++)
        print_phase(phase);
    putchar('}');
#ifdef WITH_STACKS
    print_stacks(program, phase_names, SHOWN_PHASES);
    print_acquires(program, phase_names, SHOWN_PHASES);
#endif
    printf("}\n");
}

const struct method METHOD = {start, print};

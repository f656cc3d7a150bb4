/* Acquisitions and pauses: attaches the probes to the interpreter's functions, and prints what they have added up. */
#define _GNU_SOURCE
#include "stacks_method.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Functions that take or give back the lock that is their first argument, but the GIL, whose thread is. */
struct probed_function {
    const char *name;
    __u32 kind;
};
static const struct probed_function acquiring[] = {
    /* An object's mutex is given back without a call, unless somebody waits. */
    {"PyMutex_Lock", ALWAYS_TAKES | GIVEN_BACK_UNSEEN},
    {"_PyMutex_LockTimed", 0},
    {"PyThread_acquire_lock_timed_with_retries", 0},
    {"PyThread_acquire_lock_timed", 0},
    {"PyThread_acquire_lock", 0},
    {"take_gil", ALWAYS_TAKES | OF_THE_THREAD},
};
static const struct probed_function releasing[] = {
    {"PyThread_release_lock", 0},
    {"_PyMutex_TryUnlock", 0},
    {"drop_gil", OF_THE_THREAD},
};
static const struct probed_function parking[] = {{"_PyParkingLot_Park", 0}};
/* What is exported only calls the static function, which a build with LTO calls at once. A pause counts once: the
 * second start finds none. */
static const struct probed_function stopping[] = {
    {"_PyEval_StopTheWorld", 0}, {"_PyEval_StopTheWorldAll", 0}, {"stop_the_world", 0}};
static const struct probed_function starting[] = {
    {"_PyEval_StartTheWorld", 0}, {"_PyEval_StartTheWorldAll", 0}, {"start_the_world", 0}};

#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof *(ARRAY))
enum { MAX_LINKS = 64 };
static struct bpf_link *links[MAX_LINKS];
static const char *probed[MAX_LINKS];
static unsigned link_count;

void choose_acquires(struct syscalls *program, const struct target *target) {
    struct bpf_program *const all[] = {
        program->progs.interlock_acquire, program->progs.interlock_acquired, program->progs.interlock_release,
        program->progs.interlock_park, program->progs.interlock_stop, program->progs.interlock_stopped,
        program->progs.interlock_restarted,
    };
    for (size_t index = 0; index < COUNT(all); index++)
        bpf_program__set_autoload(all[index], target->acquires);
    bpf_program__set_autoload(program->progs.interlock_attempt, target->attempts);
}

/* Attaches to a function if the file has it: every process that maps the file meets the probe. */
static void attach(struct bpf_program *program, const struct elf_file *file, const struct target *target,
                   const struct probed_function *wanted, bool at_return) {
    char path[512];
    const struct function *function = NULL;
    LIBBPF_OPTS(bpf_uprobe_opts, options, .retprobe = at_return, .bpf_cookie = wanted->kind);
    /* Where there is none, its functions are called all the same and do nothing. */
    if (wanted->kind & OF_THE_THREAD && !target->gil)
        return;
    snprintf(path, sizeof path, "/proc/%d/root%s", target->pid, file->path);
    while ((function = next_function(file, wanted->name, function)) && link_count < MAX_LINKS) {
        links[link_count] = bpf_program__attach_uprobe_opts(program, -1, path, function->start, &options);
        if (!links[link_count])
            give_up("%s cannot be probed: %s", wanted->name, strerror(errno));
        probed[link_count++] = wanted->name;
    }
}

#define ATTACH(PROGRAM, FUNCTIONS, AT_RETURN)                     \
    for (size_t index = 0; index < COUNT(FUNCTIONS); index++)     \
        attach(program->progs.PROGRAM, file, target, &(FUNCTIONS)[index], AT_RETURN)

static void attach_whole(struct syscalls *program, const struct elf_file *file, const struct target *target) {
    ATTACH(interlock_release, releasing, false);
    ATTACH(interlock_park, parking, false);
    ATTACH(interlock_acquired, acquiring, true);
    ATTACH(interlock_acquire, acquiring, false);
    ATTACH(interlock_stopped, stopping, true);
    ATTACH(interlock_stop, stopping, false);
    ATTACH(interlock_restarted, starting, true);
}

void attach_acquires(struct syscalls *program, const struct target *target) {
    unsigned count;
    const struct elf_file *files = stack_files(&count);
    for (const struct elf_file *file = files; file < files + count; file++) {
        /* The interpreter or its library; extension modules only call these functions. */
        if (!next_function(file, "PyThread_release_lock", NULL))
            continue;
        if (target->attempts)
            ATTACH(interlock_attempt, acquiring, false);
        if (target->acquires)
            attach_whole(program, file, target);
    }
}

static void print_places(const struct syscalls *program, const char *const *phases, unsigned phase_count) {
    struct place_key key, *previous = NULL;
    const char *comma = "";
    printf("], \"acquires\": [");
    for (; bpf_map_get_next_key(bpf_map__fd(program->maps.acquires), previous, &key) == 0; previous = &key) {
        struct acquire_counts one;
        if (bpf_map_lookup_elem(bpf_map__fd(program->maps.acquires), &key, &one) || key.phase >= phase_count)
            continue;
        printf("%s{\"phase\": \"%s\", \"stack\": \"%llx\", \"acquires\": %llu, \"contended\": %llu, \"parked\": %llu, "
               "\"wait_ns\": %llu, \"max_wait_ns\": %llu, \"held\": %llu, \"held_ns\": %llu, \"max_held_ns\": %llu}",
               comma, phases[key.phase], key.stack, one.acquires, one.contended, one.parked, one.wait_ns,
               one.max_wait_ns, one.held, one.held_ns, one.max_held_ns);
        comma = ", ";
    }
    comma = "";
    previous = NULL;
    printf("], \"pauses\": [");
    for (; bpf_map_get_next_key(bpf_map__fd(program->maps.pauses), previous, &key) == 0; previous = &key) {
        struct pause_counts one;
        if (bpf_map_lookup_elem(bpf_map__fd(program->maps.pauses), &key, &one) || key.phase >= phase_count)
            continue;
        printf("%s{\"phase\": \"%s\", \"stack\": \"%llx\", \"pauses\": %llu, \"stopping_ns\": %llu, \"ns\": %llu, "
               "\"max_ns\": %llu}", comma, phases[key.phase], key.stack, one.pauses, one.stopping_ns, one.ns, one.max_ns);
        comma = ", ";
    }
    putchar(']');
}

void print_acquires(const struct syscalls *program, const char *const *phases, unsigned phase_count) {
    printf(", \"probed\": [");
    for (unsigned index = 0; index < link_count; index++)
        printf("%s\"%s\"", index ? ", " : "", probed[index]);
    print_places(program, phases, phase_count);
}

void detach_acquires(void) {
    for (unsigned index = 0; index < link_count; index++)
        bpf_link__destroy(links[index]);
}

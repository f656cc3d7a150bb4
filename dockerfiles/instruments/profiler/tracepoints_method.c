/* Counting by perf's tracepoints: how often each system call was entered, and no more. Where BPF is not to be had. */
#define _GNU_SOURCE
#include "profiler.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PREFIX "sys_enter_"
enum { MAX_EVENTS = 512 };

struct event {
    char name[64];
    int *descriptors; /* one for each CPU */
};

static struct event events[MAX_EVENTS];
static size_t event_count;
static struct event all_calls = {.name = "raw_syscalls/sys_enter"};
static long cpus;

/* The folder with the kernel's trace events, mounted if it is not there; NULL if it cannot be had. */
static const char *trace_events(void) {
    static const char *const there[] = {"/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"};
    for (size_t index = 0; index < sizeof there / sizeof *there; index++)
        if (access(there[index], R_OK | X_OK) == 0)
            return there[index];
    mkdir("/run/tracing", 0700);
    return mount("none", "/run/tracing", "tracefs", 0, NULL) == 0 ? "/run/tracing/events" : NULL;
}

static int open_event(uint64_t id, int cgroup, int cpu) {
    struct perf_event_attr attributes = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof attributes, .config = id};
    return (int)syscall(SYS_perf_event_open, &attributes, cgroup, cpu, -1, PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC);
}

static bool read_id(const char *folder, const char *name, uint64_t *id) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/id", folder, name);
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "%" SCNu64, id) == 1;
    if (file)
        fclose(file);
    return found;
}

static void open_on_each_cpu(struct event *event, uint64_t id, const struct target *target) {
    event->descriptors = calloc(cpus, sizeof *event->descriptors);
    if (!event->descriptors)
        give_up("out of memory");
    for (int cpu = 0; cpu < cpus; cpu++) {
        event->descriptors[cpu] = open_event(id, target->perf_cgroup, cpu);
        /* A CPU that is switched off runs nothing. */
        if (event->descriptors[cpu] < 0 && errno != ENODEV)
            give_up("perf cannot count %s of the cell: %s", event->name, strerror(errno));
    }
}

static void add_event(const char *folder, const char *name, const struct target *target) {
    char path[PATH_MAX];
    uint64_t id;
    snprintf(path, sizeof path, "syscalls/%s", name);
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !read_id(folder, path, &id))
        return;
    if (event_count == MAX_EVENTS)
        give_up("this kernel has more than %d system calls", MAX_EVENTS);
    struct event *event = &events[event_count++];
    snprintf(event->name, sizeof event->name, "%s", name + strlen(PREFIX));
    open_on_each_cpu(event, id, target);
}

static void start(const struct target *target) {
    struct rlimit limit;
    /* One descriptor for each call and CPU. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    const char *folder = trace_events();
    char path[PATH_MAX];
    if (!folder)
        give_up("the kernel's trace events cannot be mounted: %s", strerror(errno));
    if (target->perf_cgroup < 0)
        give_up("perf needs a cgroup to count by, and the cell has none that can be seen");
    cpus = sysconf(_SC_NPROCESSORS_CONF);
    uint64_t id;
    if (!read_id(folder, all_calls.name, &id))
        give_up("this kernel has no trace events for system calls");
    open_on_each_cpu(&all_calls, id, target);
    snprintf(path, sizeof path, "%s/syscalls", folder);
    DIR *directory = opendir(path);
    if (!directory)
        give_up("this kernel has no trace events for system calls: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory));)
        add_event(folder, entry->d_name, target);
    closedir(directory);
}

/* The names that the kernel gives its functions -> those of the calls. */
static const char *call_name(const char *name) {
    return strncmp(name, "new", 3) == 0 && strcmp(name, "newfstatat") != 0 ? name + 3 : name;
}

static uint64_t read_calls(const struct event *event) {
    uint64_t calls = 0, value;
    for (int cpu = 0; cpu < cpus; cpu++) {
        if (event->descriptors[cpu] < 0)
            continue;
        if (read(event->descriptors[cpu], &value, sizeof value) != sizeof value)
            give_up("the count of %s cannot be read: %s", event->name, strerror(errno));
        calls += value;
    }
    return calls;
}

/* A few calls have no event of their own on some kernels (rt_sigreturn): they are in the total alone. */
static void print(void) {
    uint64_t total = read_calls(&all_calls), named = 0;
    printf("{\"schema_version\": 1, \"method\": \"tracepoints\", \"syscalls\": {");
    for (size_t index = 0; index < event_count; index++) {
        uint64_t calls = read_calls(&events[index]);
        if (calls)
            printf("\"%s\": %" PRIu64 ", ", call_name(events[index].name), calls);
        named += calls;
    }
    if (named > total)
        give_up("the calls by name are %" PRIu64 ", more than the %" PRIu64 " of all", named, total);
    printf("\"unnamed\": %" PRIu64 "}, \"total\": %" PRIu64 "}\n", total - named, total);
}

const struct method tracepoints_method = {"tracepoints", start, print};

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
static long cpus;

const char *trace_events(void) {
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
    snprintf(path, sizeof path, "%s/syscalls/%s/id", folder, name);
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "%" SCNu64, id) == 1;
    if (file)
        fclose(file);
    return found;
}

static void add_event(const char *folder, const char *name, const struct target *target) {
    uint64_t id;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !read_id(folder, name, &id) || event_count == MAX_EVENTS)
        return;
    struct event *event = &events[event_count++];
    snprintf(event->name, sizeof event->name, "%s", name + strlen(PREFIX));
    event->descriptors = calloc(cpus, sizeof *event->descriptors);
    for (int cpu = 0; cpu < cpus; cpu++) {
        event->descriptors[cpu] = open_event(id, target->perf_cgroup, cpu);
        if (event->descriptors[cpu] < 0)
            give_up("perf cannot count %s of the cell: %s", name, strerror(errno));
    }
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
    cpus = sysconf(_SC_NPROCESSORS_ONLN);
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

static void print(void) {
    const char *comma = "";
    uint64_t total = 0;
    printf("{\"schema_version\": 1, \"method\": \"tracepoints\", \"syscalls\": {");
    for (size_t index = 0; index < event_count; index++) {
        uint64_t calls = 0, value;
        for (int cpu = 0; cpu < cpus; cpu++)
            if (read(events[index].descriptors[cpu], &value, sizeof value) == sizeof value)
                calls += value;
        if (!calls)
            continue;
        printf("%s\"%s\": %" PRIu64, comma, call_name(events[index].name), calls);
        total += calls;
        comma = ", ";
    }
    printf("}, \"total\": %" PRIu64 "}\n", total);
}

const struct method tracepoints_method = {"tracepoints", start, print};

/* Who else traces: two tracers at once can spoil each other's counts without a word. */
#define _GNU_SOURCE
#include "profiler.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_text(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file)
        fclose(file);
}

/* A BPF program on the system calls' tracepoints says so in its descriptor's information. */
static bool links_to_syscalls(const char *process, const char *descriptor) {
    char path[PATH_MAX], text[1024];
    snprintf(path, sizeof path, "/proc/%s/fdinfo/%s", process, descriptor);
    read_text(path, text, sizeof text);
    return strstr(text, "sys_enter") || strstr(text, "sys_exit");
}

static bool is_tracing(const char *process, const char *descriptor) {
    char path[PATH_MAX], link[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%s/fd/%s", process, descriptor);
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length < 0)
        return false;
    link[length] = '\0';
    if (strstr(link, "[perf_event]") || strstr(link, "/trace_pipe"))
        return true;
    return strstr(link, "bpf") && links_to_syscalls(process, descriptor);
}

static bool holds_tracer(const char *process) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%s/fd", process);
    DIR *directory = opendir(path);
    bool found = false;
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));)
        found = isdigit(entry->d_name[0]) && is_tracing(process, entry->d_name);
    if (directory)
        closedir(directory);
    return found;
}

static void read_name(const char *process, char *name, size_t size) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%s/comm", process);
    read_text(path, name, size);
    name[strcspn(name, "\n")] = '\0';
}

static bool is_in_cell(const char *process, const struct target *target) {
    char path[PATH_MAX];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%s/ns/pid", process);
    return stat(path, &info) == 0 && info.st_ino == target->inode;
}

/* The process that traces this one by ptrace, as strace and debuggers do; 0 if none does. */
static int ptracer_of(const char *process) {
    char path[PATH_MAX], text[4096];
    snprintf(path, sizeof path, "/proc/%s/status", process);
    read_text(path, text, sizeof text);
    const char *line = strstr(text, "TracerPid:");
    return line ? atoi(line + strlen("TracerPid:")) : 0;
}

static void add(char *text, size_t size, const char *process) {
    char mine[32], name[32];
    read_name("self", mine, sizeof mine);
    read_name(process, name, sizeof name);
    size_t used = strlen(text);
    /* Profilers of other cells count beside each other without harm: that is tested. */
    if (strcmp(name, mine) != 0)
        snprintf(text + used, size - used, "%s%s (pid %s)", used ? ", " : "", name, process);
}

void find_tracers(const struct target *target, char *text, size_t size) {
    char ptracer[16];
    text[0] = '\0';
    DIR *directory = opendir("/proc");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!isdigit(entry->d_name[0]))
            continue;
        if (holds_tracer(entry->d_name))
            add(text, size, entry->d_name);
        int tracer = is_in_cell(entry->d_name, target) ? ptracer_of(entry->d_name) : 0;
        snprintf(ptracer, sizeof ptracer, "%d", tracer);
        if (tracer && !strstr(text, ptracer))
            add(text, size, ptracer);
    }
    if (directory)
        closedir(directory);
}

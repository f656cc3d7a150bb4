/* From a container's first process, or a cgroup, to what its cell is recognised by. */
#define _GNU_SOURCE
#include "profiler.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static bool is_cgroup2(const char *directory) {
    struct statfs info;
    return statfs(directory, &info) == 0 && info.f_type == CGROUP2_SUPER_MAGIC;
}

static int open_below(const char *directory, const char *path) {
    char whole[2 * PATH_MAX];
    snprintf(whole, sizeof whole, "%s%s", directory, path);
    return open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The path of "0::/docker/1234", which is of version 2; NULL for others, as "4:perf_event:/docker/1234". The root is
 * everybody's, so it tells nobody apart. */
static const char *unified_path(char *line) {
    line[strcspn(line, "\n")] = '\0';
    const char *path = strncmp(line, "0::", 3) == 0 ? line + 3 : NULL;
    return path && strcmp(path, "/") != 0 && strncmp(path, "/..", 3) != 0 ? path : NULL;
}

/* Where a runtime leaves its containers in the hierarchy's root or in the engine's own group, their path is that of
 * many others, this profiler among them: it would count everybody. */
static bool is_mine_too(const char *path) {
    char line[PATH_MAX + 256];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *mine = unified_path(line);
        found = mine && strcmp(mine, path) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

static void find_cgroups(const char *cgroups, struct target *target) {
    char name[64], line[PATH_MAX + 256], unified[PATH_MAX];
    snprintf(name, sizeof name, "/proc/%d/cgroup", target->pid);
    /* cgroup v2 alone is mounted at the top; beside v1 it is in a folder of its own. */
    snprintf(unified, sizeof unified, is_cgroup2(cgroups) ? "%s" : "%s/unified", cgroups);
    FILE *file = fopen(name, "re");
    if (!file)
        give_up("process %d is not there (%s)", target->pid, strerror(errno));
    while (fgets(line, sizeof line, file)) {
        const char *path = unified_path(line);
        if (path && !is_mine_too(path) && is_cgroup2(unified))
            target->cgroup = open_below(unified, path);
    }
    fclose(file);
}

void find_target(pid_t pid, const char *cgroups, struct target *target) {
    char name[64];
    struct stat theirs, ours;
    *target = (struct target){.pid = pid, .cgroup = -1};
    snprintf(name, sizeof name, "/proc/%d/ns/pid", pid);
    /* The profiler itself runs in the host's PID namespace: otherwise it could not see this process. */
    if (stat(name, &theirs) != 0 || stat("/proc/self/ns/pid", &ours) != 0)
        give_up("the PID namespace of process %d cannot be read (%s)", pid, strerror(errno));
    if (theirs.st_ino == ours.st_ino)
        give_up("process %d is in no container", pid);
    target->device = theirs.st_dev;
    target->inode = theirs.st_ino;
    find_cgroups(cgroups, target);
}

void take_cgroup(const char *directory, struct target *target) {
    *target = (struct target){.pid = getpid(), .cgroup = open_below(directory, "")};
    if (target->cgroup < 0 || !is_cgroup2(directory))
        give_up("%s is no cgroup of version 2", directory);
}

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

/* "4:perf_event:/docker/1234" and "0::/docker/1234": number, controllers, path. The root is everybody's, so it tells
 * nobody apart. */
static const char *path_if(char *line, const char *controller) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return NULL;
    *path++ = '\0';
    bool wanted = *controller ? strstr(controllers + 1, controller) != NULL : controllers[1] == '\0';
    return wanted && strcmp(path, "/") != 0 && strncmp(path, "/..", 3) != 0 ? path : NULL;
}

/* Where a runtime leaves its containers in the hierarchy's root or in the engine's own group, their path is that of
 * many others, this profiler among them: it would count everybody. */
static bool is_mine_too(const char *controller, const char *path) {
    char line[PATH_MAX + 256];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *mine = path_if(line, controller);
        found = mine && strcmp(mine, path) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

static void find_cgroups(const char *cgroups, struct target *target) {
    char name[64], line[PATH_MAX + 256], unified[PATH_MAX], perf[PATH_MAX];
    snprintf(name, sizeof name, "/proc/%d/cgroup", target->pid);
    /* cgroup v2 alone is mounted at the top; beside v1 it is in a folder of its own. */
    snprintf(unified, sizeof unified, is_cgroup2(cgroups) ? "%s" : "%s/unified", cgroups);
    snprintf(perf, sizeof perf, "%s/perf_event", cgroups);
    FILE *file = fopen(name, "re");
    if (!file)
        give_up("process %d is not there (%s)", target->pid, strerror(errno));
    while (fgets(line, sizeof line, file)) {
        char copy[sizeof line];
        strcpy(copy, line);
        const char *path = path_if(copy, "");
        if (path && !is_mine_too("", path) && is_cgroup2(unified))
            target->cgroup = open_below(unified, path);
        path = path_if(line, "perf_event");
        if (path && !is_mine_too("perf_event", path))
            target->perf_cgroup = open_below(perf, path);
    }
    fclose(file);
    if (target->perf_cgroup < 0)
        target->perf_cgroup = target->cgroup;
}

void find_target(pid_t pid, const char *cgroups, struct target *target) {
    char name[64];
    struct stat theirs, ours;
    *target = (struct target){.pid = pid, .cgroup = -1, .perf_cgroup = -1};
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
    target->perf_cgroup = target->cgroup;
}

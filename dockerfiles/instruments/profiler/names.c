#define _GNU_SOURCE
#include "profiler.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* Made when the image is built, from the C library's own list: [SYS_read] = "read", ... */
static const char *const syscalls[] = {
#include "syscall_names.h"
};

#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof(ARRAY)[0])

const char *syscall_name(unsigned number, char buffer[16]) {
    if (number < COUNT(syscalls) && syscalls[number])
        return syscalls[number];
    snprintf(buffer, 16, "syscall_%u", number);
    return buffer;
}

/* The kernel's own, from include/linux/errno.h: what a call that a signal interrupts ends with inside. */
static const char *internal_name(unsigned error) {
    switch (error) {
    case 512:
        return "ERESTARTSYS";
    case 513:
        return "ERESTARTNOINTR";
    case 514:
        return "ERESTARTNOHAND";
    case 516:
        return "ERESTART_RESTARTBLOCK";
    default:
        return NULL;
    }
}

const char *error_name(unsigned error, char buffer[16]) {
    const char *name = strerrorname_np((int)error);
    if (!name)
        name = internal_name(error);
    if (name)
        return name;
    snprintf(buffer, 16, "errno_%u", error);
    return buffer;
}

const char *futex_operation_name(unsigned operation) {
    static const char *const names[] = {
        "wait", "wake", "fd", "requeue", "cmp_requeue", "wake_op", "lock_pi", "unlock_pi",
        "trylock_pi", "wait_bitset", "wake_bitset", "wait_requeue_pi", "cmp_requeue_pi", "lock_pi2",
    };
    return operation < COUNT(names) ? names[operation] : "unknown";
}

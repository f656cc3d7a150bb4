/* What is known of a stack at a system call: the interpreter's frames, and the C functions below them. */
#ifndef STACKS_H
#define STACKS_H

#include <linux/types.h>

enum {
    C_FRAMES = 16,
    PYTHON_FRAMES = 20,
    MAX_STACKS = 32768,
    MAX_SITES = 65536,
    MAX_EDGES = 65536,
    MAX_CODES = 16384,
    MAX_WAKERS = 65536,
    MAX_WORKING = 65536,
    MAX_PLACES = 65536,
    MAX_HOLDERS = 65536,
    MAX_FILES = 1024,
    FILE_NAME = 160,
    CODE_NAME = 96,
    MAX_THREADS = 512,
    PLACE_BITS = 40, /* of a C function: its file's number above, the place in the file below */
};

/* Where an interpreter keeps its frames: found by inside/frame_offsets.py, in this order. */
struct frame_offsets {
    __s32 thread, through, frame;
    __s32 previous, code, instruction, by_address, scale, instructions;
    __s32 copies, copy_number;
    __s32 filename, name, first_line, text, type, type_name;
    /* Where threads keep no pointer of their own: a list (next, thread, ..., state), whose head is this far from the
     * beginning of a file; and where the number of the running thread is, if a scheduler in the process switches them.
     * Files by their number from 1 on, or 0. */
    __s32 list_file, list, list_state, running_file, running;
};
enum { FRAME_OFFSETS = sizeof(struct frame_offsets) / sizeof(__s32) };

/* From this place in a file on: where the caller's frame begins, and where its frame pointer is kept. */
struct unwind_row {
    __u32 place;
    __s16 frame;        /* bytes from the register to the caller's frame; its return address is just below */
    __s8 kept;          /* words from the caller's frame down to where its frame pointer is; 0: still in the register */
    __u8 rule;
};
enum { RULE_NONE, RULE_STACK_POINTER, RULE_FRAME_POINTER, RULE_LINKAGE_TABLE };

/* A file's rows, by its inode. */
struct mapped_file {
    __u32 number, first_row, rows, reserved;
};

struct python_frame {
    __u64 code;
    __u32 first_line, instruction;
};

/* Only what is used is kept: the rest is zero, so that two of the same are equal. */
struct stack {
    __u32 process;
    __u16 c_frames, python_frames;
    __u64 c[C_FRAMES];
    struct python_frame python[PYTHON_FRAMES];
};

struct code_key {
    __u64 code; /* tells it from all others of the process: no address */
    __u32 process, first_line;
};

struct code {
    char file[FILE_NAME], name[CODE_NAME];
};

struct site_key {
    __u64 stack;
    __u32 phase;
    __u16 number, operation;
};

struct site_counts {
    __u64 calls, ns, max_ns, errors, woke_nobody;
};

/* A thread that made a call in a phase. */
struct working_key {
    __u32 thread, phase;
};

struct edge_key {
    __u64 waiter, waker;
    __u32 phase, reserved;
};

struct edge_counts {
    __u64 waits, ns;
};

struct waker_key {
    __u64 address;
    __u32 process, reserved;
};

/* What is known of a function that takes or gives back a lock: that it has no result, and always takes it; that nobody
 * sees when the lock is given back; and that the lock is not its first argument, but one that the thread has at most once
 * (the GIL). */
enum { ALWAYS_TAKES = 1, GIVEN_BACK_UNSEEN = 2, OF_THE_THREAD = 4 };

struct place_key {
    __u64 stack;
    __u32 phase, reserved;
};

struct acquire_counts {
    __u64 acquires, contended, parked, wait_ns, max_wait_ns, held, held_ns, max_held_ns;
};

struct pause_counts {
    __u64 pauses, stopping_ns, ns, max_ns;
};

#endif

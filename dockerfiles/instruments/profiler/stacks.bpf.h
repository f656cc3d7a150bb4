/* Stacks at system calls that wait or wake, aggregated here: part of syscalls.bpf.c where it is compiled with stacks.
 *
 * The interpreter's frames are read from its own chain, found from the thread's pointer; C functions by the unwinding
 * tables (.eh_frame) of the files that are mapped. Neither needs a frame pointer, a symbol or another build.
 */
#include "stacks.h"

const volatile struct frame_offsets offsets;
const volatile bool with_frames;
/* The calls whose stacks are taken, besides futex. */
enum { MAX_WATCHED = 8 };
const volatile __u32 watched_calls[MAX_WATCHED];

enum { INDEX_STEPS = 22, PAGE_BITS = 12 };
#if defined(__TARGET_ARCH_x86)
enum { REGISTER_IP = 16 * 8, REGISTER_SP = 19 * 8, REGISTER_BP = 4 * 8 };
#else
/* Elsewhere the rules are others: stacks are not taken there. */
enum { REGISTER_IP, REGISTER_SP, REGISTER_BP };
#endif

#define HASH(NAME, KIND, ENTRIES, KEY, VALUE)  \
    struct {                                   \
        __uint(type, KIND);                    \
        __uint(max_entries, ENTRIES);          \
        __uint(map_flags, BPF_F_NO_PREALLOC);  \
        __type(key, KEY);                      \
        __type(value, VALUE);                  \
    } NAME SEC(".maps")

HASH(stacks, BPF_MAP_TYPE_HASH, MAX_STACKS, __u64, struct stack);
HASH(codes, BPF_MAP_TYPE_HASH, MAX_CODES, struct code_key, struct code);
HASH(sites, BPF_MAP_TYPE_HASH, MAX_SITES, struct site_key, struct site_counts);
HASH(edges, BPF_MAP_TYPE_HASH, MAX_EDGES, struct edge_key, struct edge_counts);
HASH(working, BPF_MAP_TYPE_HASH, MAX_WORKING, struct working_key, __u8);
HASH(files, BPF_MAP_TYPE_HASH, MAX_FILES, __u64, struct mapped_file);

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, MAX_WAKERS);
    __type(key, struct waker_key);
    __type(value, __u64);
} wakers SEC(".maps");

/* Where a page of code is mapped from. A process that executes another program has another memory. */
struct page_key {
    __u64 memory, page;
};

struct page_place {
    __u32 number, first_row, rows, reserved;
    __u64 start; /* the address that the file's first byte would have */
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, MAX_PLACES);
    __type(key, struct page_key);
    __type(value, struct page_place);
} pages SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct unwind_row);
} rows SEC(".maps");

/* What is too large for the stack of a BPF program. */
struct walk {
    struct stack stack;
    struct code code;
    struct page_place place;
    __u64 ip, sp, bp, memory, frame;
    __u64 thread, node, state;
};
ARRAY(walks, 1, struct walk);

struct mm_struct;

struct thread_struct {
    unsigned long fsbase;
} __attribute__((preserve_access_index));

struct task_struct {
    struct mm_struct *mm;
    struct thread_struct thread;
} __attribute__((preserve_access_index));

struct inode {
    unsigned long i_ino;
} __attribute__((preserve_access_index));

struct file {
    struct inode *f_inode;
} __attribute__((preserve_access_index));

struct vm_area_struct {
    unsigned long vm_start, vm_pgoff;
    struct file *vm_file;
} __attribute__((preserve_access_index));

/* Where in a process's memory the two files are that threads are found by. */
struct beginnings {
    __u64 list, running;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, MAX_PLACES);
    __type(key, __u64);
    __type(value, struct beginnings);
} beginnings SEC(".maps");

static __always_inline __u64 read_word(__u64 address) {
    __u64 value = 0;
    bpf_probe_read_user(&value, sizeof value, (void *)address);
    return value;
}

static __always_inline __u32 read_half(__u64 address) {
    __u32 value = 0;
    bpf_probe_read_user(&value, sizeof value, (void *)address);
    return value;
}

static long note_place(struct task_struct *task, struct vm_area_struct *area, void *unused) {
    (void)task, (void)unused;
    __u32 zero = 0;
    struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
    if (!walk || !area->vm_file)
        return 0;
    __u64 inode = BPF_CORE_READ(area, vm_file, f_inode, i_ino);
    struct mapped_file *file = bpf_map_lookup_elem(&files, &inode);
    if (!file)
        return 0;
    walk->place.number = file->number;
    walk->place.first_row = file->first_row;
    walk->place.rows = file->rows;
    walk->place.start = area->vm_start - (area->vm_pgoff << PAGE_BITS);
    return 0;
}

/* Fills walk->place for an address of code; false if no file that is known is mapped there. */
static __noinline bool find_place(__u64 address) {
    __u32 zero = 0;
    struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
    if (!walk)
        return false;
    struct page_key key = {.memory = walk->memory, .page = address >> PAGE_BITS};
    struct page_place *known = bpf_map_lookup_elem(&pages, &key);
    if (known) {
        walk->place = *known;
        return true;
    }
    walk->place.number = 0;
    if (bpf_find_vma(bpf_get_current_task_btf(), address, note_place, &zero, 0) || !walk->place.number)
        return false;
    struct page_place found = walk->place;
    bpf_map_update_elem(&pages, &key, &found, BPF_ANY);
    return true;
}

static __always_inline void note_beginning(struct walk *walk) {
    __s32 number = walk->place.number;
    if (!offsets.list_file || (number != offsets.list_file && number != offsets.running_file))
        return;
    struct beginnings none = {}, *known = kept_at(&beginnings, &walk->memory, &none);
    if (known && number == offsets.list_file)
        known->list = walk->place.start;
    if (known && number == offsets.running_file)
        known->running = walk->place.start;
}

/* The last row at or before the place. */
static __noinline __u32 find_row(__u32 first, __u32 count, __u32 place) {
    __u32 low = first, high = first + count;
    for (int step = 0; step < INDEX_STEPS; step++) {
        if (high - low <= 1)
            break;
        __u32 middle = low + ((high - low) >> 1);
        struct unwind_row *row = bpf_map_lookup_elem(&rows, &middle);
        if (!row)
            break;
        if (row->place <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static long take_c_frame(__u32 index, void *unused) {
    (void)unused;
    __u32 zero = 0;
    struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
    if (!walk || !walk->ip)
        return 1;
    /* A return address is the one after the call, which may be another function's. */
    __u64 address = walk->ip - (index ? 1 : 0);
    if (!find_place(address))
        return 1;
    note_beginning(walk);
    __u64 place = address - walk->place.start;
    walk->stack.c[index & (C_FRAMES - 1)] = (__u64)walk->place.number << PLACE_BITS | place;
    walk->stack.c_frames = index + 1;
    __u32 number = find_row(walk->place.first_row, walk->place.rows, place);
    struct unwind_row *row = bpf_map_lookup_elem(&rows, &number);
    if (!row || row->place > place)
        return 1;
    __u64 frame;
    if (row->rule == RULE_STACK_POINTER)
        frame = walk->sp + row->frame;
    else if (row->rule == RULE_FRAME_POINTER)
        frame = walk->bp + row->frame;
    else if (row->rule == RULE_LINKAGE_TABLE)
        frame = walk->sp + 8 + ((walk->ip & 15) >= 11 ? 8 : 0);
    else
        return 1;
    if (row->kept)
        walk->bp = read_word(frame - 8 * row->kept);
    walk->ip = read_word(frame - 8);
    walk->sp = frame;
    return 0;
}

static __always_inline bool is_code(__u64 object) {
    char name[8] = {};
    bpf_probe_read_user(name, 5, (void *)read_word(read_word(object + offsets.type) + offsets.type_name));
    return name[0] == 'c' && name[1] == 'o' && name[2] == 'd' && name[3] == 'e' && !name[4];
}

/* What tells functions apart: one may lie where another one was, with the same first line, as those of modules do. */
static __always_inline __u64 identity_of(__u64 object) {
    return (object * 0x100000001b3ULL ^ read_word(object + offsets.filename)) * 0x100000001b3ULL ^
           read_word(object + offsets.name);
}

/* Keeps a function's file and name the first time; false if it is none. */
static __noinline bool keep_code(__u64 object, __u64 identity, __u32 first_line) {
    __u32 zero = 0;
    struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
    if (!walk)
        return false;
    struct code_key key = {.code = identity, .process = walk->stack.process, .first_line = first_line};
    if (bpf_map_lookup_elem(&codes, &key))
        return true;
    if (!is_code(object))
        return false;
    __builtin_memset(&walk->code, 0, sizeof walk->code);
    bpf_probe_read_user_str(walk->code.file, FILE_NAME, (void *)(read_word(object + offsets.filename) + offsets.text));
    bpf_probe_read_user_str(walk->code.name, CODE_NAME, (void *)(read_word(object + offsets.name) + offsets.text));
    if (bpf_map_update_elem(&codes, &key, &walk->code, BPF_ANY))
        __sync_fetch_and_add(&lost.codes, 1);
    return true;
}

static __always_inline __u32 instruction_of(__u64 frame, __u64 code) {
    if (!offsets.by_address)
        return read_half(frame + offsets.instruction) * offsets.scale;
    __u64 start = code + offsets.instructions;
    if (offsets.copies >= 0) {
        /* A thread's own copy of the instructions; the first is in the object itself. */
        __u32 copy = read_half(frame + offsets.copy_number);
        if (copy && copy < 65536)
            start = read_word(read_word(code + offsets.copies) + 8 + 8 * copy);
    }
    return read_word(frame + offsets.instruction) - start;
}

static long take_python_frame(__u32 index, void *unused) {
    (void)index, (void)unused;
    __u32 zero = 0;
    struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
    if (!walk || !walk->frame || walk->stack.python_frames >= PYTHON_FRAMES)
        return 1;
    __u64 code = read_word(walk->frame + offsets.code) & ~7ULL;
    __u32 first_line = read_half(code + offsets.first_line);
    __u64 identity = identity_of(code);
    /* Between two runs of the interpreter's loop there are frames without code. */
    if (keep_code(code, identity, first_line)) {
        __u32 slot = walk->stack.python_frames;
        if (slot >= PYTHON_FRAMES)
            return 1;
        walk->stack.python[slot].code = identity;
        walk->stack.python[slot].first_line = first_line;
        walk->stack.python[slot].instruction = instruction_of(walk->frame, code);
        walk->stack.python_frames = slot + 1;
    }
    walk->frame = read_word(walk->frame + offsets.previous);
    return 0;
}

static long look_at_node(__u32 index, void *unused) {
    (void)index, (void)unused;
    __u32 zero = 0;
    struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
    if (!walk || !walk->node)
        return 1;
    if (read_word(walk->node + 8) == walk->thread) {
        walk->state = read_word(walk->node + offsets.list_state);
        return 1;
    }
    walk->node = read_word(walk->node);
    return 0;
}

static __always_inline __u64 listed_state(struct walk *walk, __u64 thread) {
    __u32 zero = 0;
    struct beginnings *known = bpf_map_lookup_elem(&beginnings, &walk->memory);
    if (!known || !known->list)
        return 0;
    if (offsets.running_file && !known->running)
        return 0;
    walk->thread = offsets.running_file ? read_word(known->running + offsets.running) : thread;
    walk->node = read_word(known->list + offsets.list);
    walk->state = 0;
    bpf_loop(MAX_THREADS, look_at_node, &zero, 0);
    return walk->state;
}

static __always_inline __u64 innermost_frame(struct walk *walk, struct task_struct *task) {
    __u64 thread = BPF_CORE_READ(task, thread.fsbase), state;
    if (offsets.list_file)
        state = listed_state(walk, thread);
    else
        state = read_word(thread + offsets.thread);
    if (!state)
        return 0;
    if (offsets.through >= 0)
        state = read_word(state + offsets.through);
    return read_word(state + offsets.frame);
}

static __always_inline __u64 hash_of(const struct stack *stack) {
    const __u64 *words = (const void *)stack;
    __u64 hash = 0xcbf29ce484222325ULL;
    for (__u32 index = 0; index < sizeof *stack / sizeof *words; index++)
        hash = (hash ^ words[index]) * 0x100000001b3ULL, hash ^= hash >> 29;
    return hash;
}

/* Takes the stack of the current thread and returns its number; 0 if it could not be kept, which is lost. */
static __noinline __u64 take_stack(__u64 registers) {
    __u32 zero = 0;
    struct walk *walk = bpf_map_lookup_elem(&walks, &zero);
    if (!walk)
        return 0;
    __builtin_memset(&walk->stack, 0, sizeof walk->stack);
    struct task_struct *task = (void *)bpf_get_current_task_btf();
    walk->stack.process = bpf_get_current_pid_tgid() >> 32;
    walk->memory = (__u64)BPF_CORE_READ(task, mm);
    bpf_probe_read_kernel(&walk->ip, sizeof walk->ip, (void *)(registers + REGISTER_IP));
    bpf_probe_read_kernel(&walk->sp, sizeof walk->sp, (void *)(registers + REGISTER_SP));
    bpf_probe_read_kernel(&walk->bp, sizeof walk->bp, (void *)(registers + REGISTER_BP));
    bpf_loop(C_FRAMES, take_c_frame, &zero, 0);
    if (with_frames) {
        walk->frame = innermost_frame(walk, task);
        bpf_loop(2 * PYTHON_FRAMES, take_python_frame, &zero, 0);
    }
    __u64 number = hash_of(&walk->stack);
    if (!bpf_map_lookup_elem(&stacks, &number) && bpf_map_update_elem(&stacks, &number, &walk->stack, BPF_ANY)) {
        __sync_fetch_and_add(&lost.stacks, 1);
        return 0;
    }
    return number;
}

static __always_inline struct site_counts *site_of(const struct open_call *call) {
    struct site_key key = {.stack = call->stack, .phase = call->phase, .number = call->number, .operation = call->operation};
    struct site_counts none = {}, *site = kept_at(&sites, &key, &none);
    if (!site)
        __sync_fetch_and_add(&lost.sites, 1);
    return site;
}

static __always_inline bool is_stacked(__u32 number) {
    if (number == FUTEX)
        return true;
    for (int index = 0; index < MAX_WATCHED; index++)
        if (watched_calls[index] && watched_calls[index] == number)
            return true;
    return false;
}

static __always_inline void note_working(__u32 thread, __u32 in_phase) {
    struct working_key key = {.thread = thread, .phase = in_phase};
    __u8 here = 1;
    if (!kept_at(&working, &key, &here))
        __sync_fetch_and_add(&lost.threads, 1);
}

/* At a call's start; a waker is known before the one that it wakes returns. */
static __always_inline void open_site(struct open_call *call, __u32 process, __u64 registers) {
    call->stack = take_stack(registers);
    call->is_stacked = true;
    struct site_counts *site = site_of(call);
    if (site)
        __sync_fetch_and_add(&site->calls, 1);
    if (call->number != FUTEX || !wakes_in(call->operation))
        return;
    struct waker_key key = {.address = call->address, .process = process};
    __u64 waker = call->stack;
    bpf_map_update_elem(&wakers, &key, &waker, BPF_ANY);
}

static __always_inline void count_edge(const struct open_call *call, __u32 process, __u64 ns) {
    struct waker_key address = {.address = call->address, .process = process};
    __u64 *waker = bpf_map_lookup_elem(&wakers, &address);
    if (!waker)
        return;
    struct edge_key key = {.waiter = call->stack, .waker = *waker, .phase = call->phase};
    struct edge_counts none = {}, *edge = kept_at(&edges, &key, &none);
    if (!edge) {
        __sync_fetch_and_add(&lost.edges, 1);
        return;
    }
    __sync_fetch_and_add(&edge->waits, 1);
    __sync_fetch_and_add(&edge->ns, ns);
}

/* At a call's end. */
static __always_inline void close_site(const struct open_call *call, __u32 process, __u64 ns, long result) {
    struct site_counts *site = site_of(call);
    if (!site)
        return;
    __sync_fetch_and_add(&site->ns, ns);
    if (ns > site->max_ns)
        site->max_ns = ns;
    if (result < 0)
        __sync_fetch_and_add(&site->errors, 1);
    if (call->number != FUTEX)
        return;
    if (result == 0 && wakes_in(call->operation))
        __sync_fetch_and_add(&site->woke_nobody, 1);
    if (result == 0 && waits_in(call->operation))
        count_edge(call, process, ns);
}

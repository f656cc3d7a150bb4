/* Stacks: prepares what the BPF program needs to take them, and prints what it has added up. */
#define _GNU_SOURCE
#include "stacks_method.h"

#include "elf_file.h"
#include "profiler.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct elf_file files[MAX_FILES];
static unsigned file_count;
static size_t row_total;

static void read_files(const struct target *target) {
    char root[64];
    snprintf(root, sizeof root, "/proc/%d/root", target->pid);
    file_count = target->file_count < MAX_FILES ? target->file_count : MAX_FILES;
    for (unsigned index = 0; index < file_count; index++)
        if (read_elf_file(root, target->files[index], target->symbols, &files[index]))
            row_total += files[index].row_count;
}

static void read_offsets(const char *text, struct frame_offsets *offsets) {
    __s32 *numbers = (__s32 *)offsets;
    for (unsigned index = 0; index < FRAME_OFFSETS; index++) {
        char *end;
        numbers[index] = strtol(text, &end, 10);
        if (end == text || (*end && *end != ','))
            give_up("--frames has no number %u of %d", index + 1, FRAME_OFFSETS);
        text = *end ? end + 1 : end;
    }
}

static void read_calls(char *names, volatile __u32 *numbers, size_t room) {
    char buffer[16];
    size_t count = 0;
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ","))
        for (unsigned number = 0; number < SYSCALLS; number++)
            if (strcmp(syscall_name(number, buffer), name) == 0 && count < room)
                numbers[count++] = number;
}

void prepare_stacks(struct syscalls *program, const struct target *target) {
#ifndef __x86_64__
    give_up("stacks are taken on x86-64 alone");
#endif
    if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
        give_up("stacks need a kernel that describes its types (CONFIG_DEBUG_INFO_BTF)");
    read_calls(target->stacks, program->rodata->watched_calls,
               sizeof program->rodata->watched_calls / sizeof *program->rodata->watched_calls);
    if (target->frames) {
        program->rodata->with_frames = true;
        read_offsets(target->frames, (struct frame_offsets *)&program->rodata->offsets);
    }
    read_files(target);
    bpf_map__set_max_entries(program->maps.rows, row_total ? row_total : 1);
}

void fill_stacks(struct syscalls *program) {
    size_t page = sysconf(_SC_PAGESIZE), size = (row_total * sizeof(struct unwind_row) + page - 1) / page * page;
    if (!row_total)
        return;
    struct unwind_row *rows = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(program->maps.rows), 0);
    if (rows == MAP_FAILED)
        give_up("the unwinding tables cannot be given to the kernel: %s", strerror(errno));
    __u32 first = 0;
    for (unsigned index = 0; index < file_count; index++) {
        struct elf_file *file = &files[index];
        if (!file->row_count)
            continue;
        struct mapped_file mapped = {.number = index + 1, .first_row = first, .rows = file->row_count};
        memcpy(rows + first, file->rows, file->row_count * sizeof *rows);
        first += file->row_count;
        if (bpf_map_update_elem(bpf_map__fd(program->maps.files), &file->inode, &mapped, BPF_ANY))
            give_up("the unwinding tables cannot be given to the kernel: %s", strerror(errno));
    }
    munmap(rows, size);
}

const struct elf_file *stack_files(unsigned *count) {
    *count = file_count;
    return files;
}

static void print_text(const char *text) {
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    putchar('"');
}

/* "function (file)", of a function's part too, or "file+0xstart" for one without a name. */
static void print_function(__u64 packed) {
    unsigned index = (packed >> PLACE_BITS) - 1;
    __u32 place = packed & ((1ULL << PLACE_BITS) - 1);
    char text[512];
    if (index >= file_count) {
        print_text("?");
        return;
    }
    const struct elf_file *file = &files[index];
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    const struct function *function = function_at(file, place);
    if (function && function->name)
        snprintf(text, sizeof text, "%.*s (%s)", (int)strcspn(function->name, "."), function->name, name);
    else
        snprintf(text, sizeof text, "%s+0x%x", name, function ? function->start : place);
    print_text(text);
}

static void print_stack(const struct syscalls *program, const struct stack *stack) {
    printf("{\"c\": [");
    for (unsigned index = 0; index < stack->c_frames && index < C_FRAMES; index++) {
        if (index)
            printf(", ");
        print_function(stack->c[index]);
    }
    printf("], \"python\": [");
    for (unsigned index = 0; index < stack->python_frames && index < PYTHON_FRAMES; index++) {
        const struct python_frame *frame = &stack->python[index];
        struct code_key key = {.code = frame->code, .process = stack->process, .first_line = frame->first_line};
        struct code code = {0};
        bpf_map_lookup_elem(bpf_map__fd(program->maps.codes), &key, &code);
        code.file[FILE_NAME - 1] = code.name[CODE_NAME - 1] = '\0';
        printf("%s[", index ? ", " : "");
        print_text(code.file);
        printf(", ");
        print_text(code.name);
        printf(", %u, %d]", frame->first_line, (__s32)frame->instruction);
    }
    printf("]}");
}

static void print_sites(const struct syscalls *program, const char *const *phases, unsigned phase_count) {
    struct site_key key, *previous = NULL;
    const char *comma = "";
    char buffer[16];
    for (; bpf_map_get_next_key(bpf_map__fd(program->maps.sites), previous, &key) == 0; previous = &key) {
        struct site_counts counts;
        if (bpf_map_lookup_elem(bpf_map__fd(program->maps.sites), &key, &counts) || key.phase >= phase_count)
            continue;
        const char *call = syscall_name(key.number, buffer);
        printf("%s{\"phase\": \"%s\", \"stack\": \"%llx\", \"call\": \"%s\", \"operation\": \"%s\", \"calls\": %llu, "
               "\"ns\": %llu, \"max_ns\": %llu, \"errors\": %llu, \"woke_nobody\": %llu}",
               comma, phases[key.phase], key.stack, call,
               strcmp(call, "futex") == 0 ? futex_operation_name(key.operation) : "", counts.calls, counts.ns,
               counts.max_ns, counts.errors, counts.woke_nobody);
        comma = ", ";
    }
}

static void print_edges(const struct syscalls *program, const char *const *phases, unsigned phase_count) {
    struct edge_key key, *previous = NULL;
    const char *comma = "";
    for (; bpf_map_get_next_key(bpf_map__fd(program->maps.edges), previous, &key) == 0; previous = &key) {
        struct edge_counts counts;
        if (bpf_map_lookup_elem(bpf_map__fd(program->maps.edges), &key, &counts) || key.phase >= phase_count)
            continue;
        printf("%s{\"phase\": \"%s\", \"waiter\": \"%llx\", \"waker\": \"%llx\", \"waits\": %llu, \"ns\": %llu}", comma,
               phases[key.phase], key.waiter, key.waker, counts.waits, counts.ns);
        comma = ", ";
    }
}

static void print_threads(const struct syscalls *program, const char *const *phases, unsigned phase_count) {
    struct working_key key, *previous = NULL;
    unsigned counts[PHASES] = {0};
    for (; bpf_map_get_next_key(bpf_map__fd(program->maps.working), previous, &key) == 0; previous = &key)
        if (key.phase < phase_count)
            counts[key.phase]++;
    printf("{");
    for (unsigned phase = STARTUP; phase < phase_count; phase++)
        printf("%s\"%s\": %u", phase > STARTUP ? ", " : "", phases[phase], counts[phase]);
    putchar('}');
}

void print_stacks(const struct syscalls *program, const char *const *phases, unsigned phase_count) {
    __u64 key, *previous = NULL;
    const char *comma = "";
    printf(", \"stacks\": {");
    for (; bpf_map_get_next_key(bpf_map__fd(program->maps.stacks), previous, &key) == 0; previous = &key) {
        struct stack stack;
        if (bpf_map_lookup_elem(bpf_map__fd(program->maps.stacks), &key, &stack))
            continue;
        printf("%s\"%llx\": ", comma, key);
        print_stack(program, &stack);
        comma = ", ";
    }
    printf("}, \"sites\": [");
    print_sites(program, phases, phase_count);
    printf("], \"edges\": [");
    print_edges(program, phases, phase_count);
    printf("], \"threads\": ");
    print_threads(program, phases, phase_count);
    printf(", \"with_symbols\": [");
    comma = "";
    for (const struct elf_file *file = files; file < files + file_count; file++)
        if (file->has_symbols) {
            printf("%s", comma);
            print_text(file->path);
            comma = ", ";
        }
    putchar(']');
}

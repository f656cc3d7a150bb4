/* What an ELF file says of its code: functions' names, and by .eh_frame where each function's caller is found.
 *
 * Every file has .eh_frame, stripped or not, because exceptions of C++ need it. Of its language only what compilers write
 * for the two registers that matter is understood; elsewhere the walk ends.
 */
#define _GNU_SOURCE
#include "elf_file.h"

#include "profiler.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* DWARF's numbers of registers on x86-64. */
enum { FRAME_POINTER = 6, STACK_POINTER = 7, RETURN_ADDRESS = 16 };
enum { POINTER_RELATIVE = 0x10, SIGNED_4 = 0x0b, UNSIGNED_4 = 0x03, SIGNED_8 = 0x0c, ABSOLUTE = 0x00, FORMAT = 0x0f };
enum { MAX_DEPTH = 8 };

struct cursor {
    const unsigned char *at, *end, *section;
    __u64 address; /* of the section */
};

struct state {
    __u64 reg;
    __s64 offset, kept;
    bool is_expression, is_outermost;
};

struct common {
    __u64 code_factor;
    __s64 data_factor;
    unsigned char encoding;
    bool has_data;
    struct cursor rules;
};

struct builder {
    struct elf_file *file;
    size_t row_room, function_room;
    __u64 shift; /* from an address to a place in the file */
};

static __u64 number(struct cursor *cursor, size_t size) {
    __u64 value = 0;
    if ((size_t)(cursor->end - cursor->at) < size) {
        cursor->at = cursor->end;
        return 0;
    }
    memcpy(&value, cursor->at, size);
    cursor->at += size;
    return value;
}

static __u64 uleb(struct cursor *cursor) {
    __u64 value = 0;
    for (unsigned shift = 0; cursor->at < cursor->end && shift < 64; shift += 7) {
        unsigned char byte = *cursor->at++;
        value |= (__u64)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

static __s64 sleb(struct cursor *cursor) {
    __u64 value = 0;
    unsigned shift = 0;
    while (cursor->at < cursor->end && shift < 64) {
        unsigned char byte = *cursor->at++;
        value |= (__u64)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (byte & 0x40 && shift < 64)
                value |= ~0ULL << shift;
            break;
        }
    }
    return value;
}

static __u64 pointer(struct cursor *cursor, unsigned char encoding) {
    __u64 here = cursor->address + (cursor->at - cursor->section), value;
    switch (encoding & FORMAT) {
    case SIGNED_4: value = (__s64)(__s32)number(cursor, 4); break;
    case UNSIGNED_4: value = number(cursor, 4); break;
    default: value = number(cursor, 8); break;
    }
    return (encoding & 0x70) == POINTER_RELATIVE ? value + here : value;
}

static void *grown(void *items, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return items;
    *room = *room ? *room * 2 : 4096;
    items = realloc(items, *room * size);
    if (!items)
        give_up("out of memory");
    return items;
}

static void add_function(struct builder *builder, __u64 address, __u64 size, const char *name) {
    struct elf_file *file = builder->file;
    file->functions = grown(file->functions, file->function_count, &builder->function_room, sizeof *file->functions);
    file->functions[file->function_count++] = (struct function){
        address - builder->shift, address - builder->shift + size, name ? strdup(name) : NULL};
}

static struct unwind_row row_of(const struct state *state, __u64 place) {
    struct unwind_row row = {.place = place};
    if (state->is_outermost)
        return row;
    if (state->is_expression)
        row.rule = RULE_LINKAGE_TABLE;
    else if (state->reg == STACK_POINTER)
        row.rule = RULE_STACK_POINTER;
    else if (state->reg == FRAME_POINTER)
        row.rule = RULE_FRAME_POINTER;
    if (state->offset < INT16_MIN || state->offset > INT16_MAX)
        row.rule = RULE_NONE;
    row.frame = state->offset;
    /* Kept n bytes below the caller's frame; further away than this type can say is told from "still in the register". */
    if (state->kept < -127 * 8 || state->kept > 0 || state->kept % 8)
        row.rule = RULE_NONE;
    row.kept = -state->kept / 8;
    return row;
}

static void add_row(struct builder *builder, const struct state *state, __u64 address) {
    struct elf_file *file = builder->file;
    struct unwind_row row = row_of(state, address - builder->shift);
    struct unwind_row *last = file->row_count ? &file->rows[file->row_count - 1] : NULL;
    if (last && last->place == row.place) {
        *last = row;
        return;
    }
    file->rows = grown(file->rows, file->row_count, &builder->row_room, sizeof *file->rows);
    file->rows[file->row_count++] = row;
}

/* Runs rules from `address` on; each time the place advances, what holds until there becomes a row. */
static void run(struct builder *builder, const struct common *common, struct cursor rules, struct state *state,
                const struct state *initial, __u64 *address) {
    struct state remembered[MAX_DEPTH];
    unsigned depth = 0;
    while (rules.at < rules.end) {
        unsigned char byte = *rules.at++, low = byte & 0x3f;
        __u64 reg, step = 0;
        __s64 offset;
        switch (byte & 0xc0) {
        case 0x40: step = low; goto advance;
        case 0x80:
            offset = (__s64)uleb(&rules) * common->data_factor;
            if (low == FRAME_POINTER)
                state->kept = offset;
            continue;
        case 0xc0:
            if (low == FRAME_POINTER && initial)
                state->kept = initial->kept;
            continue;
        }
        switch (byte) {
        case 0x00: break;
        case 0x01: step = 0; if (address) add_row(builder, state, *address), *address = pointer(&rules, common->encoding); break;
        case 0x02: step = number(&rules, 1); goto advance;
        case 0x03: step = number(&rules, 2); goto advance;
        case 0x04: step = number(&rules, 4); goto advance;
        case 0x05: case 0x11:
            reg = uleb(&rules);
            offset = (byte == 0x05 ? (__s64)uleb(&rules) : sleb(&rules)) * common->data_factor;
            if (reg == FRAME_POINTER)
                state->kept = offset;
            break;
        case 0x06:
            reg = uleb(&rules);
            if (reg == FRAME_POINTER && initial)
                state->kept = initial->kept;
            break;
        case 0x07:
            if (uleb(&rules) == RETURN_ADDRESS)
                state->is_outermost = true;
            break;
        case 0x08:
            if (uleb(&rules) == FRAME_POINTER)
                state->kept = 0;
            break;
        case 0x09: uleb(&rules); uleb(&rules); break;
        case 0x0a:
            if (depth < MAX_DEPTH)
                remembered[depth++] = *state;
            break;
        case 0x0b:
            if (depth)
                *state = remembered[--depth];
            break;
        case 0x0c: state->reg = uleb(&rules); state->offset = uleb(&rules); state->is_expression = false; break;
        case 0x0d: state->reg = uleb(&rules); break;
        case 0x0e: state->offset = uleb(&rules); break;
        case 0x0f:
            state->is_expression = true;
            offset = uleb(&rules);
            rules.at += offset;
            break;
        case 0x10: case 0x16:
            reg = uleb(&rules);
            offset = uleb(&rules);
            rules.at += offset;
            /* Where the frame pointer is said by an expression (after realigning the stack), the walk ends. */
            if (reg == FRAME_POINTER)
                state->kept = 1;
            break;
        case 0x12: state->reg = uleb(&rules); state->offset = sleb(&rules) * common->data_factor; break;
        case 0x13: state->offset = sleb(&rules) * common->data_factor; break;
        case 0x14: case 0x15: uleb(&rules); uleb(&rules); break;
        case 0x2e: uleb(&rules); break;
        default: state->is_outermost = true; return;
        }
        continue;
    advance:
        if (address) {
            add_row(builder, state, *address);
            *address += step * common->code_factor;
        }
    }
}

static bool parse_common(struct cursor entry, struct common *common) {
    unsigned version = number(&entry, 1);
    const char *augmentation = (const char *)entry.at;
    entry.at += strnlen(augmentation, entry.end - entry.at) + 1;
    *common = (struct common){.encoding = ABSOLUTE};
    common->code_factor = uleb(&entry);
    common->data_factor = sleb(&entry);
    if (version == 1)
        number(&entry, 1);
    else
        uleb(&entry);
    if (*augmentation == 'z') {
        struct cursor data = entry;
        __u64 length = uleb(&data);
        common->has_data = true;
        entry.at = data.at + length;
        for (const char *letter = augmentation + 1; *letter; letter++)
            if (*letter == 'R')
                common->encoding = number(&data, 1);
            else if (*letter == 'L')
                number(&data, 1);
            else if (*letter == 'P')
                pointer(&data, number(&data, 1));
    }
    common->rules = entry;
    return entry.at <= entry.end;
}

static void parse_description(struct builder *builder, const struct common *common, struct cursor entry) {
    __u64 address = pointer(&entry, common->encoding), size = pointer(&entry, common->encoding & FORMAT), end = address + size;
    if (common->has_data) {
        __u64 length = uleb(&entry);
        entry.at += length;
    }
    if (!size || entry.at > entry.end)
        return;
    struct state state = {0}, initial;
    run(builder, common, common->rules, &state, NULL, NULL);
    initial = state;
    add_function(builder, address, size, NULL);
    run(builder, common, entry, &state, &initial, &address);
    add_row(builder, &state, address);
    add_row(builder, &(struct state){.is_outermost = true}, end);
}

static void parse_eh_frame(struct builder *builder, Elf_Data *data, __u64 section_address) {
    const unsigned char *section = data->d_buf;
    struct cursor all = {section, section + data->d_size, section, section_address};
    while (all.end - all.at > 8) {
        __u64 length = number(&all, 4);
        if (!length || length == 0xffffffff || length > (__u64)(all.end - all.at))
            break;
        struct cursor entry = {all.at, all.at + length, section, section_address};
        all.at += length;
        const unsigned char *here = entry.at;
        __u32 back = number(&entry, 4);
        if (!back || back > (__u64)(here - section))
            continue;
        struct cursor origin = {here - back, all.end, section, section_address};
        __u64 origin_length = number(&origin, 4);
        origin.end = origin.at + origin_length;
        number(&origin, 4);
        struct common common;
        if (origin.end <= all.end && parse_common(origin, &common))
            parse_description(builder, &common, entry);
    }
}

static void parse_symbols(struct builder *builder, Elf *elf, Elf_Scn *section, const GElf_Shdr *header) {
    Elf_Data *data = elf_getdata(section, NULL);
    size_t count = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;
    for (size_t index = 0; index < count; index++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, index, &symbol) || !symbol.st_size || symbol.st_shndx == SHN_UNDEF)
            continue;
        int kind = GELF_ST_TYPE(symbol.st_info);
        if (kind == STT_FUNC || kind == STT_GNU_IFUNC)
            add_function(builder, symbol.st_value, symbol.st_size, elf_strptr(elf, header->sh_link, symbol.st_name));
    }
}

static int by_place(const void *left, const void *right) {
    __u32 a = ((const struct unwind_row *)left)->place, b = ((const struct unwind_row *)right)->place;
    return (a > b) - (a < b);
}

/* Rows of a function's end give way to those of the next one's beginning. */
static void sort_rows(struct elf_file *file) {
    size_t kept = 0;
    qsort(file->rows, file->row_count, sizeof *file->rows, by_place);
    for (size_t index = 0; index < file->row_count; index++) {
        struct unwind_row *row = &file->rows[index];
        if (kept && file->rows[kept - 1].place == row->place) {
            if (file->rows[kept - 1].rule == RULE_NONE)
                file->rows[kept - 1] = *row;
        } else {
            file->rows[kept++] = *row;
        }
    }
    file->row_count = kept;
}

/* By start; of functions that start at one place the named one first, and of names the shortest. */
static int by_start(const void *left, const void *right) {
    const struct function *a = left, *b = right;
    if (a->start != b->start)
        return (a->start > b->start) - (a->start < b->start);
    if (!a->name || !b->name)
        return !a->name - !b->name;
    size_t first = strlen(a->name), second = strlen(b->name);
    return first != second ? (first > second) - (first < second) : strcmp(a->name, b->name);
}

static bool find_shift(Elf *elf, __u64 *shift) {
    size_t count;
    GElf_Phdr header;
    if (elf_getphdrnum(elf, &count))
        return false;
    for (size_t index = 0; index < count; index++)
        if (gelf_getphdr(elf, index, &header) && header.p_type == PT_LOAD && header.p_flags & PF_X) {
            *shift = header.p_vaddr - header.p_offset;
            return true;
        }
    return false;
}

static void parse_all_symbols(struct builder *builder, Elf *elf) {
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) && (header.sh_type == SHT_DYNSYM || header.sh_type == SHT_SYMTAB)) {
            parse_symbols(builder, elf, section, &header);
            /* An executable that is not stripped has names for all that it does not export. */
            if (header.sh_type == SHT_SYMTAB)
                builder->file->has_symbols = true;
        }
    }
}

static void parse_unwinding(struct builder *builder, Elf *elf) {
    size_t names;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &names))
        return;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (name && strcmp(name, ".eh_frame") == 0)
            parse_eh_frame(builder, elf_getdata(section, NULL), header.sh_addr);
    }
}

/* Fills `path` with where the symbols of a file are; false if it has no build id. */
static bool find_symbols(Elf *elf, const char *directory, char *path, size_t room) {
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        GElf_Nhdr note;
        size_t name, id, next = 0;
        while (data && (next = gelf_getnote(data, next, &note, &name, &id))) {
            const unsigned char *bytes = (const unsigned char *)data->d_buf;
            if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(bytes + name, "GNU", 4) != 0)
                continue;
            size_t length = snprintf(path, room, "%s/.build-id/", directory);
            for (size_t index = 0; index < note.n_descsz && length < room; index++)
                length += snprintf(path + length, room - length, index == 0 ? "%02x/" : "%02x", bytes[id + index]);
            return length < room && (size_t)snprintf(path + length, room - length, ".debug") < room - length;
        }
    }
    return false;
}

/* Opens a file with libelf; the caller ends both. NULL if it is none. */
static Elf *open_elf(const char *path, int *descriptor) {
    *descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (*descriptor < 0)
        return NULL;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(*descriptor, ELF_C_READ, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF)
        return elf;
    elf_end(elf);
    close(*descriptor);
    return NULL;
}

/* What the file does not export has its name in a file of its own, at the same addresses. */
static void add_symbols(struct builder *builder, Elf *elf, const char *directory) {
    char path[PATH_MAX];
    int descriptor;
    Elf *symbols = find_symbols(elf, directory, path, sizeof path) ? open_elf(path, &descriptor) : NULL;
    if (!symbols)
        return;
    parse_all_symbols(builder, symbols);
    elf_end(symbols);
    close(descriptor);
}

static void parse(struct builder *builder, Elf *elf, const char *symbols) {
    if (!find_shift(elf, &builder->shift))
        return;
    parse_all_symbols(builder, elf);
    parse_unwinding(builder, elf);
    if (symbols)
        add_symbols(builder, elf, symbols);
    sort_rows(builder->file);
    qsort(builder->file->functions, builder->file->function_count, sizeof *builder->file->functions, by_start);
}

bool read_elf_file(const char *root, const char *path, const char *symbols, struct elf_file *file) {
    char whole[PATH_MAX];
    struct stat info;
    int descriptor;
    *file = (struct elf_file){0};
    snprintf(file->path, sizeof file->path, "%s", path);
    snprintf(whole, sizeof whole, "%s%s", root, path);
    Elf *elf = open_elf(whole, &descriptor);
    if (!elf)
        return false;
    if (fstat(descriptor, &info) == 0) {
        file->inode = info.st_ino;
        parse(&(struct builder){.file = file}, elf, symbols);
    }
    elf_end(elf);
    close(descriptor);
    return file->row_count > 0;
}

const struct function *function_at(const struct elf_file *file, __u32 place) {
    size_t low = 0, high = file->function_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (file->functions[middle].start <= place)
            low = middle + 1;
        else
            high = middle;
    }
    const struct function *unnamed = NULL;
    /* Named functions may have unnamed parts (…cold), and the same start several names. */
    for (size_t back = 0; low > 0 && back < 16; back++) {
        const struct function *one = &file->functions[--low];
        if (place >= one->end)
            continue;
        if (!one->name) {
            unnamed = one;
            continue;
        }
        /* Of several names for one start the first. */
        while (low > 0 && file->functions[low - 1].start == one->start && file->functions[low - 1].name)
            one = &file->functions[--low];
        return unnamed && unnamed->start != one->start ? unnamed : one;
    }
    return unnamed;
}

static bool is_named(const struct function *function, const char *name) {
    size_t length = strlen(name);
    const char *own = function->name;
    if (!own || strncmp(own, name, length) != 0)
        return false;
    return !own[length] || (own[length] == '.' && !strstr(own, ".cold") && !strstr(own, ".part"));
}

const struct function *next_function(const struct elf_file *file, const char *name, const struct function *previous) {
    const struct function *one = previous ? previous + 1 : file->functions, *end = file->functions + file->function_count;
    for (; one < end; one++)
        /* What is exported is in both tables. */
        if (is_named(one, name) && (!previous || one->start != previous->start))
            return one;
    return NULL;
}

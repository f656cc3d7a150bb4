/* Rids the page cache of a folder's files, so that a process must read from the disk what it wants of them. */
#ifndef EVICT_H
#define EVICT_H

/* Pages of the files, and those of them that are in memory all the same. */
struct residue {
    unsigned long long pages, resident;
};

/* Ends the launcher with one sentence if the pages stay, or if nobody could tell. */
struct residue evict(const char *folder);

/* Drops what no process has mapped of a file: whoever maps it next has it at another place of the memory. */
void drop_pages(const char *path);

#endif

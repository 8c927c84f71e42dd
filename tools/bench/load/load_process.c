#include "load/load_process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH_SIZE 128

/* Reads the first and second number of a file in /proc; 0 for a number that is missing. */
static void read_numbers(const char *path, uint64_t *out_first, uint64_t *out_second)
{
    FILE *file = fopen(path, "r");

    *out_first = 0;
    *out_second = 0;
    if (file == NULL)
        return;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, out_first, out_second) < 1)
        *out_first = 0;
    fclose(file);
}

/* A thread's schedstat begins with its CPU time in ns; /proc/PID/stat has ticks of 10 ms only. */
static uint64_t threads_cpu_ns(pid_t pid)
{
    char path[PATH_SIZE];
    uint64_t total_ns = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        uint64_t ran_ns;
        uint64_t waited_ns;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", (int)pid, entry->d_name);
        read_numbers(path, &ran_ns, &waited_ns);
        total_ns += ran_ns;
    }
    if (folder != NULL)
        closedir(folder);
    return total_ns;
}

struct load_usage load_process_usage(pid_t pid)
{
    char path[PATH_SIZE];
    uint64_t all_pages;
    uint64_t resident_pages;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    read_numbers(path, &all_pages, &resident_pages);
    return (struct load_usage){
        .cpu_ns = threads_cpu_ns(pid),
        .resident_bytes = resident_pages * (uint64_t)sysconf(_SC_PAGESIZE),
    };
}

uint64_t load_process_own_cpu_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

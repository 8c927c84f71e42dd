/*
 * guard_page: every exported function is called with inputs and outputs that end right before an inaccessible page. A
 * function that reads or writes one byte too many crashes the program.
 *
 * Each row names the exported functions that it calls. guard_page_test --names prints the names of all
 * rows; tests/form/guard_rows.sh compares them with what the library exports.
 */
#ifndef RATION_TESTS_GUARD_PAGE_H
#define RATION_TESTS_GUARD_PAGE_H

#include <string.h>

#include "ration/ration.h"
#include "support/unit.h"

/* Memory of so many bytes that ends at a guard page. It is zero, and lives as long as the row. */
void *guarded(size_t size);

/* The same with a copy of these bytes. */
void *guarded_copy(const void *bytes, size_t size);

#define GUARDED(type)            ((type *)guarded(sizeof(type)))
#define GUARDED_ARRAY(type, n)   ((type *)guarded((n) * sizeof(type)))
#define GUARDED_VALUE(type, ...) ((type *)guarded_copy(&(type){__VA_ARGS__}, sizeof(type)))
#define GUARDED_TEXT(text)       ((const char *)guarded_copy(text, sizeof(text)))

/* A key whose struct and whose bytes each end at a guard page. */
struct ration_key *guarded_key(const char *text);

/* A limit from text that ends at a guard page. */
struct ration_limit *guarded_limit(const char *text);

struct guard_row {
    const char *names; /* separated by spaces */
    void (*run)(void);
};

extern const struct guard_row guard_policy_rows[];
extern const size_t guard_policy_row_count;

/* Bytes that a dump wrote, and how many of them were read. */
struct guard_file {
    char bytes[1 << 16];
    size_t size, at;
};

ration_status guard_write(void *context, const void *bytes, size_t size);
ration_status guard_read(void *context, void *bytes, size_t size, size_t *out_size);

#endif

/*
 * Different spellings of paths and hosts: normalised to the same text, or refused as ambiguous.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/http/host.h"
#include "codec/http/path.h"
#include "support/unit.h"

static void assert_path(const char *target, const char *path)
{
    size_t size = strlen(target);
    char *bytes = malloc(size > 0 ? size : 1); /* exactly: sanitizers see the next byte */
    struct ration_key got = {"(ambiguous)", 11};

    memcpy(bytes, target, size);
    ration_path_normalize(bytes, size, &got);
    if (got.size != strlen(path) || memcmp(got.bytes, path, got.size) != 0)
        fail_msg("%s is %.*s, not %s", target, (int)got.size, (const char *)got.bytes, path);
    free(bytes);
}

static void ways_to_write_a_path(void **state)
{
    static const char *const rows[][2] = {
        {"/login", "/login"},
        {"/login?x=1", "/login"},
        {"/login#top", "/login"},
        {"//login", "/login"},
        {"/login//", "/login/"},
        {"/%6Cogin", "/login"},
        {"/%6cog%69n", "/login"},
        {"/login%3fx", "/login?x"},
        {"/a/../login", "/login"},
        {"/a/./../login", "/login"},
        {"/../../login", "/login"},
        {"/a/b/..", "/a/"},
        {"/a/..", "/"},
        {"/%2e%2e/login", "/login"},
        {"/a%2flogin", "/a/login"},
        {"/.login", "/.login"},
        {"/...", "/..."},
        {"/", "/"},
        {"", "/"},
        {"?x", "/"},
        {"//", "/"},
        {"/%", "/%"},
        {"/%4", "/%4"},
        {"/%zz", "/%zz"},
        {"/%25%36c", "/%6c"}, /* once, not twice */
        {"http://host/login", "/login"},
        {"http://host", "/"},
        {"http://host?x", "/"},
        {"/login;x=1", "/login"},
        {"/login;", "/login"},
        {"/a;x/login;y?z", "/a/login"},
        {"/;x/login", "/login"},
        {"/login%3Bx", "/login;x"},
        {"/a%2fb;x", "/a/b"},
        {"/..;/login", "(ambiguous)"},
        {"/a/.;x/login", "(ambiguous)"},
        {"/a/%2e%2e;x", "(ambiguous)"},
        {"/a/..%2Flogin", "(ambiguous)"},
        {"/a%2f../login", "(ambiguous)"},
        {"/a/./b%2fc", "(ambiguous)"},
        {"/a/...%2fb", "/a/.../b"},
        /* Node and urljoin() let .. remove the empty segment, nginx removes the one before it */
        {"/login//../x", "(ambiguous)"},
        {"/login//%2e%2e/x", "(ambiguous)"},
        {"/login/;/../x", "(ambiguous)"},
        {"/login/;a=1/../x", "(ambiguous)"},
        {"//../login/x", "(ambiguous)"},
        {"/x/..//login", "(ambiguous)"},
        {"/x/..//", "(ambiguous)"},
        {"/x/../", "/"},
        {"/login/.//x", "/login/x"}, /* . removes nothing, so all agree */
        {"/login//./x", "/login/x"},
        {"/login;x/../y", "/y"},
        {"/login;x/..", "/"},
        {"/login;%2f..", "(ambiguous)"}, /* / where ; means nothing */
        {"/x;a%2F../login", "(ambiguous)"},
        {"/login;a=%20b", "/login"},
        {"/login;%2", "/login"},
        {"/login\\x", "(ambiguous)"}, /* /login/x in Node */
        {"\\login", "(ambiguous)"},
        {"/login%5cx", "(ambiguous)"}, /* /login/x on Windows */
        {"/a/..%5Clogin", "(ambiguous)"},
        {"/login;\\..", "(ambiguous)"},
        {"/login;%5C..", "(ambiguous)"},
        {"/login?\\", "/login"},
        {"/login%00", "(ambiguous)"}, /* /login in C */
        {"/login;%00", "(ambiguous)"},
        {"/login%0a", "(ambiguous)"}, /* /login for ^/login$ in Python and Ruby */
        {"/log\tin", "(ambiguous)"},  /* /login in Node and urljoin() */
        {"/login%7F", "(ambiguous)"},
        {"/login x", "(ambiguous)"},
        {"/login%20x", "/login x"},
        {"/login?a b", "/login"},
        {"/caf\xc3\xa9", "/caf\xc3\xa9"},
        {"/login.", "/login."},
        {"/login../x", "/login../x"},
        {"/login%23x", "/login#x"},
        {"/login%3f/../x", "/x"},
        {"http://host?/login", "/"},
        {"http://host#/login", "/"},
        {"http://host\\login", "(ambiguous)"},
        {"*", "*"},
        {"host:80", "host:80"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_path(rows[i][0], rows[i][1]);
}

/* Normalising twice gives the same text, which lies within the input. */
static void made_once_and_for_all(void **state)
{
    static const char letters[] = "/./%2eF6ca?;";
    char text[12], again[12];
    uint64_t random = 7;
    int ambiguous_count = 0;

    (void)state;
    for (int round = 0; round < 200000; round++) {
        struct ration_key once, twice;
        size_t size = 0;

        text[size++] = '/';
        for (; size < sizeof(text); size++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[size] = letters[(random >> 33) % (sizeof(letters) - 1)];
        }
        if (!ration_path_normalize(text, size, &once)) {
            ambiguous_count++;
            continue;
        }
        assert_true(once.size >= 1 && ((const char *)once.bytes)[0] == '/');
        if (memchr(once.bytes, '%', once.size) != NULL ||
            memchr(once.bytes, '?', once.size) != NULL)
            continue; /* these would be read as escapes or a query */
        memcpy(again, once.bytes, once.size);
        assert_true(ration_path_normalize(again, once.size, &twice));
        assert_int_equal(twice.size, once.size);
        assert_memory_equal(twice.bytes, once.bytes, once.size);
    }
    assert_true(ambiguous_count > 0 && ambiguous_count < 100000);
}

static void ways_to_write_a_host(void **state)
{
    static const char *const rows[][2] = {
        {"example.com", "example.com"},
        {"EXAMPLE.com", "example.com"},
        {"example.com:80", "example.com"},
        {"example.com:", "example.com"},
        {"Example.Com.:8080", "example.com"},
        {"example.com.", "example.com"},
        {"a_b-c.example", "a_b-c.example"},
        {"192.0.2.1:80", "192.0.2.1"},
        {"[2001:DB8:0::1]:443", "[2001:db8::1]"},
        {"[::1]", "[::1]"},
        {"", ""},
        {".", NULL},
        {":80", NULL},
        {"example..com", NULL},
        {".example.com", NULL},
        {"example.com..", NULL},
        {"example.com:80:80", NULL},
        {"example.com:8o", NULL},
        {"example.com:123456", NULL},
        {"a.example, b.example", NULL},
        {"user@example.com", NULL},
        {"ex%61mple.com", NULL},
        {"[::1", NULL},
        {"[::1]x", NULL},
        {"[example.com]", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t size = strlen(rows[i][0]);
        char *bytes = malloc(size > 0 ? size : 1);
        struct ration_key got = {NULL, 0};
        memcpy(bytes, rows[i][0], size);
        if (ration_host_normalize(bytes, size, &got) != (rows[i][1] != NULL) ||
            (rows[i][1] != NULL &&
             (got.size != strlen(rows[i][1]) || memcmp(got.bytes, rows[i][1], got.size) != 0)))
            fail_msg("%s is %.*s", rows[i][0], (int)got.size, (const char *)got.bytes);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_to_write_a_path),
        cmocka_unit_test(ways_to_write_a_host),
        cmocka_unit_test(made_once_and_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

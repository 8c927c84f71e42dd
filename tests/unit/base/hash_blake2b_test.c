/* BLAKE2b as others compute it, with a key and without, for messages that end at, before and behind a block. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_blake2b.h"

static void assert_hash(const void *key, size_t key_size, const void *message, size_t size,
                        const char *wanted)
{
    uint8_t hash[RATION_BLAKE2B_SIZE];
    char text[2 * RATION_BLAKE2B_SIZE + 1];

    ration_hash_blake2b(key, key_size, message, size, hash);
    for (size_t i = 0; i < sizeof(hash); i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(text, wanted);
}

/* Keys and messages are the bytes 0, 1, 2, ...; from hashlib.blake2b(message, digest_size=32, key=key) of Python. */
static void blake2b_is_that_of_others(void **state)
{
    static const struct {
        size_t key_size, size;
        const char *hash;
    } rows[] = {
        {0, 0, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"},
        {0, 3, "3d8c3d594928271f44aad7a04b177154806867bcf918e1549c0bc16f9da2b09b"},
        {0, 127, "f2fe67ff342e21b8f45e8f2e0bcd1d9243245d50ee6c78042e9c491388791c72"},
        {0, 128, "c3582f71ebb2be66fa5dd750f80baae97554f3b015663c8be377cfcb2488c1d1"},
        {0, 129, "f7f3c46ba2564ff4c4c162da1f5b605f9f1c4aa6a20652a9f9a337c1a2f5b9c9"},
        {0, 256, "39a7eb9fedc19aabc83425c6755dd90e6f9d0c804964a1f4aaeea3b9fb599835"},
        {64, 0, "2fa9fbd9be36437de204e139e97d402bce68c828f43391608c891b5faed8a98a"},
        {64, 1, "34758b647135628297fb09c7930cd04e9528e5669112f5b1318493e14de77e55"},
        {64, 128, "6a591b356f19ca93ae2bcc7406653ff34aea53cea58bec62803e571d94944165"},
        {64, 255, "fe7b76a61787c089141f9e10fca1e5092488d89c62ea793fb2c5b1f849b4f2cb"},
        {32, 65535, "e50574ded9c3c31f351502cf81bcca7bfe8f13a2e8df609cca29b4dacc17feaf"},
    };
    uint8_t key[RATION_BLAKE2B_KEY_MAX];
    uint8_t *message = malloc(65536);

    (void)state;
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < 65536; i++)
        message[i] = (uint8_t)i;
    assert_hash(NULL, 0, "abc", 3,
                "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_hash(key, rows[i].key_size, message, rows[i].size, rows[i].hash);
    free(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blake2b_is_that_of_others)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

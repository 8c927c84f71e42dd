#include "redis/slots.h"

#include <string.h>

/* CRC16/XMODEM, four bits at a time: polynomial 0x1021, initial value 0, not reflected. */
static uint16_t crc16(const char *bytes, size_t size)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                       0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                       0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;

    for (size_t i = 0; i < size; i++) {
        unsigned byte = (unsigned char)bytes[i];

        crc = (crc << 4 ^ table[(crc >> 12 ^ byte >> 4) & 15]) & 0xffff;
        crc = (crc << 4 ^ table[(crc >> 12 ^ byte) & 15]) & 0xffff;
    }
    return (uint16_t)crc;
}

uint16_t ration_redis_slot(const char *key, size_t key_size)
{
    const char *open = key_size > 0 ? memchr(key, '{', key_size) : NULL;
    const char *close =
        open != NULL ? memchr(open + 1, '}', key_size - (size_t)(open + 1 - key)) : NULL;

    if (close != NULL && close > open + 1)
        return crc16(open + 1, (size_t)(close - open - 1)) % RATION_REDIS_SLOT_COUNT;
    return crc16(key, key_size) % RATION_REDIS_SLOT_COUNT;
}

/* Reads a number of at most max. Returns the text after it; NULL: there is no such number. */
static const char *read_number(const char *text, unsigned max, unsigned *out_number)
{
    unsigned number = 0;
    const char *cursor = text;

    while (*cursor >= '0' && *cursor <= '9' && number <= max)
        number = number * 10 + (unsigned)(*cursor++ - '0');
    *out_number = number;
    return cursor > text && number <= max ? cursor : NULL;
}

bool ration_redis_redirect_read(const char *error, struct ration_redis_redirect *out_redirect)
{
    static const char moved[] = "MOVED ", ask[] = "ASK ";
    struct ration_redis_redirect redirect = {.is_ask = strncmp(error, ask, sizeof(ask) - 1) == 0};
    const char *host, *colon, *end;
    unsigned slot;

    if (!redirect.is_ask && strncmp(error, moved, sizeof(moved) - 1) != 0)
        return false;
    host = read_number(error + (redirect.is_ask ? sizeof(ask) : sizeof(moved)) - 1,
                       RATION_REDIS_SLOT_COUNT - 1, &slot);
    if (host == NULL || *host++ != ' ')
        return false;
    colon = strrchr(host, ':'); /* the last colon: an IPv6 address has others */
    if (colon == NULL || (size_t)(colon - host) >= sizeof(redirect.address.host))
        return false;
    end = read_number(colon + 1, UINT16_MAX, &redirect.address.port);
    if (end == NULL || *end != '\0' || redirect.address.port == 0)
        return false;
    memcpy(redirect.address.host, host, (size_t)(colon - host));
    redirect.slot = (uint16_t)slot;
    *out_redirect = redirect;
    return true;
}

#include "codec/http/host.h"

#include <string.h>

#include "base/address.h"
#include "base/text.h"

#define PORT_DIGITS_MAX 5

/* Accepts nothing, a colon, or a colon and digits. */
static bool is_port(const char *text, size_t size)
{
    if (size > 1 + PORT_DIGITS_MAX || (size > 0 && text[0] != ':'))
        return false;
    for (size_t i = 1; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return true;
}

/*
 * Normalizes [address]. The printed address fits in place of the original, except for
 * 1::2:3:4:5:6:7, which is longer in RFC 5952 form.
 */
static bool normalize_address(char *host, size_t size, struct ration_key *out_host)
{
    const char *bracket = memchr(host, ']', size);
    size_t inner_size = bracket ? (size_t)(bracket - host) - 1 : 0;
    struct ration_address address;
    char text[RATION_ADDRESS_TEXT_SIZE];

    if (!bracket || !is_port(bracket + 1, size - inner_size - 2) ||
        !ration_address_parse(host + 1, inner_size, &address))
        return false;
    size_t text_size = ration_address_print(&address, text);
    if (text_size > inner_size)
        return false;
    memcpy(host + 1, text, text_size);
    host[1 + text_size] = ']';
    *out_host = (struct ration_key){host, text_size + 2};
    return true;
}

bool ration_host_normalize(char *host, size_t size, struct ration_key *out_host)
{
    size_t end = 0;

    if (size > 0 && host[0] == '[')
        return normalize_address(host, size, out_host);
    for (; end < size && host[end] != ':'; end++) {
        host[end] = ration_text_lower(host[end]);
        bool is_letter = host[end] >= 'a' && host[end] <= 'z';
        bool is_digit = host[end] >= '0' && host[end] <= '9';
        bool is_dot = host[end] == '.' && end > 0 && host[end - 1] != '.';
        if (!is_letter && !is_digit && !is_dot && host[end] != '-' && host[end] != '_')
            return false;
    }
    if (!is_port(host + end, size - end))
        return false;
    if (end > 0 && host[end - 1] == '.')
        end--;
    *out_host = (struct ration_key){host, end};
    return size == 0 || end > 0;
}

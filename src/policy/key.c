/*
 * key: builds the key under which a limit counts a request, and reads what the request costs.
 *
 *     key: user           alice                   the value itself; nothing is copied
 *     key: ip             2001:db8:1:2::/64       one canonical form for each address
 *     key: [user, ip]     al\|ice|192.0.2.1       joined so that different lists of values give different keys
 */
#include <string.h>

#include "policy/policy_internal.h"

struct composer {
    const struct ration_limit_entry *limit;
    const struct ration_policy *policy;
    const struct ration_attribute *attributes;
    size_t attribute_count;
    char *buffer;
    size_t buffer_size;
    size_t used; /* may exceed buffer_size: bytes beyond it were not written */
};

static const struct ration_key *find_value(const struct composer *composer, uint16_t name_index)
{
    const struct ration_policy_name *name = &composer->policy->names[name_index];

    for (size_t i = 0; i < composer->attribute_count; i++) {
        const struct ration_attribute *attribute = &composer->attributes[i];
        if (attribute->name.size == name->size &&
            memcmp(attribute->name.bytes, name->bytes, name->size) == 0)
            return &attribute->value;
    }
    return NULL;
}

/* Prints an address in canonical form; an IPv6 address as its network of ipv6_prefix bits. */
static bool print_address(const struct composer *composer, const struct ration_key *value,
                          char text[RATION_NETWORK_TEXT_SIZE], size_t *out_size)
{
    struct ration_network network = {.bits = (uint8_t)composer->limit->view.ipv6_prefix};

    if (!ration_address_parse(value->bytes, value->size, &network.base))
        return false;
    if (network.base.family == 6 && network.bits < 128) {
        ration_address_mask(&network.base, network.bits);
        *out_size = ration_address_network_print(&network, text);
    } else {
        *out_size = ration_address_print(&network.base, text);
    }
    return true;
}

/*
 * Reads the value of an attribute, empty if it is absent. The value of ip is printed into room in
 * canonical form.
 */
static bool read_part(const struct composer *composer, uint16_t name_index,
                      char room[RATION_NETWORK_TEXT_SIZE], struct ration_key *out_part)
{
    const struct ration_key *value = find_value(composer, name_index);

    *out_part = value ? *value : (struct ration_key){"", 0};
    if (!value || name_index != composer->policy->ip_name)
        return true;
    out_part->bytes = room;
    return print_address(composer, value, room, &out_part->size);
}

static void append_byte(struct composer *composer, char byte)
{
    if (composer->used < composer->buffer_size)
        composer->buffer[composer->used] = byte;
    composer->used++;
}

/* Stops at RATION_KEY_SIZE_MAX, so that a huge value costs no more time than the longest key. */
static void append_part(struct composer *composer, const struct ration_key *part)
{
    const char *bytes = part->bytes;

    for (size_t i = 0; i < part->size && composer->used <= RATION_KEY_SIZE_MAX; i++) {
        if (bytes[i] == '|' || bytes[i] == '\\')
            append_byte(composer, '\\');
        append_byte(composer, bytes[i]);
    }
}

static ration_status check_size(const struct composer *composer, size_t size)
{
    if (size > RATION_KEY_SIZE_MAX)
        return RATION_EINVAL;
    return size > composer->buffer_size ? RATION_ENOSPC : RATION_OK;
}

static ration_status compose_one(struct composer *composer, struct ration_key *out_key)
{
    char room[RATION_NETWORK_TEXT_SIZE];
    struct ration_key part;
    ration_status status;

    if (!read_part(composer, composer->limit->key_names[0], room, &part))
        return RATION_EINVAL;
    if (part.bytes == room) {
        status = check_size(composer, part.size);
        if (status != RATION_OK)
            return status;
        memcpy(composer->buffer, room, part.size);
        part.bytes = composer->buffer;
    }
    if (part.size > RATION_KEY_SIZE_MAX)
        return RATION_EINVAL;
    *out_key = part;
    return RATION_OK;
}

static ration_status compose_several(struct composer *composer, struct ration_key *out_key)
{
    for (size_t i = 0; i < composer->limit->view.key_count; i++) {
        char room[RATION_NETWORK_TEXT_SIZE];
        struct ration_key part;
        if (!read_part(composer, composer->limit->key_names[i], room, &part))
            return RATION_EINVAL;
        if (i > 0)
            append_byte(composer, '|');
        append_part(composer, &part);
    }
    ration_status status = check_size(composer, composer->used);
    if (status == RATION_OK)
        *out_key = (struct ration_key){composer->buffer, composer->used};
    return status;
}

ration_status ration_policy_key(const ration_policy *policy, size_t limit_index,
                                const struct ration_attribute *attributes, size_t attribute_count,
                                char *buffer, size_t buffer_size, struct ration_key *out_key)
{
    struct composer composer = {.policy = policy,
                                .attributes = attributes,
                                .attribute_count = attribute_count,
                                .buffer = buffer,
                                .buffer_size = buffer_size};

    if (limit_index >= policy->limit_count || attribute_count > RATION_ATTRIBUTES_MAX)
        return RATION_EINVAL;
    composer.limit = &policy->limits[limit_index];
    if (composer.limit->view.key_count == 0) {
        *out_key = (struct ration_key){"", 0};
        return RATION_OK;
    }
    return composer.limit->view.key_count == 1 ? compose_one(&composer, out_key)
                                               : compose_several(&composer, out_key);
}

/* Accepts decimal digits only: no sign, blank, decimal point or overflow. */
static ration_status read_digits(const struct ration_key *value, uint64_t *out_number)
{
    const char *bytes = value->bytes;
    uint64_t number = 0;

    if (value->size == 0)
        return RATION_EINVAL;
    for (size_t i = 0; i < value->size; i++) {
        if (bytes[i] < '0' || bytes[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(bytes[i] - '0'), &number))
            return RATION_EINVAL;
    }
    *out_number = number;
    return RATION_OK;
}

ration_status ration_policy_cost(const ration_policy *policy, size_t limit_index,
                                 const struct ration_attribute *attributes, size_t attribute_count,
                                 uint64_t request_cost_tokens, uint64_t *out_cost_tokens)
{
    const struct ration_limit_entry *limit;
    const struct ration_policy_name *name;

    if (limit_index >= policy->limit_count || attribute_count > RATION_ATTRIBUTES_MAX)
        return RATION_EINVAL;
    limit = &policy->limits[limit_index];
    if (limit->view.cost_kind == RATION_POLICY_COST_REQUEST) {
        *out_cost_tokens = request_cost_tokens;
        return RATION_OK;
    }
    if (limit->view.cost_kind == RATION_POLICY_COST_ATTRIBUTE) {
        name = &policy->names[limit->cost_name];
        for (size_t i = 0; i < attribute_count; i++) {
            if (attributes[i].name.size == name->size &&
                memcmp(attributes[i].name.bytes, name->bytes, name->size) == 0)
                return read_digits(&attributes[i].value, out_cost_tokens);
        }
    }
    *out_cost_tokens = limit->view.cost_tokens;
    return RATION_OK;
}

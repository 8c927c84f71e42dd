/*
 * address: parses and prints addresses of hosts and networks.
 *
 * One host has one form here: an IPv4 address in IPv6 becomes the IPv4 address, whether it is
 * mapped (::ffff:192.0.2.1), translated by NAT64 (64:ff9b::192.0.2.1) or compatible (::192.0.2.1),
 * and zones (fe80::1%eth0) are dropped. So addresses with equal bytes are the same host, and the
 * printed text is that of RFC 5952. Only a mapped 127.0.0.1 counts as this host: the other two
 * arrive in IPv6 packets, whose sender could choose them.
 *
 * Parsing is strict: four decimal numbers without leading zeros, or IPv6 as in RFC 4291. Forms that
 * other parsers interpret differently (010.0.0.1, 10.1, 0x7f.1) are rejected, so that no client
 * passes a check here under a text that is another host elsewhere.
 *
 * Nothing here allocates; text need not be terminated, and a zero byte in it is an error.
 */
#ifndef RATION_BASE_ADDRESS_H
#define RATION_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr_storage;

struct ration_address {
    uint8_t bytes[16]; /* network byte order; IPv4 in the first four, the others 0 */
    uint8_t family;    /* 4 or 6 */
};

struct ration_network {
    struct ration_address base; /* its bits beyond the first `bits` are 0 */
    uint8_t bits;               /* at most 32 or 128 */
};

/* Buffer sizes for any printed address or network, with its terminating zero. */
#define RATION_ADDRESS_TEXT_SIZE sizeof("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
#define RATION_NETWORK_TEXT_SIZE (RATION_ADDRESS_TEXT_SIZE + sizeof("/128") - 1)

/*
 * Parses a bare address, without a port. All of text must be the address. Returns false if it is
 * not one; *out_address is then untouched.
 */
bool ration_address_parse(const char *text, size_t size, struct ration_address *out_address);

/*
 * Parses an address as written in forwarding headers: bare, 192.0.2.1:443, [2001:db8::1] or
 * [2001:db8::1]:443. The port is checked (a number, or _name as in RFC 7239) and dropped.
 */
bool ration_address_parse_node(const char *text, size_t size, struct ration_address *out_address);

/*
 * Returns the address that accept() or getpeername() stored, without the port. Family 0: it is not
 * IP.
 */
struct ration_address ration_address_of_socket(const struct sockaddr_storage *peer);

/* Writes the address and a terminator. Returns the size without the terminator. */
size_t ration_address_print(const struct ration_address *address,
                            char buffer[RATION_ADDRESS_TEXT_SIZE]);

/* Clears all but the first bits. If the address has fewer bits, nothing changes. */
void ration_address_mask(struct ration_address *address, unsigned bits);

/*
 * Parses 10.0.0.0/8, 2001:db8::/32, or a bare address, which is a network of one host. A network of
 * mapped addresses (::ffff:10.0.0.0/104) becomes the IPv4 network. Returns false if it is not one,
 * with *out_network untouched and *out_reason (out_reason may be NULL) a sentence for the person
 * who wrote it, valid until the thread's next call.
 */
bool ration_address_network_parse(const char *text, size_t size, struct ration_network *out_network,
                                  const char **out_reason);

/*
 * Returns whether a network contains an address. Families do not mix: ::/0 contains no IPv4
 * address.
 */
bool ration_address_network_contains(const struct ration_network *network,
                                     const struct ration_address *address);

/*
 * Writes the network with its bits (192.0.2.1/32) and a terminator. Returns the size without the
 * terminator.
 */
size_t ration_address_network_print(const struct ration_network *network,
                                    char buffer[RATION_NETWORK_TEXT_SIZE]);

#endif

/* exchange: sends one request on a connection and waits for its answer. */
#ifndef RATION_LOAD_EXCHANGE_H
#define RATION_LOAD_EXCHANGE_H

#include "load/load_connection.h"

/* Sends all bytes. */
bool load_exchange_send(const struct load_connection *connection, const char *bytes, size_t size,
                        struct load_error *error);

/*
 * Reads until *totals has one more answer. If text is not NULL, the received bytes are copied to it,
 * truncated to text_size and always zero-terminated.
 */
bool load_exchange_receive(struct load_connection *connection, struct load_totals *totals,
                           char *text, size_t text_size, struct load_error *error);

#endif

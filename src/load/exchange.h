/*
 * exchange: one request and its answer on a connection, waited for.
 */
#ifndef RATION_LOAD_EXCHANGE_H
#define RATION_LOAD_EXCHANGE_H

#include "load/connection.h"

/* Sends bytes whole. */
bool load_exchange_send(const struct load_connection *connection, const char *bytes, size_t size,
                        struct load_error *error);

/*
 * Reads until one more answer is in *tally. If text is not NULL, what was received is written
 * to it, cut to text_size and always ended by a zero byte.
 */
bool load_exchange_receive(struct load_connection *connection, struct load_tally *tally, char *text,
                           size_t text_size, struct load_error *error);

#endif

#include "support/turns.h"

#include <sys/socket.h>
#include <time.h>

#include "support/unit.h"

static uint64_t thread_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * RATION_NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

void turns_append_many(struct ration_output *output, const char *text, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        ration_output_append_text(output, text);
}

struct turns_cost turns_serve(struct whole_server *server, enum whole_protocol protocol,
                              const struct ration_output *request, struct whole_client *client)
{
    struct whole_client beside;
    struct turns_cost cost = {0};
    size_t sent = 0;

    assert_false(request->is_failed);
    whole_client_open(server, client, protocol);
    whole_client_open(server, &beside, WHOLE_RESP);
    whole_server_turn(server);
    do {
        uint64_t began_ns;
        ssize_t now = send(client->fd, request->bytes + sent, request->size - sent, MSG_NOSIGNAL);

        sent += now > 0 ? (size_t)now : 0;
        whole_client_send(server, &beside, "PING\r\n", 6);
        began_ns = thread_ns();
        whole_server_turn(server);
        began_ns = thread_ns() - began_ns;
        cost.turn_ns_max = began_ns > cost.turn_ns_max ? began_ns : cost.turn_ns_max;
        cost.turn_count++;
        cost.busy_count += began_ns >= TURNS_BUSY_NS_MIN;
        whole_client_take(client);
        whole_client_take(&beside);
        cost.answered_beside += beside.answer_size == 7;
        whole_client_forget(&beside);
    } while (sent < request->size || whole_server_is_busy(server));
    whole_client_close(&beside);
    return cost;
}

/*
 * http_service: HTTP/1.1, served.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/credentials.h"
#include "server/http_desk.h"
#include "server/metrics.h"
#include "server/reload.h"

extern const unsigned char ration_openapi[], ration_openapi_end[];

struct ration_http_desk *ration_http_desk_create(struct ration_service *service)
{
    struct ration_http_desk *desk = calloc(1, sizeof(*desk));

    if (desk != NULL)
        desk->service = service;
    return desk;
}

void ration_http_desk_free(struct ration_http_desk *desk)
{
    if (desk == NULL)
        return;
    free(desk->fields);
    free(desk);
}

uint64_t ration_http_desk_random(struct ration_http_desk *desk)
{
    uint64_t *random = &desk->part->random;

    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* The date, written anew once a second. */
static struct ration_key date_of(struct ration_http_desk *desk)
{
    struct timespec wall;
    struct tm parts;

    clock_gettime(CLOCK_REALTIME_COARSE, &wall);
    if ((uint64_t)wall.tv_sec != desk->date_second) {
        desk->date_second = (uint64_t)wall.tv_sec;
        gmtime_r(&wall.tv_sec, &parts);
        strftime(desk->date, sizeof(desk->date), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    }
    return (struct ration_key){desk->date, strlen(desk->date)};
}

void ration_http_desk_begin(struct ration_http_desk *desk, struct ration_http_answer *answer,
                            unsigned status)
{
    struct ration_http_answer_options options = {
        .status = status,
        .minor_version = desk->request.minor_version,
        .keep_alive = desk->request.keep_alive,
        .is_head = desk->is_head,
        .date = date_of(desk),
    };

    ration_http_answer_begin(answer, desk->output, &options);
    /* Nearly all answers depend on state that the next request changes: a cache must not repeat one. */
    ration_output_append_text(desk->output, "Cache-Control: no-store\r\n");
}

void ration_http_desk_text(struct ration_http_desk *desk, unsigned status, const char *content_type,
                           const void *bytes, size_t size)
{
    struct ration_http_answer answer;

    ration_http_desk_begin(desk, &answer, status);
    ration_http_answer_body(&answer, content_type);
    ration_output_append(desk->output, bytes, size);
    ration_http_answer_end(&answer);
}

static void write_problem(struct ration_http_desk *desk, unsigned status, const char *detail,
                          const char *pointer, const char *extra_name, const char *extra_value)
{
    struct ration_problem problem = {.status = status, .detail = detail, .pointer = pointer};
    struct ration_http_answer answer;
    struct ration_json json;

    ration_http_desk_begin(desk, &answer, status);
    if (extra_name != NULL)
        ration_http_answer_header(&answer, extra_name, extra_value, strlen(extra_value));
    ration_http_answer_body(&answer, RATION_PROBLEM_CONTENT_TYPE);
    ration_json_init(&json, desk->output);
    ration_problem_write(&json, &problem);
    ration_http_answer_end(&answer);
}

void ration_http_desk_problem(struct ration_http_desk *desk, unsigned status, const char *detail,
                              const char *pointer)
{
    ration_service_add(desk->part, RATION_SERVICE_HTTP_ERRORS, 1);
    write_problem(desk, status, detail, pointer, NULL, NULL);
}

void ration_http_desk_ban(struct ration_http_desk *desk, const char *detail)
{
    write_problem(desk, 403, detail, NULL, NULL, NULL);
}

void ration_http_desk_problem_with(struct ration_http_desk *desk, unsigned status,
                                   const char *detail, const char *header_name,
                                   const char *header_value)
{
    ration_service_add(desk->part, RATION_SERVICE_HTTP_ERRORS, 1);
    write_problem(desk, status, detail, NULL, header_name, header_value);
}

static void get_index(struct ration_http_desk *desk)
{
    static const char text[] =
        "ration: may this caller do this now?\n\n"
        "  GET  /v1/check?path=/login&ip=192.0.2.7    one check, for proxies and for a look\n"
        "  POST /v1/check                             checks as JSON\n"
        "  GET  /v1/limits                            the policy\n"
        "  GET  /v1/top                               who is limited most\n"
        "  GET  /metrics                              for Prometheus\n"
        "  GET  /openapi.yaml                         all of it\n";

    ration_http_desk_text(desk, 200, "text/plain; charset=utf-8", text, sizeof(text) - 1);
}

static void get_health(struct ration_http_desk *desk)
{
    ration_http_desk_text(desk, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static void get_ready(struct ration_http_desk *desk)
{
    bool is_ready = __atomic_load_n(&desk->service->is_ready, __ATOMIC_RELAXED) &&
                    !ration_connection_is_draining(desk->connection);

    bool is_degraded = desk->part->link != NULL && !ration_gate_link_is_up(desk->part->link);
    char text[256] = "ready\n";

    if (is_degraded) { /* decisions still come, as the policy says. The error may name hosts. */
        ration_http_note_wrong_secret(desk); /* it is hidden: else a secret could be guessed here */
        snprintf(text, sizeof(text), "ready, but without Redis%s%s\n",
                 desk->access >= RATION_ACCESS_CHECK ? ": " : "",
                 desk->access >= RATION_ACCESS_CHECK ? ration_gate_link_trouble(desk->part->link)
                                                     : "");
    }
    if (is_ready)
        ration_http_desk_text(desk, 200, "text/plain; charset=utf-8", text, strlen(text));
    else
        ration_http_desk_problem(desk, 503, "The server starts or stops.", NULL);
}

struct ration_walk *ration_http_desk_walk(struct ration_http_desk *desk,
                                          const struct ration_walk_kind *kind)
{
    struct ration_http_session *session = ration_connection_state(desk->connection);
    struct ration_walk *walk =
        ration_walk_create(desk->connection, desk->service, kind, &session->walk);

    if (walk == NULL)
        ration_http_desk_problem(desk, 503, "The server is short of memory.", NULL);
    return walk;
}

static void write_walk_head(struct ration_walk *walk, const char *content_type)
{
    struct ration_http_desk *desk = ration_http_desk_resume(walk->connection);
    struct ration_http_answer answer;

    if (walk->text.is_failed) {
        ration_http_desk_problem(desk, 500,
                                 "The answer is larger than output-bytes-max, or there is no "
                                 "memory for it.",
                                 NULL);
    } else if (walk->is_failed) {
        ration_http_desk_problem(desk, 503,
                                 "The policy is reloaded too often to list it; try again.", NULL);
    } else {
        ration_http_desk_begin(desk, &answer, 200);
        ration_http_answer_sized(&answer, content_type, walk->text.size);
        walk->is_silent = desk->is_head;
    }
}

void ration_http_walk_head_json(struct ration_walk *walk, struct ration_output *output)
{
    (void)output; /* the desk's */
    write_walk_head(walk, "application/json");
}

void ration_http_walk_end(struct ration_connection *connection)
{
    ration_http_desk_end_later(ration_http_desk_resume(connection));
}

static void write_metrics_head(struct ration_walk *walk, struct ration_output *output)
{
    (void)output;
    write_walk_head(walk, "text/plain; version=0.0.4; charset=utf-8");
}

/* Keys are shown to whom /v1/top would show them. */
static void get_metrics(struct ration_http_desk *desk)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct ration_metrics_walk),
                                                 .begin = ration_metrics_begin,
                                                 .visit = ration_metrics_visit,
                                                 .rest = ration_metrics_rest,
                                                 .head = write_metrics_head,
                                                 .end = ration_http_walk_end,
                                                 .free = ration_metrics_free};
    struct ration_walk *walk = ration_http_desk_walk(desk, &kind);

    if (walk == NULL)
        return;
    ration_http_note_wrong_secret(
        desk); /* keys are hidden from it: else it could be guessed here */
    ((struct ration_metrics_walk *)walk)->shows_keys = desk->access == RATION_ACCESS_ADMIN;
    ((struct ration_metrics_walk *)walk)->top.now_ns = ration_http_desk_now(desk);
    ration_walk_start(walk);
}

static void get_openapi(struct ration_http_desk *desk)
{
    ration_http_desk_text(desk, 200, "application/yaml", ration_openapi,
                          (size_t)(ration_openapi_end - ration_openapi));
}

const struct ration_http_route ration_http_routes[] = {
    {"/v1/check", ration_http_get_check, ration_http_post_check, RATION_ACCESS_CHECK, false},
    {"/v1/peek", NULL, ration_http_post_peek, RATION_ACCESS_CHECK, false},
    {"/metrics", get_metrics, NULL, RATION_ACCESS_CHECK, true},
    {"/healthz", get_health, NULL, RATION_ACCESS_OPEN, false},
    {"/readyz", get_ready, NULL, RATION_ACCESS_OPEN, false},
    {"/v1/limits", ration_http_get_limits, NULL, RATION_ACCESS_CHECK, true},
    {"/v1/top", ration_http_get_top, NULL, RATION_ACCESS_ADMIN, true},
    {"/v1/refund", NULL, ration_http_post_refund, RATION_ACCESS_ADMIN, false},
    {"/v1/reset", NULL, ration_http_post_reset, RATION_ACCESS_ADMIN, false},
    {"/v1/block", NULL, ration_http_post_block, RATION_ACCESS_ADMIN, false},
    {"/v1/reload", NULL, ration_http_post_reload, RATION_ACCESS_ADMIN, false},
    {"/openapi.yaml", get_openapi, NULL, RATION_ACCESS_OPEN, false},
    {"/", get_index, NULL, RATION_ACCESS_OPEN, false},
};
const size_t ration_http_route_count = sizeof(ration_http_routes) / sizeof(ration_http_routes[0]);

static const struct ration_http_route *find_route(const struct ration_key *path)
{
    for (size_t i = 0; i < ration_http_route_count; i++)
        if (ration_http_is(path, ration_http_routes[i].path))
            return &ration_http_routes[i];
    return NULL;
}

/*
 * A body is read as JSON only if it says that it is: a page in somebody's browser can send any other
 * kind to this host without asking.
 */
static bool is_json(const struct ration_http_desk *desk)
{
    static const char type[] = "application/json";
    const struct ration_key *header = ration_http_header(&desk->request, "content-type");
    struct ration_key start;

    if (header == NULL || header->size < sizeof(type) - 1)
        return false;
    start = (struct ration_key){header->bytes, sizeof(type) - 1};
    return ration_http_is_any_case(&start, type) &&
           (header->size == start.size || ((const char *)header->bytes)[start.size] == ';' ||
            ((const char *)header->bytes)[start.size] == ' ');
}

/* What serves the request, by its headers alone; NULL: nothing does, and the request is answered. */
static ration_http_handler *find_handler(struct ration_http_desk *desk)
{
    const struct ration_key *method = &desk->request.method;
    const struct ration_http_route *route = find_route(&desk->request.path);
    ration_http_handler *handler = NULL;

    desk->is_head = ration_http_is(method, "HEAD");
    if (!ration_http_accept_origin(desk))
        return NULL;
    if (route == NULL) {
        ration_http_desk_problem(desk, 404, "There is no such path; GET / lists what there is.",
                                 NULL);
        return NULL;
    }
    if (!ration_http_permit(desk, route->access))
        return NULL;
    if (route->is_costly)
        ration_connection_yield(desk->connection);
    if (desk->is_head || ration_http_is(method, "GET"))
        handler = route->get;
    else if (ration_http_is(method, "POST"))
        handler = route->post;
    if (handler == NULL)
        ration_http_desk_problem_with(desk, 405, "The path is served by the methods in Allow.",
                                      "Allow",
                                      route->get == NULL    ? "POST"
                                      : route->post == NULL ? "GET, HEAD"
                                                            : "GET, HEAD, POST");
    return handler;
}

/*
 * Whether a request is refused before its body is there if the headers suffice for that: where clients without
 * a secret may do nothing that takes a body. The secret of the request does not matter: else when the answer
 * comes would reveal whether it is right.
 */
static bool refuses_early(const struct ration_http_desk *desk)
{
    return ration_credentials_without_secret(desk->service->settings,
                                             ration_connection_peer(desk->connection)) ==
           RATION_ACCESS_OPEN;
}

static bool has_body(const struct ration_http_request *request)
{
    return request->body.size > 0 || (!ration_http_is(&request->method, "GET") &&
                                      ration_http_header(request, "transfer-encoding") != NULL);
}

static void route_request(struct ration_http_desk *desk)
{
    bool keep_alive = desk->request.keep_alive;
    ration_http_handler *handler;

    /* One that is refused is then the last, whether or not its body has come by chance. */
    if (has_body(&desk->request) && refuses_early(desk))
        desk->request.keep_alive = false;
    handler = find_handler(desk);
    if (handler == NULL)
        return;
    desk->request.keep_alive = keep_alive;
    if (desk->request.body.size > 0 && !is_json(desk)) {
        ration_http_desk_problem(desk, 415,
                                 "The body must be JSON, and Content-Type say so: "
                                 "application/json.",
                                 NULL);
    } else {
        handler(desk);
    }
}

void ration_http_desk_keep_room(struct ration_http_desk *desk, size_t size_before)
{
    if (!desk->output->is_failed)
        return;
    ration_output_rewind(desk->output, size_before);
    ration_http_desk_problem(desk, 500,
                             "The answer is larger than output-bytes-max, or there is no memory "
                             "for it.",
                             NULL);
}

static void serve(struct ration_http_desk *desk)
{
    size_t size_before = desk->output->size;

    route_request(desk);
    ration_http_desk_keep_room(desk, size_before);
}

/* Refuses a request whose body is still to come, if its headers suffice for that. */
static bool refuse_by_headers(struct ration_http_desk *desk)
{
    size_t size_before = desk->output->size;

    desk->request.keep_alive = false;
    if (!refuses_early(desk) || find_handler(desk) != NULL)
        return false;
    ration_http_desk_keep_room(desk, size_before);
    ration_service_add(desk->part, RATION_SERVICE_HTTP_REQUESTS, 1);
    ration_connection_close(desk->connection);
    return true;
}

/* What cannot be read as a request: the answer is the connection's last. */
static void refuse_request(struct ration_http_desk *desk,
                           const struct ration_http_progress *progress)
{
    desk->request.keep_alive = false;
    desk->request.minor_version = 1;
    desk->is_head = false;
    ration_http_desk_problem(desk, progress->status, progress->reason, NULL);
    ration_connection_close(desk->connection);
}

struct ration_http_desk *ration_http_desk_take(struct ration_connection *connection)
{
    struct ration_loop_part *part = ration_loop_user(ration_connection_loop(connection));
    struct ration_http_desk *desk = part->http;

    desk->part = part;
    desk->connection = connection;
    desk->output = ration_connection_output(connection);
    return desk;
}

struct ration_http_desk *ration_http_desk_resume(struct ration_connection *connection)
{
    const struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_desk *desk = ration_http_desk_take(connection);

    desk->request.keep_alive = session->keep_alive && !ration_connection_is_draining(connection);
    desk->request.minor_version = session->minor_version;
    desk->is_head = session->is_head;
    return desk;
}

void ration_http_desk_end_later(struct ration_http_desk *desk)
{
    struct ration_http_session *session = ration_connection_state(desk->connection);

    (void)ration_connection_account(desk->connection, &session->body_bytes, 0);
    if (desk->request.keep_alive)
        ration_connection_resume(desk->connection);
    else
        ration_connection_close(desk->connection);
}

static size_t receive(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_desk *desk = ration_http_desk_take(connection);
    const struct ration_http_limits *limits = &desk->service->settings->http_limits;
    size_t consumed = 0;
    bool goes_on = true;

    while (goes_on && consumed < size) {
        enum ration_http_result result = ration_http_read(
            limits, &session->progress, bytes + consumed, size - consumed, &desk->request);

        if (result != RATION_HTTP_REQUEST && session->progress.has_headers &&
            refuse_by_headers(desk))
            return size;
        if (result == RATION_HTTP_REQUEST) {
            bool is_last = !desk->request.keep_alive || ration_connection_is_draining(connection);

            desk->request.keep_alive = !is_last;
            ration_service_add(desk->part, RATION_SERVICE_HTTP_REQUESTS, 1);
            session->keep_alive = !is_last;
            session->is_head = ration_http_is(&desk->request.method, "HEAD");
            session->minor_version = (uint8_t)desk->request.minor_version;
            serve(desk);
            consumed += desk->request.consumed_bytes;
            ration_connection_phase(connection, RATION_PHASE_IDLE);
            if (!desk->request.keep_alive && !ration_connection_is_held(connection)) {
                ration_connection_close(connection);
                return size;
            }
            goes_on = !ration_connection_is_full(connection);
        } else if (result == RATION_HTTP_MORE) {
            bool is_body = session->progress.phase == RATION_HTTP_BODY;
            size_t left = size - consumed;
            bool is_idle = ration_http_empty_lines_size(bytes + consumed, left) == left;

            if (is_body || !is_idle) /* empty lines do not prolong a deadline */
                ration_connection_phase(connection,
                                        is_body ? RATION_PHASE_BODY : RATION_PHASE_HEAD);
            if (session->progress.needed_bytes > 0)
                ration_connection_need(connection, session->progress.needed_bytes);
            if (session->progress.wants_continue) {
                session->progress.wants_continue = false;
                ration_output_append_text(desk->output, RATION_HTTP_CONTINUE);
            }
            goes_on = false;
        } else {
            refuse_request(desk, &session->progress);
            return size;
        }
    }
    return consumed;
}

static void refuse(struct ration_connection *connection, enum ration_ending ending)
{
    struct ration_http_desk *desk = ration_http_desk_take(connection);
    struct ration_http_progress progress = {.status = 503,
                                            .reason = "Too many connections; come back later."};

    if (ending == RATION_ENDING_HEAD_DEADLINE || ending == RATION_ENDING_BODY_DEADLINE ||
        ending == RATION_ENDING_AUTH_TIMEOUT)
        progress = (struct ration_http_progress){.status = 408,
                                                 .reason = "The request did not arrive in time."};
    else if (ending == RATION_ENDING_INPUT_MAX)
        progress =
            (struct ration_http_progress){.status = 413, .reason = "The request is too large."};
    else if (ending == RATION_ENDING_MEMORY_MAX)
        progress.reason = "The buffers of all connections exceed connection-memory-max; try again "
                          "later.";
    else if (ending == RATION_ENDING_OUTPUT_MAX)
        progress.reason = "The responses that wait for this client exceed output-bytes-max: read "
                          "responses while sending requests.";
    refuse_request(desk, &progress);
}

/* Each request carries the secret, if one is needed: until then nothing is known of the client. */
static void open_session(struct ration_connection *connection)
{
    const struct ration_service *service = ration_connection_context(connection);

    ration_connection_set_authenticated(
        connection,
        ration_credentials_without_secret(service->settings, ration_connection_peer(connection)) !=
            RATION_ACCESS_OPEN);
    ration_connection_hide_input(connection, service->settings->check_secret.is_set ||
                                                 service->settings->admin_secret.is_set);
}

static void close_session(struct ration_connection *connection, enum ration_ending ending)
{
    struct ration_http_session *session = ration_connection_state(connection);

    (void)ending;
    ration_reload_forget(session->reload);
    ration_walk_free(session->walk);
    ration_http_forget_body(session);
    ration_http_forget_later(session);
    ration_gate_editing_forget(session->editing);
}

const struct ration_protocol ration_http_protocol = {
    .name = "http",
    .state_size = sizeof(struct ration_http_session),
    .tells_phases = true,
    .open = open_session,
    .receive = receive,
    .refuse = refuse,
    .close = close_session,
};

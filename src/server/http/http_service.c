/*
 * http_service: the HTTP/1.1 protocol: reads requests, routes them, and the responses that all routes share.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/http/http_worker.h"
#include "server/ops/credentials.h"
#include "server/ops/metrics.h"
#include "server/ops/reloader.h"

extern const unsigned char ration_openapi[], ration_openapi_end[];

struct ration_http_worker *ration_http_worker_create(struct ration_service *service)
{
    struct ration_http_worker *worker = calloc(1, sizeof(*worker));

    if (worker != NULL)
        worker->service = service;
    return worker;
}

void ration_http_worker_free(struct ration_http_worker *worker)
{
    if (worker == NULL)
        return;
    free(worker->fields);
    free(worker);
}

uint64_t ration_http_worker_random(struct ration_http_worker *worker)
{
    uint64_t *random = &worker->loop_worker->random;

    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* The Date header's value, formatted once a second. */
static struct ration_key current_date(struct ration_http_worker *worker)
{
    struct timespec wall;
    struct tm parts;

    clock_gettime(CLOCK_REALTIME_COARSE, &wall);
    if ((uint64_t)wall.tv_sec != worker->date_second) {
        worker->date_second = (uint64_t)wall.tv_sec;
        gmtime_r(&wall.tv_sec, &parts);
        strftime(worker->date, sizeof(worker->date), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    }
    return (struct ration_key){worker->date, strlen(worker->date)};
}

void ration_http_worker_begin(struct ration_http_worker *worker, struct ration_http_answer *answer,
                              unsigned status)
{
    struct ration_http_answer_options options = {
        .status = status,
        .minor_version = worker->request.minor_version,
        .keep_alive = worker->request.keep_alive,
        .is_head = worker->is_head,
        .date = current_date(worker),
    };

    ration_http_answer_begin(answer, worker->output, &options);
    /* Nearly all responses depend on state that the next request changes: a cache must not repeat one. */
    ration_output_append_text(worker->output, "Cache-Control: no-store\r\n");
}

static void write_text(struct ration_http_worker *worker, unsigned status, const char *content_type,
                       const void *bytes, size_t size)
{
    struct ration_http_answer answer;

    ration_http_worker_begin(worker, &answer, status);
    ration_http_answer_body(&answer, content_type);
    ration_output_append(worker->output, bytes, size);
    ration_http_answer_end(&answer);
}

static void write_problem(struct ration_http_worker *worker, unsigned status, const char *detail,
                          const char *pointer, const char *extra_name, const char *extra_value)
{
    struct ration_problem problem = {.status = status, .detail = detail, .pointer = pointer};
    struct ration_http_answer answer;
    struct ration_json json;

    ration_http_worker_begin(worker, &answer, status);
    if (extra_name != NULL)
        ration_http_answer_header(&answer, extra_name, extra_value, strlen(extra_value));
    ration_http_answer_body(&answer, RATION_PROBLEM_CONTENT_TYPE);
    ration_json_init(&json, worker->output);
    ration_problem_write(&json, &problem);
    ration_http_answer_end(&answer);
}

void ration_http_worker_problem(struct ration_http_worker *worker, unsigned status,
                                const char *detail, const char *pointer)
{
    ration_service_add(worker->loop_worker, RATION_SERVICE_HTTP_ERRORS, 1);
    write_problem(worker, status, detail, pointer, NULL, NULL);
}

void ration_http_worker_ban(struct ration_http_worker *worker, const char *detail)
{
    write_problem(worker, 403, detail, NULL, NULL, NULL);
}

void ration_http_worker_problem_with(struct ration_http_worker *worker, unsigned status,
                                     const char *detail, const char *header_name,
                                     const char *header_value)
{
    ration_service_add(worker->loop_worker, RATION_SERVICE_HTTP_ERRORS, 1);
    write_problem(worker, status, detail, NULL, header_name, header_value);
}

static void get_index(struct ration_http_worker *worker)
{
    static const char text[] =
        "ration: may this caller do this now?\n\n"
        "  GET  /v1/check?path=/login&ip=192.0.2.7    one check, for proxies and for testing\n"
        "  POST /v1/check                             checks as JSON\n"
        "  GET  /v1/limits                            the policy\n"
        "  GET  /v1/top                               the keys that are denied most\n"
        "  GET  /metrics                              for Prometheus\n"
        "  GET  /openapi.yaml                         the description of this interface\n";

    write_text(worker, 200, "text/plain; charset=utf-8", text, sizeof(text) - 1);
}

static void get_health(struct ration_http_worker *worker)
{
    write_text(worker, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

static void get_ready(struct ration_http_worker *worker)
{
    bool is_ready = __atomic_load_n(&worker->service->is_ready, __ATOMIC_RELAXED) &&
                    !ration_connection_is_draining(worker->connection);

    bool is_degraded =
        worker->loop_worker->engine_connection != NULL &&
        !ration_engine_connection_is_connected(worker->loop_worker->engine_connection);
    char text[256] = "ready\n";

    if (is_degraded) { /* still ready: on_redis_error of the policy decides */
        /* The error may name hosts, so the client needs a secret; wrong ones count, against guessing here. */
        ration_http_count_wrong_secret(worker);
        snprintf(text, sizeof(text), "ready, but without Redis%s%s\n",
                 worker->access >= RATION_ACCESS_CHECK ? ": " : "",
                 worker->access >= RATION_ACCESS_CHECK
                     ? ration_engine_connection_last_error(worker->loop_worker->engine_connection)
                     : "");
    }
    if (is_ready)
        write_text(worker, 200, "text/plain; charset=utf-8", text, strlen(text));
    else
        ration_http_worker_problem(worker, 503, "The server is starting or shutting down.", NULL);
}

struct ration_walk *ration_http_worker_walk(struct ration_http_worker *worker,
                                            const struct ration_walk_kind *kind)
{
    struct ration_http_session *session = ration_connection_state(worker->connection);
    struct ration_walk *walk =
        ration_walk_create(worker->connection, worker->service, kind, &session->walk);

    if (walk == NULL)
        ration_http_worker_problem(worker, 503, "The server is short of memory.", NULL);
    return walk;
}

static void write_walk_head(struct ration_walk *walk, const char *content_type)
{
    struct ration_http_worker *worker = ration_http_worker_resume(walk->connection);
    struct ration_http_answer answer;

    if (walk->text.is_failed) {
        ration_http_worker_problem(worker, 500,
                                   "The answer is larger than max-output, or there is no "
                                   "memory for it.",
                                   NULL);
    } else if (walk->is_failed) {
        ration_http_worker_problem(worker, 503,
                                   "The policy is reloaded too often to list it; try again.", NULL);
    } else {
        ration_http_worker_begin(worker, &answer, 200);
        ration_http_answer_sized(&answer, content_type, walk->text.size);
        walk->is_silent = worker->is_head;
    }
}

void ration_http_walk_head_json(struct ration_walk *walk, struct ration_output *output)
{
    (void)output; /* the worker has it */
    write_walk_head(walk, "application/json");
}

void ration_http_walk_end(struct ration_connection *connection)
{
    ration_http_worker_end_async(ration_http_worker_resume(connection));
}

static void write_metrics_head(struct ration_walk *walk, struct ration_output *output)
{
    (void)output;
    write_walk_head(walk, "text/plain; version=0.0.4; charset=utf-8");
}

/* Shows keys to the clients that may use /v1/top. */
static void get_metrics(struct ration_http_worker *worker)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct ration_metrics_walk),
                                                 .begin = ration_metrics_begin,
                                                 .visit = ration_metrics_visit,
                                                 .finish = ration_metrics_finish,
                                                 .head = write_metrics_head,
                                                 .end = ration_http_walk_end,
                                                 .free = ration_metrics_free};
    struct ration_walk *walk = ration_http_worker_walk(worker, &kind);

    if (walk == NULL)
        return;
    /* The keys shown depend on the secret; wrong ones count, against guessing here. */
    ration_http_count_wrong_secret(worker);
    ((struct ration_metrics_walk *)walk)->shows_keys = worker->access == RATION_ACCESS_ADMIN;
    ((struct ration_metrics_walk *)walk)->top.now_ns = ration_http_worker_now(worker);
    ration_walk_start(walk);
}

static void get_openapi(struct ration_http_worker *worker)
{
    write_text(worker, 200, "application/yaml", ration_openapi,
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
 * A body is parsed as JSON only if Content-Type says so: a web page of another site can make a browser send
 * other types to this host without a CORS preflight request.
 */
static bool is_json(const struct ration_http_worker *worker)
{
    static const char type[] = "application/json";
    const struct ration_key *header = ration_http_header(&worker->request, "content-type");
    struct ration_key start;

    if (header == NULL || header->size < sizeof(type) - 1)
        return false;
    start = (struct ration_key){header->bytes, sizeof(type) - 1};
    return ration_http_is_any_case(&start, type) &&
           (header->size == start.size || ((const char *)header->bytes)[start.size] == ';' ||
            ((const char *)header->bytes)[start.size] == ' ');
}

/* Finds the handler by the request's headers alone. NULL: there is none, and the request is answered. */
static ration_http_handler *find_handler(struct ration_http_worker *worker)
{
    const struct ration_key *method = &worker->request.method;
    const struct ration_http_route *route = find_route(&worker->request.path);
    ration_http_handler *handler = NULL;

    worker->is_head = ration_http_is(method, "HEAD");
    if (!ration_http_accept_origin(worker))
        return NULL;
    if (route == NULL) {
        ration_http_worker_problem(worker, 404, "There is no such path; GET / lists the paths.",
                                   NULL);
        return NULL;
    }
    if (!ration_http_permit(worker, route->access))
        return NULL;
    if (route->is_costly)
        ration_connection_yield(worker->connection);
    if (worker->is_head || ration_http_is(method, "GET"))
        handler = route->get;
    else if (ration_http_is(method, "POST"))
        handler = route->post;
    if (handler == NULL)
        ration_http_worker_problem_with(worker, 405, "The path is served by the methods in Allow.",
                                        "Allow",
                                        route->get == NULL    ? "POST"
                                        : route->post == NULL ? "GET, HEAD"
                                                              : "GET, HEAD, POST");
    return handler;
}

/*
 * Whether a request that its headers disqualify is rejected before its body has arrived: where clients without
 * a secret may do nothing that takes a body. The secret of the request does not matter: else the time of the
 * response would reveal whether the secret is right.
 */
static bool rejects_early(const struct ration_http_worker *worker)
{
    return ration_credentials_without_secret(worker->service->settings,
                                             ration_connection_peer(worker->connection)) ==
           RATION_ACCESS_OPEN;
}

static bool has_body(const struct ration_http_request *request)
{
    return request->body.size > 0 || (!ration_http_is(&request->method, "GET") &&
                                      ration_http_header(request, "transfer-encoding") != NULL);
}

static void route_request(struct ration_http_worker *worker)
{
    bool keep_alive = worker->request.keep_alive;
    ration_http_handler *handler;

    /* A rejected request is then the connection's last, whether or not its body has already arrived. */
    if (has_body(&worker->request) && rejects_early(worker))
        worker->request.keep_alive = false;
    handler = find_handler(worker);
    if (handler == NULL)
        return;
    worker->request.keep_alive = keep_alive;
    if (worker->request.body.size > 0 && !is_json(worker)) {
        ration_http_worker_problem(worker, 415,
                                   "The body must be JSON, and Content-Type say so: "
                                   "application/json.",
                                   NULL);
    } else {
        handler(worker);
    }
}

void ration_http_worker_replace_failed(struct ration_http_worker *worker, size_t size_before)
{
    if (!worker->output->is_failed)
        return;
    ration_output_rewind(worker->output, size_before);
    ration_http_worker_problem(worker, 500,
                               "The answer is larger than max-output, or there is no memory "
                               "for it.",
                               NULL);
}

static void serve_request(struct ration_http_worker *worker)
{
    size_t size_before = worker->output->size;

    route_request(worker);
    ration_http_worker_replace_failed(worker, size_before);
}

/* Rejects a request whose body has not arrived, if its headers disqualify it. True: it is answered. */
static bool reject_by_headers(struct ration_http_worker *worker)
{
    size_t size_before = worker->output->size;

    worker->request.keep_alive = false;
    if (!rejects_early(worker) || find_handler(worker) != NULL)
        return false;
    ration_http_worker_replace_failed(worker, size_before);
    ration_service_add(worker->loop_worker, RATION_SERVICE_HTTP_REQUESTS, 1);
    ration_connection_close(worker->connection);
    return true;
}

/* Answers bytes that are not a valid request; the response is the connection's last. */
static void reject_request(struct ration_http_worker *worker,
                           const struct ration_http_progress *progress)
{
    worker->request.keep_alive = false;
    worker->request.minor_version = 1;
    worker->is_head = false;
    ration_http_worker_problem(worker, progress->status, progress->reason, NULL);
    ration_connection_close(worker->connection);
}

struct ration_http_worker *ration_http_worker_take(struct ration_connection *connection)
{
    struct ration_worker *loop_worker = ration_loop_user(ration_connection_loop(connection));
    struct ration_http_worker *worker = loop_worker->http;

    worker->loop_worker = loop_worker;
    worker->connection = connection;
    worker->output = ration_connection_output(connection);
    return worker;
}

struct ration_http_worker *ration_http_worker_resume(struct ration_connection *connection)
{
    const struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_worker *worker = ration_http_worker_take(connection);

    worker->request.keep_alive = session->keep_alive && !ration_connection_is_draining(connection);
    worker->request.minor_version = session->minor_version;
    worker->is_head = session->is_head;
    return worker;
}

void ration_http_worker_end_async(struct ration_http_worker *worker)
{
    struct ration_http_session *session = ration_connection_state(worker->connection);

    (void)ration_buffer_account(worker->connection, &session->body_bytes, 0);
    if (worker->request.keep_alive)
        ration_connection_resume(worker->connection);
    else
        ration_connection_close(worker->connection);
}

static size_t receive_requests(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_worker *worker = ration_http_worker_take(connection);
    const struct ration_http_limits *limits = &worker->service->settings->http_limits;
    size_t consumed = 0;
    bool continues = true;

    while (continues && consumed < size) {
        enum ration_http_result result = ration_http_read(
            limits, &session->progress, bytes + consumed, size - consumed, &worker->request);

        if (result != RATION_HTTP_REQUEST && session->progress.has_headers &&
            reject_by_headers(worker))
            return size;
        if (result == RATION_HTTP_REQUEST) {
            bool is_last = !worker->request.keep_alive || ration_connection_is_draining(connection);

            worker->request.keep_alive = !is_last;
            ration_service_add(worker->loop_worker, RATION_SERVICE_HTTP_REQUESTS, 1);
            session->keep_alive = !is_last;
            session->is_head = ration_http_is(&worker->request.method, "HEAD");
            session->minor_version = (uint8_t)worker->request.minor_version;
            serve_request(worker);
            consumed += worker->request.consumed_bytes;
            ration_connection_phase(connection, RATION_PHASE_IDLE);
            if (!worker->request.keep_alive && !ration_connection_is_paused(connection)) {
                ration_connection_close(connection);
                return size;
            }
            continues = !ration_connection_is_full(connection);
        } else if (result == RATION_HTTP_MORE) {
            bool is_body = session->progress.phase == RATION_HTTP_BODY;
            size_t left = size - consumed;
            bool is_idle = ration_http_empty_lines_size(bytes + consumed, left) == left;

            if (is_body || !is_idle) /* empty lines do not extend a timeout */
                ration_connection_phase(connection,
                                        is_body ? RATION_PHASE_BODY : RATION_PHASE_HEAD);
            if (session->progress.needed_bytes > 0)
                ration_connection_need(connection, session->progress.needed_bytes);
            if (session->progress.wants_continue) {
                session->progress.wants_continue = false;
                ration_output_append_text(worker->output, RATION_HTTP_CONTINUE);
            }
            continues = false;
        } else {
            reject_request(worker, &session->progress);
            return size;
        }
    }
    return consumed;
}

static void write_refusal(struct ration_connection *connection,
                          enum ration_close_reason close_reason)
{
    struct ration_http_worker *worker = ration_http_worker_take(connection);
    struct ration_http_progress progress = {.status = 503,
                                            .reason = "Too many connections; try again later."};

    if (close_reason == RATION_CLOSE_REASON_HEADER_TIMEOUT ||
        close_reason == RATION_CLOSE_REASON_BODY_TIMEOUT ||
        close_reason == RATION_CLOSE_REASON_AUTH_TIMEOUT)
        progress = (struct ration_http_progress){.status = 408,
                                                 .reason = "The request did not arrive in time."};
    else if (close_reason == RATION_CLOSE_REASON_MAX_INPUT)
        progress =
            (struct ration_http_progress){.status = 413, .reason = "The request is too large."};
    else if (close_reason == RATION_CLOSE_REASON_MAX_CONNECTION_MEMORY)
        progress.reason = "The buffers of all connections exceed max-connection-memory; try again "
                          "later.";
    else if (close_reason == RATION_CLOSE_REASON_MAX_OUTPUT)
        progress.reason = "The responses that wait for this client exceed max-output: read "
                          "responses while sending requests.";
    reject_request(worker, &progress);
}

/* Each request carries the secret, if one is needed: before the first the client is unauthenticated. */
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

static void close_session(struct ration_connection *connection,
                          enum ration_close_reason close_reason)
{
    struct ration_http_session *session = ration_connection_state(connection);

    (void)close_reason;
    ration_reloader_forget(session->reload);
    ration_walk_free(session->walk);
    ration_http_forget_body(session);
    ration_http_forget_async(session);
    ration_engine_admin_forget(session->admin_run);
}

const struct ration_protocol ration_http_protocol = {
    .name = "http",
    .state_size = sizeof(struct ration_http_session),
    .reports_phases = true,
    .open = open_session,
    .receive = receive_requests,
    .refuse = write_refusal,
    .close = close_session,
};

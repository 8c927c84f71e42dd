/* ration bench: reads the options, runs the load (tools/bench/load/), and reports. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "load/escape.h"
#include "load/load.h"
#include "load/report.h"
#include "server/ops/settings.h"
#include "server/ops/settings_value.h"

#define DEFAULT_COMMAND   "CL.THROTTLE {key} 15 30 60 1"
#define EVALSHA_COMMAND   "EVALSHA {sha} 1 {key} 15 30 60 1"
#define DEFAULT_PATH      "/v1/check?ip={ip}"
#define DEFAULT_RESP_PORT "127.0.0.1:6429"
#define DEFAULT_HTTP_PORT "127.0.0.1:8429"
#define DEFAULT_KEYS      "uniform:1M"
#define DEFAULT_SECONDS   10.0
#define DEFAULT_WARMUP    1.0
#define SECONDS_MAX       86400.0
#define RATE_MIN          0.001
#define RATE_MAX          1e9
#define NS_PER_SECOND     1e9

#define CLEAR_LINE "\r\033[K"

/* Strings point into the arguments. */
struct bench_options {
    struct load_plan plan;
    const char *what; /* the command or path */
    const char *keys;
    const char *json_path; /* NULL: no JSON output */
    bool is_quiet;
    bool wants_help;
};

static const char bench_help[] =
    "usage: ration bench [resp|http] [options]\n"
    "\n"
    "Sends requests to a server on this host as fast as it answers, or at a fixed\n"
    "rate, and measures. Exits with 0 if every request was answered without errors,\n"
    "1 if there were errors, 2 if the load could not run.\n"
    "\n"
    "Target:\n"
    "  --connect TARGET   ADDRESS:PORT or unix:/PATH [" DEFAULT_RESP_PORT " (resp),\n"
    "                     " DEFAULT_HTTP_PORT " (http)]\n"
    "  --allow-remote     Allow a target that is not on this host's loopback\n"
    "\n"
    "Requests. {key} is replaced by a key of twelve digits, {ip} by an IPv4 address:\n"
    "  --command TEXT     resp: space-separated command\n"
    "                     [" DEFAULT_COMMAND "]\n"
    "  --ping, --incr     resp: PING; INCR key:{key}\n"
    "  --script FILE      resp: load a Lua script; {sha} in the command is its digest\n"
    "  --evalsha          resp: " EVALSHA_COMMAND ", with --script\n"
    "  --path TEXT        http: path to request [" DEFAULT_PATH "]\n"
    "  --body TEXT        http: POST this body instead of GET\n"
    "  --header TEXT      http: \"Name: value\", up to 16 times\n"
    "  --keys WHICH       one, uniform:N, or zipf:N[:S] with exponent S (0.99)\n"
    "                     [" DEFAULT_KEYS "]\n"
    "  --seed N           Seed for choosing keys [1]\n"
    "\n"
    "Amount of load:\n"
    "  --connections N    Connections, divided equally among the threads [50]\n"
    "  --pipeline N       Unanswered requests per connection [1]\n"
    "  --threads N        Client threads [1]\n"
    "  --duration TIME    How long to measure [10s]\n"
    "  --requests N       How many requests to send instead\n"
    "  --warmup TIME      Load before measuring [1s; 0 with --requests]\n"
    "  --rate R           Open loop: R requests per second, however slow the replies;\n"
    "                     latency counts from the time a request was due\n"
    "  --idle N           Also open N connections that are not used\n"
    "\n"
    "Output:\n"
    "  --server-pid PID   Report this process' CPU time, and memory with --idle\n"
    "  --json FILE        Write the results there too; - for standard output only\n"
    "  --quiet            Show no progress line\n"
    "  --help             Print this\n"
    "\n"
    "Each option is also an environment variable: RATION_BENCH_RATE is --rate, and\n"
    "RATION_BENCH_QUIET=true is --quiet.\n"
    "\n"
    "Example: ration bench http --rate 20000 --duration 30s\n";

enum option_id {
    OPTION_CONNECT = 1000,
    OPTION_ALLOW_REMOTE,
    OPTION_COMMAND,
    OPTION_PING,
    OPTION_INCR,
    OPTION_SCRIPT,
    OPTION_EVALSHA,
    OPTION_PATH,
    OPTION_BODY,
    OPTION_HEADER,
    OPTION_KEYS,
    OPTION_SEED,
    OPTION_CONNECTIONS,
    OPTION_PIPELINE,
    OPTION_THREADS,
    OPTION_DURATION,
    OPTION_REQUESTS,
    OPTION_WARMUP,
    OPTION_RATE,
    OPTION_IDLE,
    OPTION_SERVER_PID,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP
};

/* A flag may have a value: --quiet=false. */
static const struct option option_table[] = {
    {"connect", required_argument, NULL, OPTION_CONNECT},
    {"allow-remote", optional_argument, NULL, OPTION_ALLOW_REMOTE},
    {"command", required_argument, NULL, OPTION_COMMAND},
    {"ping", optional_argument, NULL, OPTION_PING},
    {"incr", optional_argument, NULL, OPTION_INCR},
    {"script", required_argument, NULL, OPTION_SCRIPT},
    {"evalsha", optional_argument, NULL, OPTION_EVALSHA},
    {"path", required_argument, NULL, OPTION_PATH},
    {"body", required_argument, NULL, OPTION_BODY},
    {"header", required_argument, NULL, OPTION_HEADER},
    {"keys", required_argument, NULL, OPTION_KEYS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"connections", required_argument, NULL, OPTION_CONNECTIONS},
    {"pipeline", required_argument, NULL, OPTION_PIPELINE},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"duration", required_argument, NULL, OPTION_DURATION},
    {"requests", required_argument, NULL, OPTION_REQUESTS},
    {"warmup", required_argument, NULL, OPTION_WARMUP},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"idle", required_argument, NULL, OPTION_IDLE},
    {"server-pid", required_argument, NULL, OPTION_SERVER_PID},
    {"json", required_argument, NULL, OPTION_JSON},
    {"quiet", optional_argument, NULL, OPTION_QUIET},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

#define OPTION_COUNT (sizeof(option_table) / sizeof(option_table[0]) - 1)

/* --help is the last option, and no variable. */
const char *ration_command_bench_option(size_t index)
{
    return index + 1 < OPTION_COUNT ? option_table[index].name : NULL;
}

/* The values of the arguments, before they are checked together. */
struct reader {
    struct load_plan plan;
    struct load_http_parts http;
    const char *connect;
    const char *command;
    const char *script;
    const char *keys;
    const char *json_path;
    double seconds; /* 0: not given */
    double warmup;  /* below 0: not given */
    bool allows_remote;
    bool is_quiet;
    bool wants_help;
    struct load_error *error;
};

/* Numbers -------------------------------------------------------------------------------- */

static bool read_count(const struct reader *reader, const char *name, uint64_t min, uint64_t max,
                       uint64_t *out_count)
{
    char *end;
    unsigned long long count = strtoull(optarg, &end, 10);

    if (optarg[0] < '0' || optarg[0] > '9' || *end != '\0' || count < min || count > max)
        return load_fail(reader->error,
                         "%s takes a number from %" PRIu64 " to %" PRIu64 " (got '%s')", name, min,
                         max, optarg);
    *out_count = count;
    return true;
}

static bool read_small(const struct reader *reader, const char *name, uint32_t min, uint32_t max,
                       uint32_t *out_count)
{
    uint64_t count;

    if (!read_count(reader, name, min, max, &count))
        return false;
    *out_count = (uint32_t)count;
    return true;
}

static bool read_real(const struct reader *reader, const char *name, double min, double max,
                      double *out_value)
{
    char *end;
    double value = strtod(optarg, &end);

    if (end == optarg || *end != '\0' || !(value >= min && value <= max))
        return load_fail(reader->error, "%s takes a number from %g to %g (got '%s')", name, min,
                         max, optarg);
    *out_value = value;
    return true;
}

static bool read_time(const struct reader *reader, const char *name, double min_seconds,
                      double *out_seconds)
{
    uint64_t ns;
    bool is_time =
        ration_settings_value_read_time(optarg, strlen(optarg), 1, &ns, NULL) == RATION_OK;
    double seconds = is_time ? (double)ns / NS_PER_SECOND : -1;

    if (!(seconds >= min_seconds && seconds <= SECONDS_MAX))
        return load_fail(reader->error, "%s takes a time from %gs to %gs, such as 10s (got '%s')",
                         name, min_seconds, SECONDS_MAX, optarg);
    *out_seconds = seconds;
    return true;
}

/* Options -------------------------------------------------------------------------------- */

static bool add_header(struct reader *reader)
{
    if (reader->http.header_count == LOAD_HEADERS_MAX)
        return load_fail(reader->error, "--header may be given %d times", LOAD_HEADERS_MAX);
    reader->http.headers[reader->http.header_count++] = optarg;
    return true;
}

static void set_command(struct reader *reader, const char *command, bool is_wanted)
{
    if (is_wanted)
        reader->command = command;
    else if (reader->command != NULL && strcmp(reader->command, command) == 0)
        reader->command = NULL;
}

/* Reads the value of an option that is a flag; none is true. name is that of the option or the variable. */
static bool read_flag(struct reader *reader, const char *name, int option)
{
    const char *text = optarg != NULL ? optarg : "true";
    struct ration_error error;
    bool flag;

    if (ration_settings_value_read_flag(name, text, strlen(text), &flag, &error) != RATION_OK)
        return load_fail(reader->error, "%s", error.message);
    switch (option) {
    case OPTION_ALLOW_REMOTE:
        reader->allows_remote = flag;
        return true;
    case OPTION_QUIET:
        reader->is_quiet = flag;
        return true;
    case OPTION_PING:
        set_command(reader, "PING", flag);
        return true;
    case OPTION_INCR:
        set_command(reader, "INCR key:{key}", flag);
        return true;
    default:
        set_command(reader, EVALSHA_COMMAND, flag);
        return true;
    }
}

static bool read_server_pid(struct reader *reader)
{
    uint32_t pid;

    if (!read_small(reader, "--server-pid", 1, INT32_MAX, &pid))
        return false;
    reader->plan.server_pid = (pid_t)pid;
    return true;
}

static bool read_request_option(struct reader *reader, int option)
{
    switch (option) {
    case OPTION_CONNECT:
        reader->connect = optarg;
        return true;
    case OPTION_COMMAND:
        reader->command = optarg;
        return true;
    case OPTION_SCRIPT:
        reader->script = optarg;
        return true;
    case OPTION_PATH:
        reader->http.path = optarg;
        return true;
    case OPTION_BODY:
        reader->http.body = optarg;
        return true;
    case OPTION_HEADER:
        return add_header(reader);
    case OPTION_KEYS:
        reader->keys = optarg;
        return true;
    default:
        reader->json_path = optarg;
        return true;
    }
}

static bool read_option(struct reader *reader, int option)
{
    struct load_plan *plan = &reader->plan;

    switch (option) {
    case OPTION_SEED:
        return read_count(reader, "--seed", 0, UINT64_MAX, &plan->seed);
    case OPTION_CONNECTIONS:
        return read_small(reader, "--connections", 1, LOAD_CONNECTIONS_MAX,
                          &plan->connection_count);
    case OPTION_PIPELINE:
        return read_small(reader, "--pipeline", 1, LOAD_PIPELINE_MAX, &plan->pipeline_count);
    case OPTION_THREADS:
        return read_small(reader, "--threads", 1, LOAD_THREADS_MAX, &plan->thread_count);
    case OPTION_IDLE:
        return read_small(reader, "--idle", 0, LOAD_IDLE_MAX, &plan->idle_count);
    case OPTION_REQUESTS:
        return read_count(reader, "--requests", 1, UINT64_MAX / 2, &plan->request_count);
    case OPTION_DURATION:
        return read_time(reader, "--duration", 0.01, &reader->seconds);
    case OPTION_WARMUP:
        return read_time(reader, "--warmup", 0, &reader->warmup);
    case OPTION_RATE:
        return read_real(reader, "--rate", RATE_MIN, RATE_MAX, &plan->rate_per_second);
    case OPTION_SERVER_PID:
        return read_server_pid(reader);
    case OPTION_HELP:
    case 'h':
        reader->wants_help = true;
        return true;
    case OPTION_ALLOW_REMOTE:
        return read_flag(reader, "--allow-remote", option);
    case OPTION_QUIET:
        return read_flag(reader, "--quiet", option);
    case OPTION_PING:
        return read_flag(reader, "--ping", option);
    case OPTION_INCR:
        return read_flag(reader, "--incr", option);
    case OPTION_EVALSHA:
        return read_flag(reader, "--evalsha", option);
    default:
        return read_request_option(reader, option);
    }
}

/* Reads the variables of the options, which the command line overrides. */
static bool read_environment(struct reader *reader)
{
    char variable[64];

    for (size_t i = 0; ration_command_bench_option(i) != NULL; i++) {
        const struct option *option = &option_table[i];

        optarg = getenv(ration_command_variable("RATION_BENCH_", option->name, variable));
        if (optarg == NULL)
            continue;
        if (option->has_arg == optional_argument ? !read_flag(reader, variable, option->val)
                                                 : !read_option(reader, option->val))
            return false;
    }
    return true;
}

static bool reject_option(const struct reader *reader, const char *word)
{
    char names[sizeof(option_table) / sizeof(option_table[0])][32];
    const char *known[sizeof(option_table) / sizeof(option_table[0])], *nearest;
    char name[64];
    size_t count = 0;

    for (const struct option *option = option_table; option->name != NULL; option++) {
        snprintf(names[count], sizeof(names[count]), "--%s", option->name);
        known[count] = names[count];
        count++;
    }
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    nearest = ration_settings_nearest_word(name, known, count);
    return load_fail(reader->error, "unknown option '%s'; %s%s", word,
                     nearest != NULL ? "did you mean " : "see ration bench --help",
                     nearest != NULL ? nearest : "");
}

static bool read_options(struct reader *reader, int argument_count, char **arguments)
{
    int option;

    if (!read_environment(reader))
        return false;
    /* getopt_long() skips the first word, which is the name of the command here. */
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argument_count + 1, arguments - 1, ":h", option_table, NULL)) !=
           -1) {
        const char *word = arguments[optind - 2];

        if (option == ':')
            return load_fail(reader->error, "%s needs a value", word);
        if (option == '?')
            return reject_option(reader, word);
        if (!read_option(reader, option))
            return false;
    }
    return true;
}

/*
 * Reads resp or http. It may be anywhere among the options; getopt_long() has moved it to the end.
 */
static bool read_protocol(struct reader *reader, int argument_count, char **arguments)
{
    const char *word = optind <= argument_count ? arguments[optind - 1] : "resp";

    if (optind < argument_count)
        return load_fail(reader->error, "one protocol at a time: resp or http");
    if (strcmp(word, "resp") != 0 && strcmp(word, "http") != 0)
        return load_fail(reader->error, "'%s' is not a protocol: write resp or http", word);
    reader->plan.protocol = strcmp(word, "resp") == 0 ? LOAD_RESP : LOAD_HTTP;
    return true;
}

/* Combinations --------------------------------------------------------------------------- */

static bool check_protocol(const struct reader *reader)
{
    if (reader->plan.protocol == LOAD_HTTP && (reader->command != NULL || reader->script != NULL))
        return load_fail(reader->error, "commands and scripts are for resp; http has --path");
    if (reader->plan.protocol == LOAD_RESP &&
        (reader->http.path != NULL || reader->http.body != NULL || reader->http.header_count > 0))
        return load_fail(reader->error, "--path, --body and --header are for http");
    if ((reader->script != NULL) !=
        (reader->command != NULL && strstr(reader->command, "{sha}") != NULL))
        return load_fail(reader->error, "--script and {sha} (or --evalsha) must be used together");
    return true;
}

static bool set_target(struct reader *reader)
{
    const char *text = reader->connect;

    if (text == NULL)
        text = reader->plan.protocol == LOAD_RESP ? DEFAULT_RESP_PORT : DEFAULT_HTTP_PORT;
    if (!load_target_parse(text, &reader->plan.target, reader->error))
        return false;
    if (!reader->plan.target.is_loopback && !reader->allows_remote)
        return load_fail(reader->error,
                         "%s is not this host; if you may put load on it, pass --allow-remote",
                         text);
    return true;
}

static void set_times(struct reader *reader)
{
    bool by_count = reader->plan.request_count > 0;

    if (reader->seconds == 0 && !by_count)
        reader->seconds = DEFAULT_SECONDS;
    if (reader->warmup < 0)
        reader->warmup = by_count ? 0 : DEFAULT_WARMUP;
    reader->plan.duration_ns = (uint64_t)(reader->seconds * NS_PER_SECOND);
    reader->plan.warmup_ns = (uint64_t)(reader->warmup * NS_PER_SECOND);
}

static bool set_request(struct reader *reader)
{
    struct load_plan *plan = &reader->plan;
    char sha[LOAD_SHA_SIZE];

    if (plan->protocol == LOAD_HTTP) {
        reader->http.host =
            strncmp(plan->target.text, "unix:", 5) == 0 ? "localhost" : plan->target.text;
        if (reader->http.path == NULL)
            reader->http.path = DEFAULT_PATH;
        return load_request_http(&reader->http, &plan->request, reader->error);
    }
    if (reader->command == NULL)
        reader->command = DEFAULT_COMMAND;
    if (reader->script != NULL && !load_script(&plan->target, reader->script, sha, reader->error))
        return false;
    return load_request_resp(reader->command, reader->script != NULL ? sha : NULL, &plan->request,
                             reader->error);
}

static bool check_plan(const struct reader *reader)
{
    const struct load_plan *plan = &reader->plan;

    if (plan->connection_count < plan->thread_count)
        return load_fail(reader->error, "%u threads need as many connections (got %u)",
                         plan->thread_count, plan->connection_count);
    for (uint32_t i = 0; i < plan->request.hole_count; i++) {
        if (plan->request.holes[i].kind == LOAD_HOLE_IP && plan->keys.count > LOAD_IP_KEYS_MAX)
            return load_fail(reader->error, "{ip} names at most %" PRIu64 " keys",
                             LOAD_IP_KEYS_MAX);
    }
    return true;
}

/* Reads the arguments, and loads the --script into the server if there is one. */
static bool read_command_line(int argument_count, char **arguments,
                              struct bench_options *out_options, struct load_error *error)
{
    struct reader reader = {
        .plan = {.connection_count = 50, .pipeline_count = 1, .thread_count = 1, .seed = 1},
        .keys = DEFAULT_KEYS,
        .warmup = -1,
        .error = error,
    };

    if (!read_options(&reader, argument_count, arguments))
        return false;
    if (!reader.wants_help) {
        if (!read_protocol(&reader, argument_count, arguments) || !check_protocol(&reader) ||
            !set_target(&reader) || !load_keys_parse(reader.keys, &reader.plan.keys, error) ||
            !set_request(&reader) || !check_plan(&reader))
            return false;
        set_times(&reader);
    }
    *out_options = (struct bench_options){
        .plan = reader.plan,
        .what = reader.plan.protocol == LOAD_RESP ? reader.command : reader.http.path,
        .keys = reader.keys,
        .json_path = reader.json_path,
        .is_quiet = reader.is_quiet,
        .wants_help = reader.wants_help,
    };
    return true;
}

static void print_progress(void *context, uint64_t answered_count, uint64_t elapsed_ns)
{
    double seconds = (double)elapsed_ns / 1e9;

    (void)context;
    fprintf(stderr, CLEAR_LINE "%.1f s  %" PRIu64 " answers  %.0f/s", seconds, answered_count,
            seconds > 0 ? (double)answered_count / seconds : 0);
    fflush(stderr);
}

static int print_failure(const struct load_error *error)
{
    char shown[2 * sizeof(error->message)];

    fprintf(stderr, "ration bench: %s\n",
            load_escape(error->message, strlen(error->message), shown, sizeof(shown)));
    return EXIT_USAGE;
}

static bool write_report(const struct bench_options *options, const struct load_result *result,
                         struct load_error *error)
{
    const char *path = options->json_path;

    if (path == NULL || strcmp(path, "-") != 0)
        load_report_print(stdout, &options->plan, options->what, options->keys, result);
    return path == NULL || load_report_write_json(path, &options->plan, options->what,
                                                  options->keys, result, error);
}

int ration_command_bench(int argument_count, char **arguments)
{
    static struct bench_options options; /* static because it is large, like the result */
    static struct load_result result;
    struct load_error error;

    ration_command_warn_of_variables("ration bench", environ);
    if (!read_command_line(argument_count, arguments, &options, &error))
        return print_failure(&error);
    if (options.wants_help) {
        fputs(bench_help, stdout);
        return EXIT_DONE;
    }

    bool shows_progress = !options.is_quiet && isatty(STDERR_FILENO);
    bool done =
        load_run(&options.plan, shows_progress ? print_progress : NULL, NULL, &result, &error);

    if (shows_progress)
        fputs(CLEAR_LINE, stderr);
    if (!done || !write_report(&options, &result, &error))
        return print_failure(&error);
    return result.totals.error_count > 0 ? EXIT_NO : EXIT_DONE;
}

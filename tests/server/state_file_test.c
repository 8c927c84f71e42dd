/* A file saves the tokens in use across restarts; a damaged file is never treated as an empty state. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ration/ration.h"
#include "server/ops/state_file.h"
#include "support/saved_dump.h"

#define HOUR_NS UINT64_C(3600000000000)

static char folder[64], path[96], temporary[128], lock_path[128];
static struct ration_manual_clock manual;
static struct ration_clock clock_of_test;
static struct ration_engine_options options;

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/ration-state-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/state", folder);
    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
    ration_clock_manual_set(&manual, 10 * HOUR_NS);
    clock_of_test = ration_clock_manual(&manual);
    options = (struct ration_engine_options){
        .struct_size = sizeof(options), .clock = &clock_of_test, .inline_keys_max = 1000};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(temporary);
    unlink(lock_path);
    unlink(path);
    return rmdir(folder);
}

static ration_policy *a_policy(void)
{
    static const char text[] = "limits: [{name: a, key: user, rate: 2/h, burst: 2, max_keys: 100}]";
    ration_policy *policy = NULL;

    assert_int_equal(ration_policy_parse(text, strlen(text), NULL, NULL, &policy), RATION_OK);
    return policy;
}

static ration_engine *open_engine(bool *out_is_loaded)
{
    struct ration_error error = {.message = ""};
    ration_engine *engine = NULL;
    ration_status status =
        ration_state_file_open(path, &options, a_policy(), &engine, out_is_loaded, &error);

    assert_string_equal(error.message, "");
    assert_int_equal(status, RATION_OK);
    return engine;
}

static enum ration_verdict take(ration_engine *engine)
{
    const struct ration_attribute user = {RATION_KEY("user"), RATION_KEY("u")};
    struct ration_check check = {.attributes = &user, .attribute_count = 1, .cost_tokens = 1};

    ration_engine_check(engine, &check, 1, ration_engine_now(engine));
    assert_int_equal(check.status, RATION_OK);
    return check.decision.verdict;
}

static void save(ration_engine *engine)
{
    assert_int_equal(ration_state_file_save(path, engine, ration_engine_now(engine), NULL),
                     RATION_OK);
    ration_engine_free(engine);
}

static void tokens_in_use_survive_a_restart(void **state)
{
    bool is_loaded = true;
    ration_engine *engine = open_engine(&is_loaded);

    (void)state;
    assert_false(is_loaded);
    assert_int_equal(take(engine), RATION_ALLOW);
    assert_int_equal(take(engine), RATION_ALLOW);
    assert_int_equal(take(engine), RATION_DENY);
    save(engine);
    ration_clock_manual_set(&manual, 0); /* like after a boot */
    engine = open_engine(&is_loaded);
    assert_true(is_loaded);
    assert_int_equal(take(engine), RATION_DENY);
    ration_clock_manual_advance(&manual, HOUR_NS);
    assert_int_equal(take(engine), RATION_ALLOW);
    ration_engine_free(engine);
    engine = open_engine(&is_loaded); /* like after a crash: the file still exists */
    assert_true(is_loaded);
    ration_engine_free(engine);
}

static void the_file_is_private(void **state)
{
    bool is_loaded;
    struct stat status;
    mode_t mask = umask(0);
    ration_engine *engine = open_engine(&is_loaded);

    (void)state;
    assert_int_equal(symlink("/nowhere/at/all", temporary), 0); /* created by another user */
    save(engine);
    umask(mask);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(access(temporary, F_OK), -1);
}

static void change_byte(off_t offset)
{
    int file = open(path, O_RDWR);
    char byte;

    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, offset), 1);
    byte = (char)(byte ^ 1);
    assert_int_equal(pwrite(file, &byte, 1, offset), 1);
    close(file);
}

/* words: the text of the error after the path. */
static void must_refuse(const char *words)
{
    struct ration_error error = {.message = ""};
    ration_policy *policy = a_policy();
    ration_engine *engine = NULL;
    bool is_loaded = true;

    assert_int_not_equal(
        ration_state_file_open(path, &options, policy, &engine, &is_loaded, &error), RATION_OK);
    assert_null(engine);
    assert_non_null(strstr(error.message, path));
    assert_non_null(strstr(error.message, words));
    assert_int_equal(access(path, F_OK), 0);
    ration_policy_free(policy); /* the caller still owns it */
}

/* The error says how to continue, whatever is wrong with the content. */
static const char what_to_do[] =
    ". The file is left untouched; move it away to start with empty buckets";

static void every_damage_is_refused(void **state)
{
    bool is_loaded;
    ration_engine *engine = open_engine(&is_loaded);
    struct stat status;

    (void)state;
    take(engine);
    save(engine);
    assert_int_equal(stat(path, &status), 0);
    for (off_t offset = 0; offset < status.st_size; offset++) {
        change_byte(offset);
        must_refuse(what_to_do);
        change_byte(offset);
    }
    assert_int_equal(truncate(path, status.st_size - 1), 0);
    must_refuse("it is truncated");
    must_refuse(what_to_do);
    assert_int_equal(truncate(path, 0), 0);
    must_refuse("it is truncated");
    must_refuse(what_to_do);
}

static void a_file_that_others_may_write_is_refused(void **state)
{
    static const struct {
        mode_t mode;
        const char *words;
    } rows[] = {
        {0620, "others may write it (mode 0620); run chmod go-w"},
        {0602, "others may write it (mode 0602); run chmod go-w"},
        {0666, "others may write it (mode 0666)"},
    };
    bool is_loaded;

    (void)state;
    save(open_engine(&is_loaded));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(chmod(path, rows[i].mode), 0);
        must_refuse(rows[i].words);
    }
    assert_int_equal(chmod(path, 0644), 0); /* read permission is harmless */
    ration_engine_free(open_engine(&is_loaded));
    assert_true(is_loaded);
    if (geteuid() != 0)
        return; /* only root can change the owner of a file */
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    must_refuse("it belongs to user 12345, but the server runs as user 0; run chown");
    assert_int_equal(chown(path, 0, 12345), 0);
    ration_engine_free(open_engine(&is_loaded));
}

static void a_failed_save_leaves_the_previous_state(void **state)
{
    bool is_loaded;
    ration_engine *engine = open_engine(&is_loaded);
    struct ration_error error = {.message = ""};

    (void)state;
    save(engine);
    engine = open_engine(&is_loaded);
    assert_int_equal(mkdir(temporary, 0700), 0); /* a file cannot replace it */
    assert_int_equal(ration_state_file_probe(path, &error), RATION_ESTORE);
    assert_int_equal(ration_state_file_save(path, engine, 0, &error), RATION_ESTORE);
    assert_non_null(strstr(error.message, temporary));
    assert_int_equal(rmdir(temporary), 0);
    ration_engine_free(engine);
    engine = open_engine(&is_loaded);
    assert_true(is_loaded);
    ration_engine_free(engine);
}

/* A file of a later release: with its format version and a correct checksum. */
static void a_state_of_a_later_version_is_refused(void **state)
{
    static const uint8_t later[4] = {255, 0, 0, 0};
    struct saved_bytes bytes = saved_wrap(later, sizeof(later));
    int file = open(path, O_WRONLY | O_CREAT, 0600);

    (void)state;
    assert_int_equal(write(file, bytes.data, bytes.size), bytes.size);
    close(file);
    free(bytes.data);
    must_refuse("it has a format version that this release does not know");
    must_refuse(what_to_do);
}

static void a_full_disk_leaves_the_previous_state(void **state)
{
    const struct rlimit full = {.rlim_cur = 64, .rlim_max = RLIM_INFINITY};
    struct rlimit before;
    struct ration_error error = {.message = ""};
    bool is_loaded;
    ration_engine *engine = open_engine(&is_loaded);

    (void)state;
    take(engine);
    take(engine);
    save(engine);
    engine = open_engine(&is_loaded);
    signal(SIGXFSZ, SIG_IGN); /* the write fails like on a full disk */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    assert_int_equal(ration_state_file_save(path, engine, ration_engine_now(engine), &error),
                     RATION_ESTORE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(error.message, temporary));
    assert_non_null(strstr(error.message, strerror(EFBIG)));
    assert_int_equal(access(temporary, F_OK), -1);
    ration_engine_free(engine);
    engine = open_engine(&is_loaded);
    assert_true(is_loaded);
    assert_int_equal(take(engine), RATION_DENY);
    ration_engine_free(engine);
}

static void an_unwritable_path_is_reported_at_the_start(void **state)
{
    struct ration_error error = {.message = ""};

    (void)state;
    assert_int_equal(ration_state_file_probe("/nowhere/at/all", &error), RATION_ESTORE);
    assert_non_null(strstr(error.message, "No such file or directory"));
    assert_int_equal(ration_state_file_probe(folder, &error), RATION_ESTORE);
    assert_int_equal(ration_state_file_probe(path, NULL), RATION_OK);
    assert_int_equal(access(temporary, F_OK), -1);
}

static void must_be_in_use(long by)
{
    struct ration_error error = {.message = ""};
    char owner[64];
    int lock;

    snprintf(owner, sizeof(owner), "in use by another server (process %ld)", by);
    assert_int_equal(ration_state_file_lock(path, &lock, &error), RATION_ESTORE);
    assert_non_null(strstr(error.message, owner));
    assert_non_null(strstr(error.message, path));
}

static void two_servers_cannot_have_one_file(void **state)
{
    bool is_loaded;
    ration_engine *engine;
    int lock;

    (void)state;
    assert_int_equal(ration_state_file_lock(path, &lock, NULL), RATION_OK);
    must_be_in_use(getpid());
    engine = open_engine(&is_loaded);
    save(engine); /* which replaces the file */
    must_be_in_use(getpid());
    ration_state_file_unlock(lock);
    assert_int_equal(ration_state_file_lock(path, &lock, NULL), RATION_OK);
    ration_state_file_unlock(lock);
}

static void a_server_that_is_killed_leaves_the_file_free(void **state)
{
    int pipes[2], lock;
    char byte;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        if (ration_state_file_lock(path, &lock, NULL) != RATION_OK || write(pipes[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    must_be_in_use(child);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(ration_state_file_lock(path, &lock, NULL), RATION_OK);
    ration_state_file_unlock(lock);
    close(pipes[0]);
    close(pipes[1]);
}

static void an_unwritable_folder_is_named(void **state)
{
    struct ration_error error = {.message = ""};
    int lock = -1;

    (void)state;
    assert_int_equal(ration_state_file_lock("/proc/state", &lock, &error), RATION_ESTORE);
    assert_non_null(strstr(error.message, "cannot create /proc/state.lock"));
    assert_non_null(strstr(error.message, "must be writable"));
    assert_int_equal(lock, -1);
    /* a link is not followed, so that no file is created elsewhere */
    assert_int_equal(symlink("/tmp/ration-elsewhere", lock_path), 0);
    assert_int_equal(ration_state_file_lock(path, &lock, &error), RATION_ESTORE);
    assert_non_null(strstr(error.message, "is not a regular file"));
}

/* Anything that is not a regular file is refused at once: opening a FIFO could wait for its other end. */
static void only_a_regular_file_is_used(void **state)
{
    struct ration_error error = {.message = ""};
    int lock = -1;

    (void)state;
    assert_int_equal(mkfifo(lock_path, 0600), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(10); /* kills a test that hangs */
    assert_int_equal(ration_state_file_lock(path, &lock, &error), RATION_ESTORE);
    assert_non_null(strstr(error.message, lock_path));
    assert_non_null(strstr(error.message, "is not a regular file"));
    assert_int_equal(lock, -1);
    must_refuse("is not a regular file");
    alarm(0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tokens_in_use_survive_a_restart),
        TEST(the_file_is_private),
        TEST(every_damage_is_refused),
        TEST(a_file_that_others_may_write_is_refused),
        TEST(a_failed_save_leaves_the_previous_state),
        TEST(a_state_of_a_later_version_is_refused),
        TEST(a_full_disk_leaves_the_previous_state),
        TEST(an_unwritable_path_is_reported_at_the_start),
        TEST(two_servers_cannot_have_one_file),
        TEST(a_server_that_is_killed_leaves_the_file_free),
        TEST(an_unwritable_folder_is_named),
        TEST(only_a_regular_file_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

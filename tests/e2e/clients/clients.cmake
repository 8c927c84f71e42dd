# Clients of Redis, unmodified.

find_program(REDIS_CLI redis-cli REQUIRED)
ration_e2e_test(e2e_redis_cli clients/redis_cli_test.py ARGUMENTS
    ${PROJECT_SOURCE_DIR}/tests/rows/throttle.rows)

# `ration serve --redis` with a real redis-server, in operation and in failure.
ration_e2e_test(e2e_redis_rows rows/rows_test.py BASIC ARGUMENTS $<TARGET_FILE:rows_served_test> --redis
    ${rows}/token_bucket.rows ${rows}/interval.rows ${rows}/windows.rows ${rows}/burst_reserve.rows
    ${rows}/blocks.rows ${rows}/change.rows ${rows}/queue.rows ${rows}/reservations.rows)
ration_e2e_test(e2e_redis_rows_lie_control rows/rows_test.py BASIC ARGUMENTS
    $<TARGET_FILE:rows_served_test> --redis --lie ${rows}/token_bucket.rows)
if(TEST e2e_redis_rows_lie_control)
    set_tests_properties(e2e_redis_rows_lie_control PROPERTIES
        PASS_REGULAR_EXPRESSION "http answered .'allow', 5, .* rows, 0 wrong, [1-9][0-9]* answered otherwise")
endif()
ration_e2e_test(e2e_redis_cell redis/cell_test.py BASIC ARGUMENTS ${rows}/throttle.rows)
ration_e2e_test(e2e_redis_async redis/async_test.py BASIC)
ration_e2e_test(e2e_redis_failures redis/failure_test.py)
ration_e2e_test(e2e_redis_url redis/url_test.py BASIC)
ration_e2e_test(e2e_redis_nodes redis/nodes_test.py)
ration_e2e_test(e2e_redis_nodes_control redis/nodes_test.py ARGUMENTS --lie)
if(TEST e2e_redis_nodes_control)
    set_tests_properties(e2e_redis_nodes_control PROPERTIES
        PASS_REGULAR_EXPRESSION "admitted: 2001, where 2000 was expected")
endif()

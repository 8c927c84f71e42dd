# Rows (R9) through the engine and through every protocol of a server; with two controls.

add_executable(rows_served_test ${PROJECT_SOURCE_DIR}/tests/rows/rows.c rows/rows_served_test.c)
target_include_directories(rows_served_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
ration_module_includes(rows_served_test base)
target_link_libraries(rows_served_test PRIVATE libration_static ration_flags)

set(rows ${PROJECT_SOURCE_DIR}/tests/rows)
ration_e2e_test(e2e_rows rows/rows_test.py BASIC ARGUMENTS $<TARGET_FILE:rows_served_test>
    ${rows}/token_bucket.rows ${rows}/interval.rows ${rows}/windows.rows ${rows}/burst_reserve.rows
    ${rows}/blocks.rows ${rows}/change.rows ${rows}/queue.rows ${rows}/reservations.rows)
ration_e2e_test(e2e_rows_control rows/rows_test.py BASIC ARGUMENTS $<TARGET_FILE:rows_served_test>
    ${rows}/wrong.rows)
ration_e2e_test(e2e_rows_lie_control rows/rows_test.py BASIC ARGUMENTS
    $<TARGET_FILE:rows_served_test> --lie ${rows}/token_bucket.rows)
if(TEST e2e_rows_control)
    set_tests_properties(e2e_rows_control PROPERTIES
        PASS_REGULAR_EXPRESSION "wrong.rows:4: engine: expected allow remaining 4.*2 rows, 1 wrong, 0 answered")
    set_tests_properties(e2e_rows_lie_control PROPERTIES
        PASS_REGULAR_EXPRESSION "http answered .'allow', 5, .*65 rows, 0 wrong, [1-9][0-9]* answered otherwise")
endif()

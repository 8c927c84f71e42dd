# Clients of Redis, unmodified.

find_program(REDIS_CLI redis-cli REQUIRED)
ration_e2e_test(e2e_redis_cli clients/redis_cli_test.py ARGUMENTS
    ${PROJECT_SOURCE_DIR}/tests/rows/throttle.rows)
ration_e2e_test(e2e_redis_py clients/redis_py_test.py)
ration_e2e_test(e2e_hostile_text clients/hostile_text_test.py)

# Those for Node come from npm, in the versions of package-lock.json, into the build folder.
set(node_packages ${CMAKE_CURRENT_BINARY_DIR}/node_packages)
ration_e2e_test(e2e_node clients/node_test.py ARGUMENTS ${node_packages})
if(TEST e2e_node)
    add_test(NAME e2e_node_packages COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/clients/install_clients.sh ${node_packages})
    set_tests_properties(e2e_node_packages PROPERTIES FIXTURES_SETUP node_packages TIMEOUT 300)
    set_tests_properties(e2e_node PROPERTIES FIXTURES_REQUIRED node_packages)
endif()

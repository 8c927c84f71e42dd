# Tests of `ration serve` as a whole, and of its parts that need no connection.

foreach(name settings_test log_test state_file_test)
    ration_test(${name} SOURCES server/${name}.c LIBRARIES ration_codec ration_server)
endforeach()

function(ration_serve_test name script)
    add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/server/${script}
        $<TARGET_FILE:ration_cli> ${ARGN})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()

ration_serve_test(serve serve.sh)
if(NOT RATION_SANITIZE AND NOT RATION_COVERAGE AND CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    ration_serve_test(serve_start_time start_time.sh)
    set_tests_properties(serve_start_time PROPERTIES RUN_SERIAL TRUE)
endif()

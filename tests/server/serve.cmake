# Tests of `ration serve` as a whole, and of its parts that need no connection.

foreach(name settings_test log_test state_file_test)
    ration_test(${name} SOURCES server/${name}.c LIBRARIES ration_proto ration_server)
endforeach()

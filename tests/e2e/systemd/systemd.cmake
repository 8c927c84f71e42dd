# The unit for systemd, as far as it can be tested without systemd.
if(NOT RATION_SANITIZE) # sanitizers need other system calls
    ration_e2e_test(e2e_systemd_unit systemd/unit_test.py ARGUMENTS
        ${PROJECT_SOURCE_DIR}/dist/systemd/ration.service.in)
endif()

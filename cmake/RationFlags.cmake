# Compiler flags that every target of the project shares, as one interface target.

add_library(ration_flags INTERFACE)

target_compile_options(ration_flags INTERFACE
    -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
    -Wundef -Wvla -Wwrite-strings -Werror
    -fvisibility=hidden -fno-common -fno-omit-frame-pointer)
target_compile_definitions(ration_flags INTERFACE _GNU_SOURCE)

option(RATION_COVERAGE "Measure line and branch coverage" OFF)
option(RATION_COVERAGE_OF_ALL "... of every module, by every test, not of core alone" OFF)
option(RATION_FUZZ "Build the fuzz targets with libFuzzer" OFF)
set(RATION_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

if(RATION_SANITIZE)
    target_compile_options(ration_flags INTERFACE
        -fsanitize=${RATION_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(ration_flags INTERFACE -fsanitize=${RATION_SANITIZE})
endif()
if(RATION_FUZZ)
    target_compile_options(ration_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(RATION_COVERAGE)
    target_compile_options(ration_flags INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(ration_flags INTERFACE --coverage)
endif()

include(RationHarden)

# Random tests run in full where they are fast, and for a hundredth of that elsewhere.
if(RATION_SANITIZE OR RATION_COVERAGE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_definitions(ration_flags INTERFACE RATION_TESTS_SHORT)
endif()

# `ration serve` under attack. Those that measure time or count sockets run alone.

# ration_attack_test(NAME [BASIC] [SERIAL] [ARGUMENTS arg...])
function(ration_attack_test name)
    cmake_parse_arguments(arg "BASIC;SERIAL" "" "ARGUMENTS" ${ARGN})
    set(basic "")
    if(arg_BASIC)
        set(basic BASIC)
    endif()
    ration_e2e_test(attack_${name} attack/${name}_test.py ${basic} TIMEOUT 180
        ARGUMENTS ${arg_ARGUMENTS})
    if(arg_SERIAL AND TEST attack_${name})
        set_tests_properties(attack_${name} PROPERTIES RUN_SERIAL TRUE)
    endif()
endfunction()

ration_attack_test(smuggling BASIC)
ration_attack_test(bombs SERIAL)
ration_attack_test(slow SERIAL)
ration_attack_test(files SERIAL)
ration_attack_test(leaving)
ration_attack_test(crossing BASIC)
ration_attack_test(auth BASIC)
ration_attack_test(keys BASIC)

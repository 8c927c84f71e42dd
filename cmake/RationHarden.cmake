# What limits the damage of a memory error: flags of every object, library and program.
#
#     stack protector       a canary in each function that has an array or gives out a local's address
#     _FORTIFY_SOURCE       memcpy(), snprintf() and others check the size of the destination
#     stack clash           a large frame cannot jump over the guard page
#     CET, BTI              indirect branches and returns go only where they should (where the CPU can)
#     PIE, PIC              everything is loaded at a random address
#     RELRO, BIND_NOW       tables of function pointers are read-only once the program runs
#     noexecstack           the stack is not executable
#
# tests/form/harden.sh inspects what is built. Sanitizers replace these checks and need their own flags, and
# _FORTIFY_SOURCE works only with optimisation.

option(RATION_HARDEN "Compile and link with the compiler's protections" ON)

include(CheckCCompilerFlag)
include(CheckLinkerFlag)
include(CheckPIESupported)

check_pie_supported(LANGUAGES C) # else CMAKE_POSITION_INDEPENDENT_CODE would compile PIE and not link it
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Adds each flag that the compiler has: which there are depends on the compiler and the processor.
function(ration_harden_compile)
    foreach(flag IN LISTS ARGN)
        string(MAKE_C_IDENTIFIER "RATION_HAS${flag}" has)
        check_c_compiler_flag(${flag} ${has})
        if(${has})
            target_compile_options(ration_flags INTERFACE ${flag})
        endif()
    endforeach()
endfunction()

function(ration_harden_link)
    foreach(flag IN LISTS ARGN)
        string(MAKE_C_IDENTIFIER "RATION_HAS${flag}" has)
        check_linker_flag(C ${flag} ${has})
        if(${has})
            target_link_options(ration_flags INTERFACE ${flag})
        endif()
    endforeach()
endfunction()

if(RATION_HARDEN AND NOT RATION_SANITIZE)
    ration_harden_compile(-fstack-protector-strong -fstack-clash-protection)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
        ration_harden_compile(-mbranch-protection=standard)
    else()
        ration_harden_compile(-fcf-protection=full)
    endif()
    # The C library's start files lack the mark for shadow stacks on some systems (Debian 12), and one object
    # without it takes it from the whole program; they call and return like all others.
    ration_harden_link(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,shstk)
    if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
        # Level 3 also knows sizes that are computed at run time. A compiler without it takes it as 2.
        target_compile_options(ration_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
    endif()
endif()

# ration_module(NAME USES other... SOURCES file... [OPTIONS flag...])
#
# One module of the architecture: the folder src/NAME, compiled with include paths for itself,
# for the public headers, and for the modules it USES. Nothing else is found, so an include that
# points down or sideways does not compile.
#
# Headers are included as "module/file.h". Each module therefore gets a folder of its own in the
# build tree that holds nothing but a link with its name to its sources.

function(ration_module name)
    cmake_parse_arguments(arg "" "" "USES;SOURCES;OPTIONS" ${ARGN})
    list(TRANSFORM arg_SOURCES PREPEND src/${name}/)
    add_library(ration_${name} OBJECT ${arg_SOURCES})
    ration_module_includes(ration_${name} ${name} ${arg_USES})
    target_link_libraries(ration_${name} PRIVATE ration_flags)
    target_compile_options(ration_${name} PRIVATE ${arg_OPTIONS})
    set_target_properties(ration_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# Lets a target include the headers of the modules named, and the public ones.
function(ration_module_includes target)
    foreach(module IN LISTS ARGN)
        set(root ${PROJECT_BINARY_DIR}/layers/${module})
        if(NOT EXISTS ${root}/${module})
            file(MAKE_DIRECTORY ${root})
            file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${module} ${root}/${module} SYMBOLIC)
        endif()
        target_include_directories(${target} PRIVATE ${root})
    endforeach()
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
endfunction()

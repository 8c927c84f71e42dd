# ration_module(NAME [FOLDER folder [AS path]] USES other... SOURCES file... [OPTIONS flag...])
#
# One module of the architecture: a folder of src (src/NAME, or FOLDER), compiled with include paths for itself,
# for the public headers, and for the modules it USES. Nothing else is found, so an include that
# points down or sideways does not compile.
#
# Headers are included as "module/file.h", by the folder's path below src or AS another path. Each module therefore gets
# a folder of its own in the build tree that holds nothing but a link with that path to its sources.
#
# ration_group(NAME module...) gives several modules one name, to use and to link all of them.

function(ration_module name)
    cmake_parse_arguments(arg "" "FOLDER;AS" "USES;SOURCES;OPTIONS" ${ARGN})
    if(NOT arg_FOLDER)
        set(arg_FOLDER ${name})
    endif()
    if(NOT arg_AS)
        set(arg_AS ${arg_FOLDER})
    endif()
    set(root ${PROJECT_BINARY_DIR}/layers/${name})
    get_filename_component(parent ${root}/${arg_AS} DIRECTORY)
    file(MAKE_DIRECTORY ${parent})
    if(IS_SYMLINK ${root}/${arg_AS}) # of an earlier tree, perhaps
        file(REMOVE ${root}/${arg_AS})
    endif()
    if(NOT EXISTS ${root}/${arg_AS})
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${arg_FOLDER} ${root}/${arg_AS} SYMBOLIC)
    endif()
    list(TRANSFORM arg_SOURCES PREPEND src/${arg_FOLDER}/)
    add_library(ration_${name} OBJECT ${arg_SOURCES})
    ration_module_includes(ration_${name} ${name} ${arg_USES})
    target_link_libraries(ration_${name} PRIVATE ration_flags)
    target_compile_options(ration_${name} PRIVATE ${arg_OPTIONS})
    set_target_properties(ration_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    set_property(GLOBAL APPEND PROPERTY RATION_MODULES ${name})
    set_property(GLOBAL PROPERTY RATION_PATH_${name} ${arg_AS})
    set(uses "")
    foreach(used IN LISTS arg_USES)
        get_property(members GLOBAL PROPERTY RATION_GROUP_${used})
        list(APPEND uses ${members})
        if(NOT members)
            list(APPEND uses ${used})
        endif()
    endforeach()
    set_property(GLOBAL PROPERTY RATION_USES_${name} ${uses})
endfunction()

function(ration_group name)
    set_property(GLOBAL PROPERTY RATION_GROUP_${name} ${ARGN})
    add_library(ration_${name} INTERFACE)
    foreach(module IN LISTS ARGN)
        target_sources(ration_${name} INTERFACE $<TARGET_OBJECTS:ration_${module}>)
    endforeach()
endfunction()

# Lets a target include the headers of the modules and groups named, and the public ones.
function(ration_module_includes target)
    foreach(module IN LISTS ARGN)
        get_property(members GLOBAL PROPERTY RATION_GROUP_${module})
        if(NOT members)
            set(members ${module})
        endif()
        foreach(member IN LISTS members)
            target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/layers/${member})
        endforeach()
    endforeach()
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
endfunction()

# ration_embed(TARGET NAME FILE)
#
# Puts a file into a target's objects as bytes. The code that uses it declares
#
#     extern const unsigned char NAME[], NAME_end[];
#
# and the bytes are those from the first up to the second. The assembler copies the file (.incbin),
# so that a megabyte costs no compile time; a change of the file builds it again.

enable_language(ASM)

function(ration_embed target name file)
    get_filename_component(file ${file} ABSOLUTE)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/embed/${name}.S)
    file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
#ifdef __CET__
#include <cet.h> /* an object without its note would take CET from the whole library */
#endif
    .section .rodata
    .global @name@, @name@_end
    .hidden @name@, @name@_end
    .type @name@, %object
    .balign 16
@name@:
    .incbin "@file@"
@name@_end:
    .byte 0
    .size @name@, @name@_end - @name@
    .section .note.GNU-stack, "", %progbits
]])
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${file})
    target_sources(${target} PRIVATE ${source})
endfunction()

# `make install`: the libraries, the public headers, the command with its manual and completions, a unit for
# systemd, pkg-config and CMake packages.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS libration_static libration_shared EXPORT ration
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ration_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/ration DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES man/ration.1 man/ration-serve.1 man/ration-check.1 man/ration-bench.1
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES man/ration-policy.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
install(FILES completions/ration.bash RENAME ration
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES completions/_ration DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES completions/ration.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# The unit names the program by its path, which is known when it is installed.
install(CODE "
    set(RATION_PROGRAM \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/ration\")
    configure_file(${PROJECT_SOURCE_DIR}/dist/systemd/ration.service.in ${PROJECT_BINARY_DIR}/ration.service @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/ration.service DESTINATION lib/systemd/system)

install(EXPORT ration NAMESPACE ration:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ration)
configure_package_config_file(cmake/rationConfig.cmake.in ${PROJECT_BINARY_DIR}/rationConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ration)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rationConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rationConfig.cmake
              ${PROJECT_BINARY_DIR}/rationConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ration)

# Relative to the .pc file, so that an installed tree may be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(RATION_PC_PREFIX "\${pcfiledir}/${pc_to_prefix}")
set(RATION_PC_ATOMIC "")
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(RATION_PC_ATOMIC " -latomic")
endif()
configure_file(cmake/ration.pc.in ${PROJECT_BINARY_DIR}/ration.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ration.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

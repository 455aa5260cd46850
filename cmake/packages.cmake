# SPDX-License-Identifier: Apache-2.0
# Debian packages: cmake --preset package && cmake --build --preset package && cpack --preset package
# The components are the packages; deploy/debian has what dpkg runs.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR perfleet)
set(CPACK_PACKAGE_CONTACT "perfleet maintainers <maintainers@perfleet.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# The libraries' names differ between releases of Debian, so each release has a build of its own: 1.2.3~deb12u1
# sorts before 1.2.3~deb13u1, and both before 1.2.3, which any other system builds.
cmake_host_system_information(RESULT release QUERY DISTRIB_INFO)
set(suffix "")
if(release_ID STREQUAL "debian" AND release_VERSION_ID)
    set(suffix "~deb${release_VERSION_ID}u1")
endif()
set(PFL_DEB_SUFFIX "${suffix}" CACHE STRING "what the version of Debian packages ends with")
set(PFL_DEB_VERSION ${PROJECT_VERSION}${PFL_DEB_SUFFIX})
set(CPACK_DEBIAN_PACKAGE_VERSION ${PFL_DEB_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
# Settings are in /etc, beside the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL host relay collector operator library dev)
set(CPACK_COMPONENTS_GROUPING IGNORE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/producer)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

# pfl_package(component NAME SECTION "short" "long" DEPENDS...)
macro(pfl_package component name section short long)
    string(TOUPPER ${component} id)
    set(CPACK_DEBIAN_${id}_PACKAGE_NAME ${name})
    set(CPACK_DEBIAN_${id}_PACKAGE_SECTION ${section})
    set(CPACK_DEBIAN_${id}_DESCRIPTION "${short}\n${long}")
    set(CPACK_COMPONENT_${id}_DESCRIPTION "${short}\n${long}")
    set(depends ${ARGN}) # a macro's ARGN is no variable
    list(JOIN depends ", " depends)
    set(CPACK_DEBIAN_${id}_PACKAGE_DEPENDS "${depends}")
    # Each file of the component's folder, so that a renamed one is not left out unnoticed.
    file(GLOB control CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/deploy/debian/${component}/*)
    set(overrides ${control})
    list(FILTER overrides INCLUDE REGEX /lintian-overrides$)
    list(REMOVE_ITEM control ${overrides} "")
    set(CPACK_DEBIAN_${id}_PACKAGE_CONTROL_EXTRA "${control}")
    if(overrides)
        install(FILES ${overrides}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME ${name}
            COMPONENT ${component} EXCLUDE_FROM_ALL)
    endif()
    # What every Debian package has.
    install(FILES ${PROJECT_SOURCE_DIR}/deploy/debian/copyright
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
    install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.gz
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/debian)
configure_file(${PROJECT_SOURCE_DIR}/deploy/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog @ONLY)
execute_process(COMMAND gzip -9nkf ${PROJECT_BINARY_DIR}/debian/changelog COMMAND_ERROR_IS_FATAL ANY)

# procps: systemctl reload is a kill -HUP.
set(makes_users "systemd | systemd-standalone-sysusers" "systemd | systemd-standalone-tmpfiles" procps)
pfl_package(host perfleet-host net "traces of this host: service, probes and agent"
"perfleetd collects traces of the programs on this host, in Perfetto's protocol.
perfleet-probes adds what the kernel knows. perfleet-agent offers the traces to
the fleet's operators, through a relay that it dials." ${makes_users})
pfl_package(relay perfleet-relay net "where operators and traced hosts of a fleet meet"
"perfleet-relay carries operators' streams to the tracing services of hosts,
over mutual TLS, by a policy, and writes down who did what. On a host itself
it gives access to that host." ${makes_users})
pfl_package(collector perfleet-collector net "keeps the traces of a fleet"
"perfleet-collector reads the finished segments that hosts keep, through a
relay, into a store and an index." ${makes_users})
pfl_package(operator perfleet net "traces a fleet of Linux hosts as if it were one machine"
"The operator's command line: records many hosts at once, into one trace on one
timeline, which Perfetto's UI and Trace Processor open. Also the fleet's
certificate authority." ${makes_users})
# loaded while it runs, by perfleet tunnel --ui
set(CPACK_DEBIAN_OPERATOR_PACKAGE_RECOMMENDS "openssl, libwebsockets-evlib-uv")
set(CPACK_DEBIAN_OPERATOR_PACKAGE_SUGGESTS "openssh-client")
pfl_package(library libperfleet0 libs "writes a program's own data into traces"
"A producer library of perfleet and Perfetto: custom data sources and track
events for C programs, without dependencies but libc.")
pfl_package(dev libperfleet-dev libdevel "writes a program's own data into traces, for development"
"Headers, static library and an example of libperfleet, a producer library of
perfleet and Perfetto." "libperfleet0 (= ${PFL_DEB_VERSION})" "libc6-dev")
include(CPack)

# What `cmake --install` (--prefix, DESTDIR) puts where, and what cpack makes a Debian package of.
# Manual pages are what the programs say of themselves with --help=man.
include(GNUInstallDirs)

set(daemons paracord-ps paracord-worker paracord-coordinator)
set(commands train launch validate status evaluate predict export checkpoint convert compute)
install(TARGETS paracord ${daemons} RUNTIME COMPONENT programs)
if(TARGET paracord_cuda)
  install(TARGETS paracord_cuda LIBRARY DESTINATION lib/paracord COMPONENT programs OPTIONAL)
endif()
install(FILES README.md CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/paracord COMPONENT programs)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/paracord COMPONENT programs)
foreach(place slurm systemd)
  install(FILES deploy/${place}/README.md
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/paracord/deploy/${place} COMPONENT programs)
endforeach()
install(PROGRAMS deploy/slurm/paracord.sbatch
  DESTINATION ${CMAKE_INSTALL_DATADIR}/paracord COMPONENT programs)
install(FILES deploy/completion/paracord
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
install(FILES deploy/systemd/paracord.sysusers RENAME paracord.conf
  DESTINATION lib/sysusers.d COMPONENT programs)

# The rest depends on the prefix that is given at installation.
string(CONFIGURE [[
  set(prefix "${CMAKE_INSTALL_PREFIX}")
  set(share "$ENV{DESTDIR}${prefix}/@CMAKE_INSTALL_DATADIR@")
  set(man "${share}/man/man1")
  file(MAKE_DIRECTORY "${man}" "$ENV{DESTDIR}${prefix}/lib/systemd/system")
  function(manual_page name)
    execute_process(COMMAND ${ARGN} --help=man OUTPUT_FILE "${man}/${name}.1"
      COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND gzip -9nf "${man}/${name}.1" COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  manual_page(paracord @CMAKE_RUNTIME_OUTPUT_DIRECTORY@/paracord)
  foreach(command @commands@)
    manual_page(paracord-${command} @CMAKE_RUNTIME_OUTPUT_DIRECTORY@/paracord ${command})
  endforeach()
  foreach(daemon @daemons@)
    manual_page(${daemon} @CMAKE_RUNTIME_OUTPUT_DIRECTORY@/${daemon})
    file(CREATE_LINK paracord "${share}/bash-completion/completions/${daemon}" SYMBOLIC)
  endforeach()
  foreach(unit paracord-ps@ paracord-worker@ paracord-coordinator)
    file(READ "@PROJECT_SOURCE_DIR@/deploy/systemd/${unit}.service" text)
    string(REPLACE "/usr/bin/" "${prefix}/@CMAKE_INSTALL_BINDIR@/" text "${text}")
    file(WRITE "$ENV{DESTDIR}${prefix}/lib/systemd/system/${unit}.service" "${text}")
  endforeach()
  # Debian's packages and everybody else's programs have folders of their own there.
  set(zsh site-functions)
  if(prefix STREQUAL "/usr")
    set(zsh vendor-completions)
  endif()
  file(INSTALL "@PROJECT_SOURCE_DIR@/deploy/completion/_paracord" DESTINATION
    "${prefix}/@CMAKE_INSTALL_DATADIR@/zsh/${zsh}")  # which DESTDIR goes before by itself
]] install_code @ONLY)
string(REPLACE ";" " " install_code "${install_code}")
install(CODE "${install_code}" COMPONENT programs)

set(CPACK_GENERATOR DEB)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};paracord;programs;/")
set(CPACK_SET_DESTDIR ON)  # units name the programs by the prefix
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "The authors of Paracord <paracord@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "parameter-server training cluster")
set(CPACK_PACKAGE_DESCRIPTION "Trains Keras models asynchronously on clusters of processes:\n\
 parameter servers, workers and a coordinator, any of which may fail at any\n\
 time. Every batch is applied exactly once.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Programs open it by name, which the list of the libraries that they are linked with lacks.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libcurl4t64 | libcurl4")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openssh-client, libhdf5-310 | libhdf5-103-1")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/debian/postinst
  ${PROJECT_SOURCE_DIR}/deploy/debian/prerm ${PROJECT_SOURCE_DIR}/deploy/debian/postrm)
include(CPack)

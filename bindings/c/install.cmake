# liblockstep.so, liblockstep.a, and how others find them: find_package(lockstep) and pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# lockstep::lockstep, the shared library.
add_library(lockstep SHARED $<TARGET_OBJECTS:lockstep_c>)
lockstep_target_flags(lockstep)
set(exports ${CMAKE_CURRENT_SOURCE_DIR}/exports.map)
set_target_properties(lockstep PROPERTIES
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${exports})
target_link_options(lockstep PRIVATE -Wl,--version-script=${exports})
if(NOT LOCKSTEP_SANITIZE)
  target_link_options(lockstep PRIVATE -Wl,-z,defs)
endif()
target_link_libraries(lockstep PRIVATE lockstep::transport)

# lockstep::lockstep_static. It is whole: what stays outside is named in `outside`, and in lockstep.pc.in.
set(objects)
foreach(part IN ITEMS c transport core)
  get_target_property(type lockstep_${part} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND objects $<TARGET_OBJECTS:lockstep_${part}>)
  endif()
endforeach()
set(outside xxhash hwy ssl crypto stdc++ m)
set(libraries_without_pc "-lstdc++ -lm -pthread")
if(LOCKSTEP_IPSEC_MB_LIBRARY)
  list(PREPEND outside IPSec_MB)
  string(PREPEND libraries_without_pc "-lIPSec_MB ")
endif()
add_library(lockstep_static STATIC ${objects})
lockstep_target_flags(lockstep_static)
set_target_properties(lockstep_static PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME lockstep)
target_link_libraries(lockstep_static INTERFACE Threads::Threads ${outside})

foreach(target IN ITEMS lockstep lockstep_static)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  add_library(lockstep::${target} ALIAS ${target})
endforeach()

install(FILES include/lockstep.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS lockstep lockstep_static EXPORT lockstep
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstepTargets.cmake DESTINATION ${package})
configure_package_config_file(lockstepConfig.cmake.in lockstepConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfigVersion.cmake
  DESTINATION ${package})

# The .pc file finds its prefix from where it lies, so that an installed tree may be moved.
file(RELATIVE_PATH prefix_from_pc /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(lockstep.pc.in lockstep.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What `cmake --install` puts in place: the program, libfarfield (all layers in one shared library that exports the
# public functions only), the public headers, and what CMake and pkg-config need to find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(ff_objects "")
set(ff_libs "")
foreach(layer base mesh tree plan kernel cuda dist sum model mpi)
  if(TARGET ff_${layer})
    get_target_property(kind ff_${layer} TYPE)
    if(kind STREQUAL STATIC_LIBRARY)
      list(APPEND ff_objects $<TARGET_OBJECTS:ff_${layer}>)
      # The layers' own requirements are outside libraries and other layers; the layers are in here already.
      get_target_property(needs ff_${layer} LINK_LIBRARIES)
      list(FILTER needs EXCLUDE REGEX "^ff_(base|mesh|tree|plan|kernel|cuda|dist|sum|model|mpi)$")
      list(APPEND ff_libs ${needs})
    endif()
  endif()
endforeach()
list(REMOVE_DUPLICATES ff_libs)

add_library(farfield_lib SHARED ${ff_objects})
add_library(farfield::farfield ALIAS farfield_lib)
set_target_properties(farfield_lib PROPERTIES OUTPUT_NAME farfield EXPORT_NAME farfield LINKER_LANGUAGE C
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                      INSTALL_RPATH_USE_LINK_PATH TRUE)
target_link_libraries(farfield_lib PRIVATE ${ff_libs})
if(TARGET ff_cuda)
  # The CUDA runtime and what its objects take from C++ stay inside: only the public functions are exported.
  target_link_libraries(farfield_lib PRIVATE stdc++)
  target_link_options(farfield_lib PRIVATE -Wl,--exclude-libs,ALL)
endif()
target_include_directories(farfield_lib INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

file(GLOB ff_public_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/farfield*.h)
set(FF_CONFIG_DEPENDENCY "")
if(FF_MPI)
  file(GLOB ff_mpi_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/mpi/farfield_*.h)
  if(ff_mpi_headers)
    # farfield_mpi.h takes an MPI_Comm, so whoever includes it needs MPI's header.
    list(APPEND ff_public_headers ${ff_mpi_headers})
    target_include_directories(farfield_lib INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/mpi>)
    target_link_libraries(farfield_lib INTERFACE MPI::MPI_C)
    set(FF_CONFIG_DEPENDENCY "include(CMakeFindDependencyMacro)\nfind_dependency(MPI COMPONENTS C)")
  endif()
endif()

install(TARGETS farfield_lib EXPORT farfieldTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET farfield)
  set_target_properties(farfield PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)
  install(TARGETS farfield RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${ff_public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(PROGRAMS ${CMAKE_SOURCE_DIR}/tools/farfield_convert.py DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/farfield DESTINATION ${CMAKE_INSTALL_DATADIR}/farfield/python
        PATTERN __pycache__ EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/docs/farfield.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_SOURCE_DIR}/docs/farfield.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME farfield)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/farfield)
install(EXPORT farfieldTargets NAMESPACE farfield:: DESTINATION ${config_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/farfieldConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/farfieldConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/farfieldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/farfieldConfig.cmake ${CMAKE_BINARY_DIR}/farfieldConfigVersion.cmake
        DESTINATION ${config_dir})

# The file finds its prefix from its own place, so an installed tree can be moved.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH FF_PC_UP /${pc_dir} /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/farfield.pc.in ${CMAKE_BINARY_DIR}/farfield.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/farfield.pc DESTINATION ${pc_dir})

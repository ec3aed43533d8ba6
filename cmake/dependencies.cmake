# Every outside library, found once and wrapped in a target of one name each.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
find_package(EXPAT REQUIRED)
find_package(PkgConfig REQUIRED)

pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
add_library(ff_dep_yaml INTERFACE)
target_link_libraries(ff_dep_yaml INTERFACE PkgConfig::YAML)

pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
add_library(ff_dep_jansson INTERFACE)
target_link_libraries(ff_dep_jansson INTERFACE PkgConfig::JANSSON)

pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
add_library(ff_dep_crypto INTERFACE)
target_link_libraries(ff_dep_crypto INTERFACE PkgConfig::CRYPTO)

find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)
add_library(ff_dep_random123 INTERFACE)
target_include_directories(ff_dep_random123 SYSTEM INTERFACE ${RANDOM123_INCLUDE_DIR})

# HDF5: the parallel one with FF_MPI=ON, the serial one otherwise. Debian installs both side by side.
add_library(ff_dep_hdf5 INTERFACE)
if(FF_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
  set(HDF5_PREFER_PARALLEL ON)
  find_package(HDF5 REQUIRED COMPONENTS C)
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES ${HDF5_C_INCLUDE_DIRS} ${MPI_C_INCLUDE_DIRS})
  check_c_source_compiles("#include <hdf5.h>
#ifndef H5_HAVE_PARALLEL
#error serial
#endif
int main(void) { return 0; }" FF_HDF5_IS_PARALLEL)
  unset(CMAKE_REQUIRED_INCLUDES)
  if(NOT FF_HDF5_IS_PARALLEL)
    message(FATAL_ERROR "FF_MPI=ON needs a parallel HDF5 (Debian: libhdf5-openmpi-dev), found ${HDF5_C_INCLUDE_DIRS}. "
                        "Install it, or set HDF5_ROOT, or configure with -DFF_MPI=OFF.")
  endif()
  target_link_libraries(ff_dep_hdf5 INTERFACE MPI::MPI_C)
else()
  set(HDF5_PREFER_PARALLEL OFF)
  find_package(HDF5 REQUIRED COMPONENTS C)
endif()
target_include_directories(ff_dep_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(ff_dep_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
target_compile_definitions(ff_dep_hdf5 INTERFACE ${HDF5_C_DEFINITIONS})

if(FF_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  # libcgns, where it is there, writes files for the tests of our CGNS reader. It brings a serial HDF5 of its own: Debian
  # gives the symbols of its HDF5 builds different versions, so both fit in one process.
  add_library(ff_dep_cgns INTERFACE)
  find_path(CGNS_INCLUDE_DIR cgns_io.h)
  find_library(CGNS_LIBRARY cgns)
  if(CGNS_INCLUDE_DIR AND CGNS_LIBRARY)
    target_include_directories(ff_dep_cgns SYSTEM INTERFACE ${CGNS_INCLUDE_DIR})
    target_link_libraries(ff_dep_cgns INTERFACE ${CGNS_LIBRARY})
    target_compile_definitions(ff_dep_cgns INTERFACE FF_HAVE_CGNS)
  endif()
endif()

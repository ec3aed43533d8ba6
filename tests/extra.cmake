# Tests that are scripts: the rooms of the sources, the installed package, and Python tests against other programs.
add_test(NAME unit.rooms COMMAND ${CMAKE_SOURCE_DIR}/tests/check_rooms.sh)
add_test(NAME unit.jobscripts COMMAND ${CMAKE_SOURCE_DIR}/tests/check_jobscripts.sh)
set_tests_properties(unit.rooms unit.jobscripts PROPERTIES LABELS unit TIMEOUT 60)

if(TARGET farfield_lib AND TARGET farfield AND NOT FF_SANITIZE)
  add_test(NAME install.consumer
           COMMAND ${CMAKE_SOURCE_DIR}/tests/install/check_install.sh ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(install.consumer PROPERTIES LABELS ref TIMEOUT 300)
endif()

# tests/ref/test_*.py, and slow_*.py with the label slow. The Python of .venv (tools/setup) or any with h5py.
# Tests find the program in FARFIELD and start ranks with MPIEXEC. Two may run at once, except those that stop runs.
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
  set(FF_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
else()
  find_program(FF_PYTHON NAMES python3)
endif()
if(FF_PYTHON)
  execute_process(COMMAND ${FF_PYTHON} -c "import h5py, numpy" RESULT_VARIABLE no_h5py ERROR_QUIET)
endif()
if(NOT FF_PYTHON OR no_h5py)
  message(STATUS "Python with h5py not found: tests/ref is left out (tools/setup makes .venv)")
elseif(TARGET farfield)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ref/test_*.py ${CMAKE_CURRENT_SOURCE_DIR}/ref/slow_*.py)
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    string(REGEX REPLACE "^(test|slow)_" "" short ${stem})
    set(labels ref)
    set(timeout 600)
    set(cores 1)
    set(kill OMPI_MCA_odls_base_sigkill_timeout=0) # mpirun waits a second for ranks where one ends with an error
    if(short MATCHES "^(train|ranks|cli|real_runs)$")
      set(cores 2)
      set(kill "")
    endif()
    if(stem MATCHES "^slow_")
      list(APPEND labels slow)
      set(timeout 36000)
    endif()
    add_test(NAME ref.${short} COMMAND ${FF_PYTHON} ${source} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    set_tests_properties(ref.${short} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} PROCESSORS ${cores}
      ENVIRONMENT "FARFIELD=$<TARGET_FILE:farfield>;FARFIELD_LIB=$<TARGET_FILE:farfield_lib>;MPIEXEC=${MPIEXEC_EXECUTABLE};OMP_NUM_THREADS=2;${ff_mpi_env};${kill};PYTHONDONTWRITEBYTECODE=1")
  endforeach()
endif()

# What the sanitizers are told, in every test of a build that has them.
if(FF_SANITIZE)
  get_property(all_tests DIRECTORY PROPERTY TESTS)
  set_property(TEST ${all_tests} APPEND PROPERTY ENVIRONMENT
    "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0")
  set_property(TEST ${all_tests} APPEND PROPERTY ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1")
  # LeakSanitizer follows blocks of thread-local memory and crashes at the end of one run in six where a thread with an
  # OpenMP team of its own (libomp) has ended before.
  set_property(TEST ${all_tests} APPEND PROPERTY ENVIRONMENT "ASAN_OPTIONS=intercept_tls_get_addr=0")
endif()

# Adds a libFuzzer program for each fuzz_*.c here to the ordinary build (see run.sh):
#   cmake -DCMAKE_PROJECT_farfield_INCLUDE=tests/fuzz/fuzz.cmake ...
# Everything is compiled with coverage and sanitizers; only the fuzzers themselves get libFuzzer's main.
add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
add_link_options(-fsanitize=address,undefined)

function(ff_fuzz_programs)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${name} PRIVATE ff_model)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    list(APPEND programs ${name})
  endforeach()
  add_custom_target(fuzzers DEPENDS ${programs})
  # Linked, but not fuzzed: its vector kernels take clang many minutes with all that.
  target_compile_options(ff_kernel PRIVATE -fno-sanitize=all -fno-sanitize-coverage=trace-pc-guard,inline-8bit-counters,pc-table)
endfunction()
cmake_language(DEFER CALL ff_fuzz_programs)

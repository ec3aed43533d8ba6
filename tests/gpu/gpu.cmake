# Tests that need a GPU (label gpu; only with FF_CUDA=ON): tests/gpu/test_*.cu and test_*.c, one program each. Where no
# GPU is present they end with code 77, which CTest counts as skipped (tests/gpu/ff_gpu_test.h).
# Target gpu_tests builds them.
file(GLOB gpu_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gpu/test_*.cu
     ${CMAKE_CURRENT_SOURCE_DIR}/gpu/test_*.c)
foreach(source ${gpu_sources})
  get_filename_component(stem ${source} NAME_WE)
  string(REPLACE "test_" "" short ${stem})
  ff_test_program(gpu ${source})
  target_include_directories(gpu_${short} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/gpu)
  target_link_libraries(gpu_${short} PRIVATE ff_cuda OpenMP::OpenMP_C)
  set_target_properties(gpu_${short} PROPERTIES CUDA_ARCHITECTURES "${FF_CUDA_ARCHITECTURES}" CUDA_STANDARD 17
                        CUDA_STANDARD_REQUIRED ON)
  target_compile_options(gpu_${short} PRIVATE
                         "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-fopenmp;--threads=2>")
  add_test(NAME gpu.${short} COMMAND gpu_${short} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  # One GPU is shared: tests of this label do not run beside each other.
  set_tests_properties(gpu.${short} PROPERTIES LABELS gpu TIMEOUT 300 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endforeach()

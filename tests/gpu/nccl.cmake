# Label nccl: ranks with a GPU each, or sharing one (FF_CUDA and FF_MPI). Without a GPU or NCCL they end with code 77.
add_executable(gpu_nccl ${CMAKE_CURRENT_SOURCE_DIR}/gpu/nccl_ranks.c)
target_include_directories(gpu_nccl PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/mpi)
target_link_libraries(gpu_nccl PRIVATE ff_testlib ff_mpi ff_cuda)
add_dependencies(gpu_tests gpu_nccl)
foreach(case "equal 2" "equal 3" "refused 2" "host 3")
  separate_arguments(words UNIX_COMMAND ${case})
  list(GET words 0 mode)
  list(GET words 1 ranks)
  add_test(NAME nccl.${mode}.n${ranks}
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} --oversubscribe $<TARGET_FILE:gpu_nccl> ${mode}
           WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(nccl.${mode}.n${ranks} PROPERTIES LABELS nccl TIMEOUT 120 SKIP_RETURN_CODE 77 RUN_SERIAL ON
    ENVIRONMENT "OMP_NUM_THREADS=4;${ff_mpi_env}")
endforeach()
# Sums: bits of one GPU on several ranks.
add_executable(gpu_sum_ranks ${CMAKE_CURRENT_SOURCE_DIR}/gpu/sum_ranks.c)
target_include_directories(gpu_sum_ranks PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/mpi)
target_link_libraries(gpu_sum_ranks PRIVATE ff_testlib ff_mpi ff_cuda)
add_dependencies(gpu_tests gpu_sum_ranks)
foreach(case "host 2" "host 3" "host 7" "staged 4" "nccl 2" "nccl 3")
  separate_arguments(words UNIX_COMMAND ${case})
  list(GET words 0 mode)
  list(GET words 1 ranks)
  add_test(NAME nccl.sum.${mode}.n${ranks}
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} --oversubscribe $<TARGET_FILE:gpu_sum_ranks> ${mode}
           WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(nccl.sum.${mode}.n${ranks} PROPERTIES LABELS nccl TIMEOUT 120 SKIP_RETURN_CODE 77 RUN_SERIAL ON
    ENVIRONMENT "OMP_NUM_THREADS=1;${ff_mpi_env}")
endforeach()
# A rank that is lost: the others say so in one line and end the job.
foreach(mode late absent)
  add_test(NAME nccl.${mode}.n2
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:gpu_nccl> ${mode}
           WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(nccl.${mode}.n2 PROPERTIES LABELS nccl TIMEOUT 60 SKIP_REGULAR_EXPRESSION "skipped:"
    PASS_REGULAR_EXPRESSION "lost after [0-9.]+ s: " RUN_SERIAL ON
    ENVIRONMENT "OMP_NUM_THREADS=4;${ff_mpi_env}")
endforeach()

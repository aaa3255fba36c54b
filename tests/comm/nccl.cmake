# Tests NCCL's communicator: every rank has a GPU, or several ranks share the stand-in's (tests/cuda_shim).
add_executable(test_nccl nccl_test.cpp)
target_link_libraries(test_nccl PRIVATE hidup_options hidup_comm hidup_collective_cases
                                        hidup_device_needed MPI::MPI_C GTest::gtest)
target_compile_definitions(test_nccl PRIVATE OMPI_SKIP_MPICXX)
add_test(NAME comm.test_nccl.1rank COMMAND ${mpirun} -n 1 $<TARGET_FILE:test_nccl>)
set_tests_properties(comm.test_nccl.1rank PROPERTIES LABELS mpi RUN_SERIAL ON TIMEOUT 120
                                                     SKIP_RETURN_CODE 77)
if(NOT HIDUP_CUDA_SHIM)
  return()
endif()

add_executable(test_fake_nccl fake_nccl_test.cpp)
target_link_libraries(test_fake_nccl PRIVATE hidup_options hidup_comm cuda_shim_nccl MPI::MPI_C
                                             GTest::gtest)
add_executable(failing_nccl failing_nccl.cpp)
target_link_libraries(failing_nccl PRIVATE hidup_options hidup_comm)
target_compile_definitions(test_fake_nccl PRIVATE OMPI_SKIP_MPICXX)
foreach(target test_nccl test_fake_nccl)
  foreach(ranks 2 4)
    add_test(NAME comm.${target}.${ranks}ranks
             COMMAND ${mpirun} -x CUDA_SHIM_DEVICES=4 -n ${ranks} $<TARGET_FILE:${target}>)
    set_tests_properties(comm.${target}.${ranks}ranks PROPERTIES LABELS mpi RUN_SERIAL ON
                                                                 TIMEOUT 120)
  endforeach()
endforeach()

# One thread stays in a call forever while another one makes calls.
add_test(NAME comm.test_fake_nccl.two_threads
         COMMAND ${mpirun} -x CUDA_SHIM_DEVICES=4 -x HIDUP_FAKE_NCCL_FAULT=hang:call=1 -n 2
                 $<TARGET_FILE:test_fake_nccl> --gtest_filter=FakeNccl.CallsOfTwoThreads)
# The watchdog looks often while a call lasts. It must not do so through calls at the same time.
add_test(NAME comm.nccl_slow
         COMMAND ${mpirun} -x CUDA_SHIM_DEVICES=4 -x HIDUP_FAKE_NCCL_FAULT=slow -n 4
                 $<TARGET_FILE:failing_nccl>)
set_tests_properties(comm.test_fake_nccl.two_threads comm.nccl_slow
                     PROPERTIES LABELS mpi RUN_SERIAL ON TIMEOUT 60)

# Stages of a pipeline wait for a slow one.
foreach(how moves moves_slow recorded_moves_slow)
  add_test(NAME comm.nccl_${how}
           COMMAND ${mpirun} -x CUDA_SHIM_DEVICES=4 -n 4 $<TARGET_FILE:failing_nccl> ${how})
  set_tests_properties(comm.nccl_${how} PROPERTIES LABELS mpi RUN_SERIAL ON TIMEOUT 15)
endforeach()

# Tests a fault: its message, printed once and in time, and mpirun's exit code.
function(failing_nccl_test NAME FAULT MESSAGE)
  add_test(NAME comm.nccl_${NAME}
           COMMAND bash -c "${mpirun} -x CUDA_SHIM_DEVICES=4 -x HIDUP_FAKE_NCCL_FAULT=${FAULT} -n 4 \
$<TARGET_FILE:failing_nccl> ${NAME} 2>&1; echo exit $?")
  set_tests_properties(comm.nccl_${NAME} PROPERTIES LABELS mpi RUN_SERIAL ON TIMEOUT 15
                       PASS_REGULAR_EXPRESSION "error: rank 0 [^\n]*: ${MESSAGE}.*exit 5\n"
                       FAIL_REGULAR_EXPRESSION "hidup: error.*hidup: error")
endfunction()
# Call 5 is the third one along a row; rank 1 waits in the column.
set(waits "rank 3 did not come to all_reduce of sum 3 along (row, in which rank 2|column, in which \
rank 1) has waited for 1[.][0-9] s. the last that it ended was all_reduce of sum 2 along column")
# Rank 0 waits in the row, and rank 3 in the column, at the same time.
failing_nccl_test(late none
                  "rank 1 did not come to all_reduce of sum 3 along (row, in which rank 0|column, in \
which rank 3) has waited for 1[.][0-9] s. the last that it ended was all_reduce of sum 2 along column")
failing_nccl_test(recorded_late none
                  "rank 1 did not come to all_reduce of sum 2 along (row, in which rank 0|column, in \
which rank 3) has waited for 1[.][0-9] s. the last that it ended was all_reduce of sum 2 along column")
failing_nccl_test(moves_late none
                  "rank 1 did not come to move of value 3 along (down|up), in which rank [02] has waited for \
1[.][0-9] s. the last that it ended was move of value 2 along (down|up)")
failing_nccl_test(recorded_moves_late none
                  "rank 1 did not come to move of value 2 along (down|up), in which rank [02] has waited for \
1[.][0-9] s. the last that it ended was move of value 2 along (down|up)")
failing_nccl_test(recorded_stall stall:rank=3:call=5
                  "all_reduce of sum 2 along row does not end, though its ranks 2, 3 all came to it")
failing_nccl_test(hang hang:rank=3:call=5 "${waits}")
failing_nccl_test(abort_fails hang:rank=3:call=5,abort_fails "${waits}")
failing_nccl_test(abort_hangs hang:rank=3:call=5,abort_hangs "${waits}")
failing_nccl_test(stall stall:rank=3:call=5
                  "all_reduce of sum 3 along row does not end, though its ranks 2, 3 all came to it")
failing_nccl_test(start hang:rank=3:call=0 "the start of NCCL along row does not end")
failing_nccl_test(async_error async_error:rank=3:call=5
                  "rank 3: all_reduce of sum 3 along row: NCCL: remote process exited")
failing_nccl_test(call_error call_error:rank=3:call=5
                  "rank 3: all_reduce of sum 3 along row: NCCL: unhandled system error")

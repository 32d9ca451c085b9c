# Helpers for the folders under tests/.

find_package(GTest REQUIRED)
include(GoogleTest)
find_package(rapidcheck REQUIRED)

# rapidcheck's package knows the library; its GoogleTest header comes with it.
set(LOCKSTEP_TEST_LIBRARIES GTest::gtest GTest::gmock rapidcheck)

# Sanitizers make programs slower; what they run gets more time.
set(LOCKSTEP_TEST_TIME_FACTOR 1)
if(LOCKSTEP_SANITIZE)
  set(LOCKSTEP_TEST_TIME_FACTOR 5)
endif()

# lockstep_tests(core TIMEOUT 60 FILES a_test.cc LINKS lockstep::core): the GoogleTest program lockstep_core_tests. Each
# of its tests is one ctest test with the label `core`, ended after TIMEOUT seconds (more under sanitizers).
# Without files there is no program. SERIAL: its tests never run beside others (they measure time). THREADS: it has
# threads; its tests have the label `a-threads` instead, and `./run test` repeats them under the thread sanitizer. One
# label each: gtest_discover_tests() of CMake 3.25 takes a second one for the next property. Properties draw the same
# values every time, as all tests do the same every time; for others: RC_PARAMS=seed=N
# build/release/tests/properties/lockstep_property_tests.
add_custom_target(lockstep_threaded_tests)
function(lockstep_tests name)
  cmake_parse_arguments(ARG "SERIAL;THREADS" "TIMEOUT" "FILES;LINKS" ${ARGN})
  if(NOT ARG_FILES)
    return()
  endif()
  set(target lockstep_${name}_tests)
  add_executable(${target} ${ARG_FILES})
  lockstep_target_flags(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -O0)  # sooner compiled; what is tested is optimized, but for what is inline in both
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-zero-variadic-macro-arguments>)  # GoogleTest's macros
  target_compile_definitions(${target} PRIVATE LOCKSTEP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(LOCKSTEP_SANITIZE)
    target_compile_definitions(${target} PRIVATE LOCKSTEP_SANITIZED)
  endif()
  target_link_libraries(${target} PRIVATE ${ARG_LINKS} ${LOCKSTEP_TEST_LIBRARIES} GTest::gtest_main)
  math(EXPR timeout "${ARG_TIMEOUT} * ${LOCKSTEP_TEST_TIME_FACTOR}")
  set(label ${name})
  if(ARG_THREADS)
    set(label ${name}-threads)
    add_dependencies(lockstep_threaded_tests ${target})
  endif()
  set(serial)
  if(ARG_SERIAL)
    set(serial RUN_SERIAL ON)
  endif()
  gtest_discover_tests(${target}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${label} TIMEOUT ${timeout} ENVIRONMENT RC_PARAMS=seed=1 ${serial})
endfunction()

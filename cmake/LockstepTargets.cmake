# How every target of ours is compiled, and two helpers that keep the CMakeLists.txt of the folders short.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# Build type of the sanitizer presets: fast enough to test with, and stack traces that can be read.
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
# Kernels ask for more, where it pays (core/CMakeLists.txt).
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(LOCKSTEP_CCACHE ccache)
mark_as_advanced(LOCKSTEP_CCACHE)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_C_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
endif()

# gcc lays programs out by what they do: `record` makes those that note it in build/profile when they end, `use` reads
# that.
set(LOCKSTEP_PROFILE "" CACHE STRING "record or use what programs do, in build/profile; empty: neither")
set(profile ${PROJECT_SOURCE_DIR}/build/profile)
set(LOCKSTEP_PROFILE_FLAGS_record -fprofile-generate=${profile} -fprofile-update=single)
set(LOCKSTEP_PROFILE_FLAGS_use -fprofile-use=${profile} -fprofile-partial-training -Wno-missing-profile)

# Flags of one target. Warnings are errors. Floating point is what the source says: no contraction, no fast-math, so
# that all compilers and machines give the same bits. Everything is hidden unless it is marked as part of the C API.
function(lockstep_target_flags target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wswitch -Werror -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # false alarms about "a" + std::string: GCC bug 105651
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
  if(LOCKSTEP_PROFILE)
    set(profile_flags ${LOCKSTEP_PROFILE_FLAGS_${LOCKSTEP_PROFILE}} -fprofile-prefix-path=${PROJECT_BINARY_DIR})
    target_compile_options(${target} PRIVATE ${profile_flags})
    target_link_options(${target} PRIVATE ${profile_flags})
  endif()
  if(LOCKSTEP_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # its flow analysis is misled by the checks it inserts
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${LOCKSTEP_SANITIZE})
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)  # programs in C load our C++, which wants its sanitizer
  endif()
endfunction()

# For what reads words, starts programs, prints and draws: under sanitizers it goes without optimization, which takes as
# long again to compile.
function(lockstep_unhurried target)
  if(LOCKSTEP_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# For programs that simulate for hours: a tenth of their time is allocating, less with mimalloc.
option(LOCKSTEP_MIMALLOC "Programs that simulate for hours allocate with mimalloc" OFF)
function(lockstep_runs_for_hours target)
  if(LOCKSTEP_MIMALLOC)
    find_package(mimalloc REQUIRED)
    target_link_libraries(${target} PRIVATE mimalloc)
  endif()
endfunction()

# lockstep_library(core FILES a.cc b.cc LINKS x y): the static library lockstep_core, known to others as lockstep::core.
# Sources include each other by their path from the top: "core/base/ids.h".
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "" "FILES;LINKS" ${ARGN})
  if(ARG_FILES)
    add_library(lockstep_${name} STATIC ${ARG_FILES})
    lockstep_target_flags(lockstep_${name})
    target_include_directories(lockstep_${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(lockstep_${name} PUBLIC ${ARG_LINKS})
  else()  # nothing to compile yet: headers
    add_library(lockstep_${name} INTERFACE)
    target_include_directories(lockstep_${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(lockstep_${name} INTERFACE ${ARG_LINKS})
  endif()
  add_library(lockstep::${name} ALIAS lockstep_${name})
endfunction()

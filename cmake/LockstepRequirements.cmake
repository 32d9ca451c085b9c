# Looks for everything that a build needs before anything is configured, so that one line names all that is missing.
#
# Works before the languages are enabled: a machine without a compiler gets the same line. Only headers and programs are
# looked for; the find_package() calls of the folders find the rest.
set(LOCKSTEP_MISSING)

# lockstep_requires(libasio-dev HEADER asio.hpp) or lockstep_requires(g++ PROGRAM c++ g++): adds the package to
# LOCKSTEP_MISSING unless a header or a program of that name is found.
function(lockstep_requires package kind)
  if(kind STREQUAL "PROGRAM")
    find_program(found NAMES ${ARGN} NO_CACHE)
  else()
    find_path(found NAMES ${ARGN} NO_CACHE)
  endif()
  if(NOT found)
    set(LOCKSTEP_MISSING ${LOCKSTEP_MISSING} ${package} PARENT_SCOPE)
  endif()
endfunction()

if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  lockstep_requires(g++ PROGRAM c++ g++ clang++)
endif()
if(NOT LOCKSTEP_WHEEL)
  lockstep_requires(pkg-config PROGRAM pkg-config pkgconf)
endif()
lockstep_requires(libasio-dev HEADER asio.hpp)
lockstep_requires(libcli11-dev HEADER CLI/CLI.hpp)
lockstep_requires(libfmt-dev HEADER fmt/format.h)
lockstep_requires(libhwy-dev HEADER hwy/highway.h)
if(CMAKE_HOST_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  lockstep_requires(libipsec-mb-dev HEADER intel-ipsec-mb.h)
endif()
lockstep_requires(libssl-dev HEADER openssl/ssl.h)
lockstep_requires(libtomlplusplus-dev HEADER toml++/toml.h)
lockstep_requires(libxxhash-dev HEADER xxhash.h)
lockstep_requires(nlohmann-json3-dev HEADER nlohmann/json.hpp)
if(LOCKSTEP_PYTHON AND Python_EXECUTABLE)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('include'), end='')"
    OUTPUT_VARIABLE include)
  if(NOT EXISTS ${include}/Python.h)
    list(APPEND LOCKSTEP_MISSING python3-dev)
  endif()
endif()
if(LOCKSTEP_TESTS)
  lockstep_requires(libgmock-dev HEADER gmock/gmock.h)
  lockstep_requires(libgtest-dev HEADER gtest/gtest.h)
  lockstep_requires(librapidcheck-dev HEADER rapidcheck.h)
endif()
if(LOCKSTEP_BENCHMARKS)
  lockstep_requires(libbenchmark-dev HEADER benchmark/benchmark.h)
endif()

if(LOCKSTEP_MISSING)
  list(JOIN LOCKSTEP_MISSING " " packages)
  # The leading newline keeps CMake from breaking the line.
  message(FATAL_ERROR "\n  Packages are missing. On Debian or Ubuntu: sudo apt-get install --no-install-recommends ${packages}\n")
endif()

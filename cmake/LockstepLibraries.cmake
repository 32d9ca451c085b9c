# The libraries of others, as targets that mean the same in every build:
#   lockstep::asio, lockstep::fmt, lockstep::hwy, lockstep::ipsec_mb, lockstep::openssl, lockstep::toml,
#   lockstep::xxhash
#
# With LOCKSTEP_WHEEL they are linked in, as archives or as headers: a wheel runs on machines that have none of them.
# Otherwise they are the system's shared libraries, as a distribution wants it.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

foreach(name IN ITEMS asio fmt hwy openssl toml xxhash)
  add_library(lockstep_${name} INTERFACE)
  add_library(lockstep::${name} ALIAS lockstep_${name})
endforeach()

# lockstep_headers(asio asio.hpp): the library is headers only, or what is taken from it is.
function(lockstep_headers name header)
  string(TOUPPER LOCKSTEP_${name}_INCLUDE folder)
  find_path(${folder} ${header} REQUIRED)
  mark_as_advanced(${folder})
  target_include_directories(lockstep_${name} SYSTEM INTERFACE ${${folder}})
endfunction()

if(LOCKSTEP_WHEEL)
  find_library(LOCKSTEP_XXHASH_ARCHIVE libxxhash.a REQUIRED)
  mark_as_advanced(LOCKSTEP_XXHASH_ARCHIVE)
  lockstep_headers(xxhash xxhash.h)
  target_link_libraries(lockstep_xxhash INTERFACE ${LOCKSTEP_XXHASH_ARCHIVE})
  target_link_libraries(lockstep_fmt INTERFACE fmt::fmt-header-only)
  lockstep_headers(toml toml++/toml.h)
  target_compile_definitions(lockstep_toml INTERFACE TOML_HEADER_ONLY=1)
  # Debian has no archive of Highway's library. core/kernels/cpu_targets.cc defines the two functions that the kernels
  # call.
  lockstep_headers(hwy hwy/highway.h)
  target_compile_definitions(lockstep_hwy INTERFACE LOCKSTEP_OWN_HWY)
else()
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(LOCKSTEP_XXHASH REQUIRED IMPORTED_TARGET libxxhash)
  find_package(hwy REQUIRED)
  find_package(tomlplusplus REQUIRED)
  target_link_libraries(lockstep_xxhash INTERFACE PkgConfig::LOCKSTEP_XXHASH)
  target_link_libraries(lockstep_fmt INTERFACE fmt::fmt)
  target_link_libraries(lockstep_toml INTERFACE tomlplusplus::tomlplusplus)
  target_link_libraries(lockstep_hwy INTERFACE hwy::hwy)
endif()

# A wheel carries its own copy, whose names nobody else sees: torch and Python have others in the same process.
if(LOCKSTEP_WHEEL)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(OpenSSL 3.0 REQUIRED COMPONENTS SSL)
target_link_libraries(lockstep_openssl INTERFACE OpenSSL::SSL)
if(LOCKSTEP_WHEEL)
  target_link_options(lockstep_openssl INTERFACE -Wl,--exclude-libs,libssl.a:libcrypto.a)
endif()

# Encrypts twice as fast as OpenSSL 3.0 on processors of this kind. Other machines encrypt with OpenSSL.
add_library(lockstep_ipsec_mb INTERFACE)
add_library(lockstep::ipsec_mb ALIAS lockstep_ipsec_mb)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  lockstep_headers(ipsec_mb intel-ipsec-mb.h)
  if(LOCKSTEP_WHEEL)
    find_library(LOCKSTEP_IPSEC_MB_LIBRARY libIPSec_MB.a REQUIRED)
    target_link_options(lockstep_ipsec_mb INTERFACE -Wl,--exclude-libs,libIPSec_MB.a)
  else()
    find_library(LOCKSTEP_IPSEC_MB_LIBRARY IPSec_MB REQUIRED)
  endif()
  mark_as_advanced(LOCKSTEP_IPSEC_MB_LIBRARY)
  target_link_libraries(lockstep_ipsec_mb INTERFACE ${LOCKSTEP_IPSEC_MB_LIBRARY})
  # Without the library's old names, some of which are those of OpenSSL.
  target_compile_definitions(lockstep_ipsec_mb INTERFACE LOCKSTEP_IPSEC_MB NO_COMPAT_IMB_API_053)
endif()

# asio without Boost has no CMake package.
lockstep_headers(asio asio.hpp)
target_compile_definitions(lockstep_asio INTERFACE ASIO_STANDALONE ASIO_DISABLE_STD_ALIGNED_ALLOC ASIO_NO_DEPRECATED)
if(LOCKSTEP_SANITIZE MATCHES "thread")
  # GCC refuses fences under the thread sanitizer, which does not understand them. asio's mutexes order the same things.
  target_compile_definitions(lockstep_asio INTERFACE ASIO_DISABLE_FENCED_BLOCK)
endif()

#include "transport/whole_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "transport/entropy.h"
#include "transport/no_signals.h"

namespace lockstep::transport {
namespace {

std::string says(const std::string& name) { return fmt::format("{}: {}", name, system_says()); }

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool keep_owner(int file, const std::string& of) {
  struct stat there {};
  if (::geteuid() != 0 || ::stat(of.c_str(), &there) != 0) return true;
  return ::fchown(file, there.st_uid, there.st_gid) == 0;
}

// Nothing, or what failed; then there is no file.
std::optional<std::string> write_new(const std::string& name, const std::string& owner_of,
                                     std::span<const std::byte> bytes) {
  const NoSizeSignal none;
  const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return says(name);
  std::optional<std::string> failed;
  if (!write_all(file, bytes) || !keep_owner(file, owner_of) || ::fsync(file) != 0) failed = says(name);
  if (::close(file) != 0 && !failed) failed = says(name);
  if (failed) ::unlink(name.c_str());
  return failed;
}

// The new name survives a power failure. Not all file systems can do this, and not all folders can be read.
void sync_folder(const std::string& of) {
  const std::string parent = std::filesystem::path(of).parent_path().string();
  const OpenFile folder(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.ok()) ::fsync(folder.descriptor());
}

}  // namespace

std::uint64_t change_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return 0;
  const auto as_unsigned = [](auto value) { return static_cast<std::uint64_t>(value); };
  return as_unsigned(found.st_mtim.tv_sec) * 1'000'000'000 + as_unsigned(found.st_mtim.tv_nsec) +
         as_unsigned(found.st_ino);
}

std::string system_says() { return std::error_code(errno, std::generic_category()).message(); }

std::string behind_links(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

std::string beside(const std::string& path) { return fmt::format("{}.{:08x}", path, random_u64() & 0xffffffffU); }

std::optional<std::string> replace_file(const std::string& path, std::span<const std::byte> bytes) {
  const std::string other = beside(path);
  if (auto failed = write_new(other, path, bytes)) return failed;
  if (std::rename(other.c_str(), path.c_str()) != 0) {
    auto failed = says(path);
    ::unlink(other.c_str());
    return failed;
  }
  sync_folder(path);
  return std::nullopt;
}

Result<bool> create_file(const std::string& path, std::span<const std::byte> bytes) {
  const std::string other = beside(path);
  if (const auto failed = write_new(other, path, bytes)) return Error{Status::kInvalidArgument, *failed};
  const bool linked = ::link(other.c_str(), path.c_str()) == 0;  // unlike rename(), keeps what is there
  const bool exists = !linked && errno == EEXIST;
  const Error failed{Status::kInvalidArgument, says(path)};
  ::unlink(other.c_str());
  if (!linked && !exists) return failed;
  if (linked) sync_folder(path);
  return linked;
}

}  // namespace lockstep::transport

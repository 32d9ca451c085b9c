// Writes files that appear whole or not at all: a reader never sees a partial file, and after a failure an older file
// of this name is unchanged. Only their owner can read them.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/result.h"

namespace lockstep::transport {

// A file descriptor that closes itself; -1: none.
class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool ok() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// The message of errno.
std::string system_says();

// A number that changes with the file; 0: there is no such file.
std::uint64_t change_of(const std::string& path);

// The file behind links, which is what a change replaces.
std::string behind_links(const std::string& path);

// A new name in the same folder.
std::string beside(const std::string& path);

// Replaces the file, or creates it. A file that root replaces keeps its owner. Nothing, or what failed, with the
// system's message.
std::optional<std::string> replace_file(const std::string& path, std::span<const std::byte> bytes);

// Creates the file; false: a file of this name exists, and is unchanged. The error has the system's message.
Result<bool> create_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace lockstep::transport

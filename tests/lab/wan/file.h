// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/result.h"

namespace lockstep::wan {

class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(); }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

// What the system said last, after what was tried. That this machine does not allow or have it is `refused`.
inline Error system_error(const std::string& what) {
  const int number = errno;
  bool refused = false;
  for (const int one : {EPERM, EACCES, ENOENT, ENODEV, ENXIO, ENOSYS, EROFS}) refused = refused || number == one;
  return {refused ? Status::kRefused : Status::kInternal, what + ": " + std::strerror(number)};
}

}  // namespace lockstep::wan

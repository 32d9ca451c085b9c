// A coordinator's hold on its token file: of two coordinators, each would write its own addresses into the file, and
// admit a peer by a token for one use. An empty file beside the token file, PATH.lock, is locked for as long as the
// hold lives, since each change replaces the token file itself. The hold ends with the process at the latest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.h"

namespace lockstep::transport {

class TokenFileHold {
 public:
  // Waits a second at most. The error names the token file: another coordinator holds it, or it cannot be locked.
  static Result<std::unique_ptr<TokenFileHold>> take(const std::string& path);
  ~TokenFileHold();
  TokenFileHold(const TokenFileHold&) = delete;
  TokenFileHold& operator=(const TokenFileHold&) = delete;

 private:
  explicit TokenFileHold(int descriptor);

  int descriptor_;
  std::uint64_t process_;  // process_number() of the process that holds the file
};

}  // namespace lockstep::transport

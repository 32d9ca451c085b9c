// The commands that any thread submits and the owner of the loop takes, until the engine fails or closes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/peer/input.h"
#include "transport/call.h"

namespace lockstep::transport {

struct Command {
  peer::Input input;
  std::shared_ptr<Call> call;  // null: not a new call
};

class CommandQueue {
 public:
  enum class Added : std::uint8_t {
    kFirst,  // of a batch: the owner must be told
    kMore,
    kRefused,  // the engine does not run any more: why_ended()
  };
  // Takes the command unless it is refused.
  Added add(Command& command) {
    const std::lock_guard lock(mutex_);
    if (ended_) return Added::kRefused;
    commands_.push_back(std::move(command));
    return commands_.size() == 1 ? Added::kFirst : Added::kMore;
  }
  // Exchanges the queue with an empty list of the owner.
  void take(std::vector<Command>& into) {
    const std::lock_guard lock(mutex_);
    commands_.swap(into);
  }
  // Refuses all later commands. Returns the commands that were never taken.
  std::vector<Command> end(const Error& why) {
    const std::lock_guard lock(mutex_);
    ended_ = why;
    return std::exchange(commands_, {});
  }

  [[nodiscard]] bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_.has_value();
  }
  [[nodiscard]] Error why_ended() const {
    const std::lock_guard lock(mutex_);
    return *ended_;
  }
  // One thread at a time looks at what the engine has left. False: the engine still runs.
  template <typename Look>
  bool after_end(Look look) const {
    const std::lock_guard lock(mutex_);
    if (!ended_) return false;
    look();
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Command> commands_;
  std::optional<Error> ended_;
};

}  // namespace lockstep::transport

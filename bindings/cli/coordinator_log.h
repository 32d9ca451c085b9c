// What `lockstep coordinator` says on stderr: a line for each event, as text or as JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/trace/event.h"

namespace lockstep::cli {

class CoordinatorLog {
 public:
  CoordinatorLog(bool json, bool commits) : json_(json), commits_(commits) {}
  ~CoordinatorLog() { tell_unlisted(); }
  CoordinatorLog(const CoordinatorLog&) = delete;
  CoordinatorLog& operator=(const CoordinatorLog&) = delete;

  void event(const trace::Event& event);
  // What is no event of the protocol: of the driver and its sockets.
  void note(std::string_view text);

 private:
  // Whoever reaches the port can be refused, as often as it likes: beyond a few lines each second they are only counted.
  bool is_one_too_many(const trace::Event& event);
  // A commit is listed on request, and where it tells of states that differ otherwise than the last one in its group told.
  bool lists(const trace::Event& event);
  void tell_unlisted();

  const bool json_;
  const bool commits_;
  std::chrono::steady_clock::time_point second_began_;
  std::uint64_t refused_ = 0;              // since then
  std::map<GroupId, std::string> differ_;  // as was told last
};

}  // namespace lockstep::cli

// What `lockstep coordinator` says on stderr: a line for each event, as text or as JSON.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/trace/event.h"
#include "transport/event_log.h"

namespace lockstep::cli {

class CoordinatorLog {
 public:
  CoordinatorLog(bool json, bool commits)
      : json_(json),
        commits_(commits),
        calm_({[this](const trace::Event& event) { list(event); },
               [this](const transport::EventLog::LeftOut& left_out) { list(left_out); }}) {}
  CoordinatorLog(const CoordinatorLog&) = delete;
  CoordinatorLog& operator=(const CoordinatorLog&) = delete;
  ~CoordinatorLog() = default;

  void event(const trace::Event& event);
  // What is no event of the protocol: of the driver and its sockets.
  void note(std::string_view text);

 private:
  // A commit is listed on request, and where it tells of states that differ otherwise than the last one in its group
  // told.
  bool lists(const trace::Event& event);
  void list(const trace::Event& event) const;
  void list(const transport::EventLog::LeftOut& left_out) const;

  const bool json_;
  const bool commits_;
  transport::EventLog calm_;
  std::map<GroupId, std::string> differ_;  // as was told last
};

}  // namespace lockstep::cli

// The output of `lockstep coordinator` on stderr: one line per event, as text or as JSON.
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
  // A message that is not an event of the protocol, but of the driver and its sockets.
  void note(std::string_view text);

 private:
  // Whether an event is logged. A commit is logged on request, and if it reports other differences between states than
  // the last commit of its group.
  bool lists(const trace::Event& event);
  void list(const trace::Event& event) const;
  void list(const transport::EventLog::LeftOut& left_out) const;

  const bool json_;
  const bool commits_;
  transport::EventLog calm_;
  std::map<GroupId, std::string> differ_;  // the last reported differences
};

}  // namespace lockstep::cli

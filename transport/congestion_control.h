// TCP's congestion control: which one suits the path of a stream, and which one the system has put in force.
//
// BBR does not take a lost packet for a full queue, so that far paths that lose packets stay fast. On short paths BBR
// costs time.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/time.h"
#include "transport/log.h"

namespace lockstep::transport {

// The congestion control in force; empty: the kernel does not report it.
std::string congestion_control_of(int socket);

// The controls that programs without privileges may set, such as "reno cubic"; empty: not known.
std::string allowed_controls();

// One line: what an administrator can do for far paths after the system has refused BBR with `error`. `in_force`: the
// congestion control that far paths have instead. `allowed`: what tcp_allowed_congestion_control of the system lists.
std::string bbr_advice(const std::error_code& error, std::string_view in_force, std::string_view allowed);

// Sets the congestion control of the streams of one connector.
class CongestionControl {
 public:
  // `name`: for all streams; empty: chosen by the path of each stream. `log` may be empty.
  CongestionControl(std::string name, Log log);

  // Call it before the stream is open: the control that the program named.
  void set_named(int socket);
  // Call it once the stream is open. Without a named control, replaces the system's default: on a far path by BBR if
  // the system allows BBR, on a short path BBR by CUBIC or Reno. `round_trip`: 0: not known, the default stays. Returns
  // the control in force.
  std::string suit_to_path(int socket, Duration round_trip);

 private:
  void prefer_bbr(int socket, std::string_view in_force);
  void say_in_force(const std::string& control);

  std::string name_;
  Log log_;
  bool said_refused_ = false;
  bool bbr_refused_ = false;
  std::set<std::string> said_;  // controls of far paths that the log names
};

}  // namespace lockstep::transport

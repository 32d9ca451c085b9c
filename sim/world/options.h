// How a run is watched, and what of it is done by hand.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace lockstep::sim {

class Guests;
class Witness;

struct WorldOptions {
  std::function<void(const std::string&)> trace;  // a line for everything a person may want to know; may be empty
  bool trace_streams = false;                     // also every input and effect of a stream
  std::uint64_t max_events = 20'000'000;          // for every kMaxDrawnPeers peers
  // Nothing happens by itself but what run_for() lets happen: processes are started, calls made and faults begun by
  // hand.
  bool scripted = false;
  // Observations of the application on a host: views, outcomes, the end of its run. Without times, so that a transcript
  // can hold them.
  std::function<void(std::uint32_t host, const std::string& line)> observe;
  // Programs from outside run instead of the simulator's own; bytes mode only. Null: none. The plan then says nothing
  // about the program, a program returns only after the time of its fault, and the run ends when the owner of the world
  // stops stepping it.
  Guests* guests = nullptr;
  Witness* witness = nullptr;  // looks on; may be null
  std::uint64_t until = 0;     // stop after so many events; 0: at the end
  // After one step in about so many the machine is saved, and a fresh one that loads it goes on (with real bytes only);
  // 0: never.
  std::uint64_t renew_one_in = 0;
};

}  // namespace lockstep::sim

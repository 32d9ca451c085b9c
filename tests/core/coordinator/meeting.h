// A coordinator, and members that a test plays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/hosts.h"

namespace lockstep::coordinator {

using fuzz::address_of;
using fuzz::FarEnd;

// Where the members are.
enum class Places : std::uint8_t { kOneHost, kHostsOfTheirOwn };

struct Meeting {
  explicit Meeting(std::uint32_t n, Duration round_trip = milliseconds(1), const CoordinatorOptions& options = {},
                   Places places = Places::kOneHost)
      : coordinator(options) {
    for (std::uint32_t i = 0; i < n; ++i) {
      wire::Join join;
      join.peer = id(i);
      join.founders = n;
      const auto host = static_cast<std::uint8_t>(places == Places::kOneHost ? 1 : i + 1);
      join.advertised = address_of(host);
      join.name = "p" + std::to_string(i);
      join.round_trip = round_trip;
      ends.push_back(&coordinator.streams.accept(address_of(host)));
      answered.push_back({});
      ends.back()->greet();
      ends.back()->say(join);
      coordinator.run();
    }
    answer_all();
  }
  static PeerId id(std::uint32_t i) { return {i + 1, i + 1}; }
  void answer_all(const FarEnd* but = nullptr) {
    coordinator.run();
    for (bool any = true; any;) {
      any = false;
      for (std::size_t i = 0; i < ends.size(); ++i) {
        const auto* propose = ends[i]->last<wire::Propose>();
        if (ends[i] == but || propose == nullptr || propose->number == answered[i] || ends[i]->shown_out()) continue;
        answered[i] = propose->number;
        ends[i]->say(wire::Flush{propose->number, {}});
        any = true;
      }
      coordinator.run();
    }
  }
  void pass(Duration time, const std::vector<FarEnd*>& but = {}) {
    for (Duration passed; passed < time; passed = passed + milliseconds(50)) {
      for (FarEnd* end : ends) {
        if (std::find(but.begin(), but.end(), end) == but.end() && !end->shown_out()) end->say(wire::Heartbeat{});
      }
      coordinator.run();
      coordinator.pass(milliseconds(50));
      coordinator.run();
    }
  }
  [[nodiscard]] std::size_t members() const { return coordinator.status().view.members.size(); }
  [[nodiscard]] std::uint64_t view() const { return coordinator.status().view.number.value; }
  // The text of its eviction; empty: it is in.
  [[nodiscard]] std::string evicted(std::uint32_t i) const {
    const auto* evicted = ends[i]->last<wire::Evicted>();
    return evicted == nullptr ? "" : evicted->text;
  }

  fuzz::CoordinatorHost coordinator;
  std::vector<FarEnd*> ends;
  std::vector<ProposalNumber> answered;
};

}  // namespace lockstep::coordinator

// How long after a fault is over what it has done may still be seen, each time derived once from the time-outs of the
// machines and from the plan's delays. An excuse ends with them.
#pragma once

#include <algorithm>

#include "core/base/time.h"
#include "core/coordinator/coordinator.h"
#include "core/peer/options.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

struct LossTimes {
  Duration beat;      // between two signs of life
  Duration silence;   // the coordinator, and a peer of it, hears nothing for so long
  Duration patience;  // for how long the coordinator remembers that a link was broken; see kMarksPerPatience
  Duration link_silence;
  Duration link_timeout;
  Duration dial;
  Duration grace;
  Duration gang_leave;
  // The time from an event until a running machine learns of it: the way, the queue in front of it, and the driver.
  Duration news;

  static LossTimes of(const Plan& plan) {
    std::int64_t way = plan.network.latency_hi_ns;
    std::uint64_t rate = std::max<std::uint64_t>(1, plan.network.rate_bytes_per_s);
    for (const LinkOptions& link : plan.network.links) {
      way = std::max(way, link.latency_ns);
      if (link.rate_bytes_per_s != 0) rate = std::min(rate, link.rate_bytes_per_s);
    }
    // A window of each stripe, and of a stream that is being replaced, may lie before it.
    const double queue =
        static_cast<double>(plan.network.window_bytes) * (plan.links.stripes + 1) * 1e9 / static_cast<double>(rate);
    LossTimes times{};
    times.news = nanoseconds(2 * (way + plan.network.jitter_ns) + 4 * plan.network.host_delay_ns +
                             plan.network.revoke_delay_ns + static_cast<std::int64_t>(std::min(queue, 1e15))) +
                 plan.delays.timer * 2;
    return times;
  }
  void with(const coordinator::CoordinatorOptions& options) {
    beat = options.heartbeat;
    silence = options.silence;
    patience = options.link_patience;
    gang_leave = options.gang_leave;
  }
  // Programs may have set others; the longest count.
  void with(const peer::PeerOptions& options) {
    link_silence = std::max(link_silence, options.link_silence);
    link_timeout = std::max(link_timeout, options.link_timeout);
    dial = std::max(dial, options.dial_timeout);
    grace = std::max(grace, options.abort_grace);
    beat = std::max(beat, options.link_heartbeat);
  }

  // A peer's last sign of life before it fell silent is up to a beat old, and so may the look of its judge be; and each
  // sign arrives when the way lets it. So much less than the limit must it have been silent at least.
  [[nodiscard]] Duration least_quiet(Duration limit) const { return std::max(beat, limit - beat * 2 - news); }
  // A link that was hurt is reported: its streams are silent for so long, then there is none (each attempt to open one
  // may hang), and its two ends look once in a beat.
  [[nodiscard]] Duration until_reported() const { return link_silence + link_timeout + dial + beat * 2 + news; }
  // From such a report on the coordinator takes the link for broken, if it is not said again. Its proposals may wait
  // for members that do not answer, before it decides.
  [[nodiscard]] Duration until_forgotten() const { return patience * kMarksPerPatience + silence * 2 + news; }
  static constexpr std::int64_t kMarksPerPatience = 2;  // counts_from() of core/coordinator/broken_links.h
  // The end of a stream is told to both.
  [[nodiscard]] Duration until_told() const { return news + beat; }
};

}  // namespace lockstep::sim

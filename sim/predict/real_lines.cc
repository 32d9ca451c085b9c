#include "sim/predict/real_lines.h"

#include "core/base/assert.h"
#include "sim/flow/max_min.h"

namespace lockstep::sim {

std::uint64_t payload_rate(std::uint64_t bytes_per_s, std::uint32_t mtu, bool both_ways) {
  LOCKSTEP_ASSERT(mtu > kHeaderBytes);
  if (bytes_per_s == 0 || bytes_per_s >= flow::kMostRate) return bytes_per_s;  // no limit
  // Bytes of two packets, so that one acknowledgement is a whole one.
  const double carried = 2.0 * mtu + (both_ways ? kHeaderBytes : 0);
  const double share = 2.0 * (mtu - kHeaderBytes) / carried;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(bytes_per_s) * share));
}

void leave_room_for_headers(Plan& plan, std::uint32_t mtu) {
  NetworkOptions& net = plan.network;
  const auto line = [&](std::uint64_t& rate) { rate = payload_rate(rate, mtu, true); };
  const auto way = [&](std::uint64_t& rate) { rate = payload_rate(rate, mtu, plan.founders == 2); };
  way(net.rate_bytes_per_s);
  for (LinkOptions& link : net.links) way(link.rate_bytes_per_s);
  line(net.flow.up_bytes_per_s);
  line(net.flow.down_bytes_per_s);
  for (flow::LineOptions& each : net.flow.lines) {
    line(each.up_bytes_per_s);
    line(each.down_bytes_per_s);
  }
}

}  // namespace lockstep::sim

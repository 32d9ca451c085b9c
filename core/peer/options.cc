#include "core/peer/options.h"

namespace lockstep::peer {

namespace {

// "stripes is 17; allowed: 1 to 16".
std::string out_of_range(const char* name, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  return std::string(name) + " is " + std::to_string(value) + "; allowed: " + std::to_string(least) + " to " +
         std::to_string(most);
}

std::string validate_ports(const PeerOptions& options) {
  const std::string first = std::to_string(options.first_port);
  const std::string last = std::to_string(options.last_port);
  if (options.last_port == 0 || options.last_port == options.first_port) return {};
  if (options.first_port == 0) {
    return "last_port is " + last + " but first_port is 0; give both, or neither for any port";
  }
  if (options.last_port > options.first_port) return {};
  return "last_port is " + last + "; allowed: first_port (" + first + ") to 65535, or 0 for first_port alone";
}

std::string validate_times(const PeerOptions& options) {
  for (const Duration time : {options.dial_timeout, options.link_heartbeat, options.link_silence, options.link_timeout,
                              options.abort_grace, options.direct.rate_window}) {
    if (time > Duration{0}) continue;
    return "dial_timeout, link_heartbeat, link_silence, link_timeout, abort_grace and direct.rate_window must be "
           "longer "
           "than 0";
  }
  if (options.link_silence > options.link_heartbeat) return {};
  return "link_silence must be longer than link_heartbeat; otherwise every link is reset";
}

}  // namespace

std::string validate_options(const PeerOptions& options) {
  if (options.name.size() > kMaxNameBytes) {
    return "name is " + std::to_string(options.name.size()) + " bytes long; allowed: at most " +
           std::to_string(kMaxNameBytes);
  }
  if (options.gang_size < 1 || options.gang_size > kMaxMembers) {
    return out_of_range("gang_size", options.gang_size, 1, kMaxMembers);
  }
  if (options.gang.value == 0 && options.gang_size > 1) {
    return "gang_size is " + std::to_string(options.gang_size) + " but gang is 0 (none); allowed: 0 or 1";
  }
  if (options.founders < 1 || options.founders > kMaxMembers) {
    return out_of_range("founders", options.founders, 1, kMaxMembers);
  }
  if (options.stripes < 1 || options.stripes > kMaxStripes) {
    return out_of_range("stripes", options.stripes, 1, kMaxStripes);
  }
  if (options.most_stripes > kMaxStripes) {
    return out_of_range("most_stripes", options.most_stripes, 0, kMaxStripes);
  }
  if (options.segment_bytes > kMaxSegmentBytes) {
    return out_of_range("segment_bytes", options.segment_bytes, 1, kMaxSegmentBytes) + ", or 0 for an automatic size";
  }
  if (options.strangers < 1 || options.strangers > kMaxStrangers) {
    return out_of_range("strangers", options.strangers, 1, kMaxStrangers);
  }
  if (options.eager_segments > kMaxEagerSegments)
    return out_of_range("eager_segments", options.eager_segments, 0, kMaxEagerSegments);
  if (options.window < 1 || options.window > kRoundWindow)
    return out_of_range("window", options.window, 1, kRoundWindow);
  if (options.queued_calls > kMaxQueuedCalls)
    return out_of_range("queued_calls", options.queued_calls, 0, kMaxQueuedCalls);
  if (std::string flaw = validate_ports(options); !flaw.empty()) return flaw;
  return validate_times(options);
}

}  // namespace lockstep::peer

#include "bindings/c/options.h"

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bindings/c/error.h"
#include "bindings/c/sized.h"
#include "core/wire/limits.h"

namespace lockstep::c {
namespace {

constexpr const char* kFlightFolder = "LOCKSTEP_FLIGHT_FOLDER";

// 0 means the default, which `value` contains already.
template <typename T, typename Limit>
std::optional<Error> override_with(T field, std::string_view name, Limit most, T& value) {
  if (field > most) return invalid("options.{} is {}; allowed: 1 to {}, or 0 for the default", name, field, most);
  if (field != 0) value = field;
  return std::nullopt;
}

std::optional<Error> wrong_ports(const lockstep_comm_options& options) {
  if (options.last_port != 0 && options.first_port == 0) {
    return invalid("options.last_port is {} but options.first_port is 0; give both, or neither for any port",
                   options.last_port);
  }
  if (options.last_port != 0 && options.last_port < options.first_port) {
    return invalid("options.last_port is {}; allowed: options.first_port ({}) to 65535, or 0 for first_port alone",
                   options.last_port, options.first_port);
  }
  return std::nullopt;
}

std::optional<Error> wrong_gang(const lockstep_comm_options& options) {
  if (options.gang == 0 && options.gang_size > 1) {
    return invalid("options.gang_size is {} but options.gang is 0 (none); allowed: 0 or 1", options.gang_size);
  }
  return std::nullopt;
}

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

std::optional<Error> flight_options(const lockstep_comm_options& in, transport::CommunicatorOptions& result) {
  constexpr std::uint32_t kMostKib = 512U << 10U;
  if (in.flight_kib > kMostKib) {
    return invalid("options.flight_kib is {}; allowed: 1 to {}, or 0 for the default", in.flight_kib, kMostKib);
  }
  if (in.flight_kib != 0) result.flight_bytes = std::size_t{in.flight_kib} << 10U;
  result.flight_folder = text_or_empty(in.flight_folder != nullptr ? in.flight_folder : std::getenv(kFlightFolder));
  return std::nullopt;
}

std::optional<Error> spin_option(std::uint32_t us, Duration& spin) {
  constexpr auto kMost = static_cast<std::uint32_t>(transport::kLongestSpin.ns / 1000);
  if (us == LOCKSTEP_NO_SPIN) {
    spin = Duration{0};
    return std::nullopt;
  }
  std::uint32_t wanted = 0;
  if (auto wrong = override_with(us, "spin_us", kMost, wanted)) return wrong;
  if (wanted != 0) spin = microseconds(wanted);
  return std::nullopt;
}

}  // namespace

void override_with(std::uint32_t ms, Duration& value) {
  if (ms != 0) value = milliseconds(ms);
}

transport::Log log_to(lockstep_log_fn log, void* user) {
  if (log == nullptr) return {};
  // The line may be a part of a longer text; C needs a terminating 0.
  return [log, user](std::string_view line) { log(user, std::string(line).c_str()); };
}

Result<transport::CommunicatorOptions> communicator_options(const lockstep_comm_options* options) {
  transport::CommunicatorOptions result;
  if (options == nullptr) {
    result.flight_folder = text_or_empty(std::getenv(kFlightFolder));
    return result;
  }
  const auto taken = take(options, "options", offsetof(lockstep_comm_options, flight_folder));
  if (!taken) return taken.error();
  const lockstep_comm_options& in = *taken;

  result.name = text_or_empty(in.name);
  if (result.name.size() > kMaxNameBytes) {
    return invalid("options.name is {} bytes long (\"{:.32}...\"); allowed: at most {}", result.name.size(),
                   result.name, kMaxNameBytes);
  }
  if (const auto wrong = wrong_ports(in)) return *wrong;
  if (const auto wrong = wrong_gang(in)) return *wrong;
  if (const auto wrong = override_with(in.gang_size, "gang_size", kMaxMembers, result.gang_size)) return *wrong;
  if (const auto wrong = override_with(in.founders, "founders", kMaxMembers, result.founders)) return *wrong;
  if (const auto wrong = override_with(in.minimum_world, "minimum_world", kMaxMembers, result.minimum_world))
    return *wrong;
  if (const auto wrong = override_with(in.stripes, "stripes", kMaxStripes, result.stripes)) return *wrong;
  if (const auto wrong = override_with(in.segment_bytes, "segment_bytes", kMaxSegmentBytes, result.segment_bytes)) {
    return *wrong;
  }

  result.group = GroupId{in.group};
  result.gang = GangId{in.gang};
  result.auto_admit = in.auto_admit != 0;
  result.listen_host = text_or_empty(in.listen_host);
  result.first_port = in.first_port;
  result.last_port = in.last_port;
  result.advertised_host = text_or_empty(in.advertise_host);
  result.advertised_port = in.advertise_port;
  override_with(in.dial_timeout_ms, result.dial_timeout);
  override_with(in.link_heartbeat_ms, result.link_heartbeat);
  override_with(in.link_silence_ms, result.link_silence);
  override_with(in.link_timeout_ms, result.link_timeout);
  override_with(in.abort_grace_ms, result.abort_grace);
  result.congestion_control = text_or_empty(in.congestion_control);
  if (const auto wrong = spin_option(in.spin_us, result.spin)) return *wrong;
  result.state_bytes_per_second = in.state_bytes_per_second;
  result.log = log_to(in.log, in.log_user);
  result.journal = log_to(in.journal, in.journal_user);
  if (const auto wrong = flight_options(in, result)) return *wrong;
  return result;
}

}  // namespace lockstep::c

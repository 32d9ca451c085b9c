#include "bindings/c/options.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/c/error.h"
#include "bindings/c/sized.h"
#include "core/base/text.h"
#include "core/wire/limits.h"
#include "transport/driver_mutant.h"

namespace lockstep::c {
namespace {

using transport::DriverMutant;

constexpr const char* kFlightFolder = "LOCKSTEP_FLIGHT_FOLDER";

// 0 means the default, which `value` contains already.
template <typename T>
void override_with(T field, T& value) {
  if (field != 0) value = field;
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
  if (us > kMost) return invalid("options.spin_us is {}; allowed: 1 to {}, or 0 for the default", us, kMost);
  if (us != 0) spin = microseconds(us);
  return std::nullopt;
}

}  // namespace

void override_with(std::uint32_t ms, Duration& value) {
  if (ms != 0) value = milliseconds(ms);
}

Result<transport::tls::CertificateFiles> certificate_files(const lockstep_certificates* certificates) {
  transport::tls::CertificateFiles files;
  if (certificates == nullptr) return files;
  const lockstep_certificates& in = *certificates;
  for (const char* const needed : {in.certificate, in.private_key, in.authority}) {
    if (needed == nullptr || *needed == '\0') {
      return invalid("options.certificates needs certificate, private_key and authority; one is missing");
    }
  }
  files.certificate = in.certificate;
  files.private_key = in.private_key;
  files.authority = in.authority;
  files.revocation_list = text_or_empty(in.revocation_list);
  return files;
}

transport::Log log_to(lockstep_log_fn log, void* user) {
  if (log == nullptr) return {};
  // The line may be a part of a longer text; C needs a terminating 0.
  return [log, user](std::string_view line) { log(user, std::string(line).c_str()); };
}

std::string default_name() {
  constexpr std::size_t kMostOfHost = 48;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host.front() == '\0') return fmt::format("[{}]", ::getpid());
  const std::string_view name(host.data());
  return fmt::format("{}[{}]", plain(cut(name.substr(0, name.find('.')), kMostOfHost)), ::getpid());
}

Result<transport::CommunicatorOptions> communicator_options(const lockstep_comm_options* options) {
  transport::CommunicatorOptions result;
  result.peer.most_stripes = kMaxStripes;  // unless the caller says how many
  if (options == nullptr) {
    result.flight_folder = text_or_empty(std::getenv(kFlightFolder));
    return result;
  }
  const auto taken = take(options, "options", offsetof(lockstep_comm_options, flight_folder));
  if (!taken) return taken.error();
  const lockstep_comm_options& in = *taken;

  peer::PeerOptions& peer = result.peer;
  peer.name = plain(text_or_empty(in.name));
  peer.group = GroupId{in.group};
  peer.gang = GangId{in.gang};
  override_with(in.gang_size, peer.gang_size);
  override_with(in.founders, peer.founders);
  override_with(in.minimum_world, result.minimum_world);
  peer.auto_admit = in.auto_admit != 0;
  result.listen_host = text_or_empty(in.listen_host);
  peer.first_port = in.first_port;
  if (!planted(DriverMutant::kLastPortIgnored)) peer.last_port = in.last_port;
  result.advertised_host = text_or_empty(in.advertise_host);
  peer.advertised.port = in.advertise_port;
  override_with(in.stripes, peer.stripes);
  if (in.stripes != 0) peer.most_stripes = 0;
  override_with(in.segment_bytes, peer.segment_bytes);
  override_with(in.dial_timeout_ms, peer.dial_timeout);
  override_with(in.link_heartbeat_ms, peer.link_heartbeat);
  override_with(in.link_silence_ms, peer.link_silence);
  override_with(in.link_timeout_ms, peer.link_timeout);
  if (!planted(DriverMutant::kGraceIgnored)) override_with(in.abort_grace_ms, peer.abort_grace);
  result.congestion_control = text_or_empty(in.congestion_control);
  if (const auto error = spin_option(in.spin_us, result.spin)) return *error;
  peer.sending.bytes_per_second = in.bytes_per_second;
  peer.sending.state_bytes_per_second = in.state_bytes_per_second;
  result.shared_thread = in.shared_thread != 0;
  result.protection.insecure = in.insecure != 0;
  auto certificates = certificate_files(in.certificates);
  if (!certificates) return certificates.error();
  result.protection.certificates = std::move(*certificates);
  result.log = log_to(in.log, in.log_user);
  result.journal = log_to(in.journal, in.journal_user);
  if (const auto error = flight_options(in, result)) return *error;
  return result;
}

}  // namespace lockstep::c

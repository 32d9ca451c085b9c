#include "bindings/cli/doctor/machine_checks.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "bindings/cli/doctor/address_kind.h"
#include "bindings/cli/size.h"
#include "transport/address.h"
#include "transport/congestion_control.h"

namespace lockstep::cli::doctor {
namespace {

constexpr double kBitsPerMbit = 1e6;

std::string host_of(const io::Address& address) { return transport::to_endpoint(address).address().to_string(); }

// tcp_rmem and tcp_wmem in one way. `setting`: the name under net.ipv4.
Finding check_tuning(std::string_view check, std::string_view setting, std::string_view does,
                     const std::optional<MachineFacts::Tuning>& tuning) {
  Finding finding{Grade::kOk, std::string(check), {}, {}};
  if (!tuning) {
    finding.found = fmt::format("{}: this system does not tell", setting);
    return finding;
  }
  const double rate = far_rate(tuning->most);
  const double mbits = rate * 8 / kBitsPerMbit;
  finding.found = fmt::format("{} at most {}: one stream {} up to {:.{}f} Mbit/s at a round trip of {:.0f} ms", setting,
                              size_words(tuning->most), does, mbits, mbits < 100 ? 1 : 0, kFarSeconds * 1e3);
  finding.values = {{"most_bytes", tuning->most}, {"bytes_per_second_at_100_ms", rate}};
  if (rate >= kFarBytesPerSecond) return finding;
  finding.grade = Grade::kWarning;
  finding.remedy = fmt::format(
      "far peers are slow: run `sysctl -w net.ipv4.{}=\"4096 131072 16777216\"` as root on this host; at each "
      "start: that setting in /etc/sysctl.d/lockstep.conf",
      setting);
  return finding;
}

}  // namespace

double far_rate(std::uint64_t most_bytes) { return static_cast<double>(most_bytes) / 2 / kFarSeconds; }

Finding check_build(const MachineFacts& machine) {
  return {Grade::kOk,
          "build",
          fmt::format("lockstep {}, built with {}; {}, {}", machine.version, machine.compiler, machine.architecture,
                      machine.kernel),
          {},
          {{"version", machine.version},
           {"compiler", machine.compiler},
           {"architecture", machine.architecture},
           {"kernel", machine.kernel}}};
}

Finding check_processor(const MachineFacts& machine) {
  const auto& processor = machine.processor;
  Finding finding{Grade::kOk, "processor", {}, {}};
  const std::string_view aes = !processor.known    ? "AES instructions not known"
                               : processor.has_aes ? "AES instructions for TLS"
                                                   : "no AES instructions";
  finding.found =
      fmt::format("{} {} for this process, {}", processor.cores, processor.cores == 1 ? "core" : "cores", aes);
  finding.values = {{"cores", processor.cores}, {"aes", processor.has_aes}};
  if (processor.known && !processor.has_aes) {
    finding.grade = Grade::kWarning;
    finding.remedy =
        "TLS uses ChaCha20, which takes about twice the time of AES instructions: give a virtual machine the "
        "instructions of its host (QEMU: -cpu host), or choose another kind of machine";
  } else if (processor.cores == 1) {
    finding.grade = Grade::kWarning;
    finding.remedy = "the network thread and the training share this core: give the process two cores or more";
  }
  return finding;
}

Finding check_memory(const MachineFacts& machine) {
  const auto& memory = machine.memory;
  Finding finding{Grade::kOk, "memory", "not known", {}};
  if (memory.total == 0) return finding;
  const std::uint64_t free = std::min(memory.available, memory.left_in_group.value_or(memory.available));
  finding.found = fmt::format("{} free of {}", size_words(memory.available), size_words(memory.total));
  finding.values = {{"free_bytes", free}, {"total_bytes", memory.total}};
  if (memory.left_in_group) {
    finding.found += fmt::format("; the limit of this container leaves {}", size_words(*memory.left_in_group));
  }
  if (free >= kLeastMemory) return finding;
  finding.grade = Grade::kWarning;
  finding.remedy =
      "a call in place keeps a copy of its input until it commits: end other programs, raise the limit, or reduce out "
      "of "
      "place";
  return finding;
}

Finding check_descriptors(const MachineFacts& machine) {
  const auto [soft, hard] = machine.descriptors;
  Finding finding{Grade::kOk, "descriptors", {}, {}};
  finding.found = fmt::format("up to {} open files and streams (ulimit -n); this user may set {}", soft, hard);
  finding.values = {{"soft", soft}, {"hard", hard}};
  if (soft >= kUsualDescriptors) return finding;
  finding.grade = soft < kLeastDescriptors ? Grade::kFailed : Grade::kWarning;
  constexpr std::uint64_t kAdvised = 4096;
  finding.remedy = fmt::format(
      "streams to {} need more: run `ulimit -n {}` before the program, or set LimitNOFILE={} in "
      "its service",
      soft < kLeastDescriptors ? "two neighbours" : "many peers", kAdvised, kAdvised);
  if (hard < kAdvised) {
    finding.remedy += fmt::format("; root raises the limit of {}: `nofile` in /etc/security/limits.conf", hard);
  }
  return finding;
}

Finding check_congestion_control(const MachineFacts& machine) {
  const auto& congestion = machine.congestion;
  const auto known = [](const std::string& text) { return text.empty() ? "not known" : text; };
  Finding finding{Grade::kOk, "congestion", {}, {}};
  finding.found =
      fmt::format("congestion control {}; programs may set: {}", known(congestion.in_force), known(congestion.allowed));
  finding.values = {{"in_force", congestion.in_force}, {"allowed", congestion.allowed}, {"bbr", !congestion.for_bbr}};
  if (!congestion.for_bbr) {
    finding.found += "; far streams get bbr";
    return finding;
  }
  finding.grade = Grade::kWarning;
  finding.remedy = transport::bbr_advice(congestion.for_bbr, congestion.in_force, congestion.allowed);
  return finding;
}

Finding check_receive_memory(const MachineFacts& machine) {
  return check_tuning("receive", "tcp_rmem", "receives", machine.receive);
}

Finding check_send_memory(const MachineFacts& machine) {
  return check_tuning("send", "tcp_wmem", "sends", machine.send);
}

Finding check_clock(const MachineFacts& machine) {
  const auto& clock = machine.clock;
  Finding finding{Grade::kOk, "clock", {}, {}};
  finding.values = {{"synchronised", clock.known ? nlohmann::json(clock.synchronised) : nlohmann::json()},
                    {"largest_error_seconds", static_cast<double>(clock.largest_error_us) * 1e-6},
                    {"monotonic", clock.monotonic},
                    {"source", clock.source}};
  constexpr std::array<std::string_view, 4> kSlow = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"};
  if (!clock.monotonic) {
    finding.grade = Grade::kFailed;
    finding.found = "the monotonic clock went back";
    finding.remedy = "time-outs and failure detection need it: update the kernel or the virtual machine's host";
  } else if (clock.known && !clock.synchronised) {
    finding.grade = Grade::kWarning;
    finding.found = "the wall clock is not synchronised by NTP";
    finding.remedy = "tokens expire by this clock: run `timedatectl set-ntp true` as root (container: on its host)";
  } else if (std::ranges::find(kSlow, clock.source) != kSlow.end()) {
    finding.grade = Grade::kWarning;
    finding.found = fmt::format("the kernel reads time from {}, which is slow", clock.source);
    finding.remedy =
        "every event of the engine reads the time: boot with clocksource=tsc, or use another virtual machine";
  } else if (!clock.known) {
    finding.found = "monotonic; this system does not tell whether NTP synchronises the wall clock";
  } else {
    finding.found = fmt::format("synchronised by NTP (largest error {:.3g} ms), monotonic, source {}",
                                static_cast<double>(clock.largest_error_us) * 1e-3,
                                clock.source.empty() ? "not known" : clock.source);
  }
  return finding;
}

Finding check_addresses(const MachineFacts& machine) {
  Finding finding{Grade::kOk, "addresses", {}, {}};
  finding.values["addresses"] = nlohmann::json::array();
  bool leads_out = false;
  for (const auto& [interface, address] : machine.addresses) {
    const AddressKind kind = kind_of(address);
    if (kind == AddressKind::kLoopback) continue;
    leads_out =
        leads_out || kind == AddressKind::kPrivate || kind == AddressKind::kShared || kind == AddressKind::kPublic;
    finding.found +=
        fmt::format("{}{} on {} ({})", finding.found.empty() ? "" : "; ", host_of(address), interface, words_of(kind));
    finding.values["addresses"].push_back(
        {{"address", host_of(address)}, {"interface", interface}, {"kind", name_of(kind)}});
  }
  if (finding.found.empty()) finding.found = "loopback addresses only";
  if (!leads_out) {
    finding.grade = Grade::kWarning;
    finding.remedy = "no other machine reaches a peer here: connect this machine to a network";
  }
  return finding;
}

Finding check_advertised(const MachineFacts& machine) {
  Finding finding{Grade::kOk, "advertised", {}, {}};
  finding.values["addresses"] = nlohmann::json::array();
  bool is_public = false;
  bool is_reached = false;  // at least by the machines of its network
  for (const io::Address& address : machine.advertised) {
    const AddressKind kind = kind_of(address);
    finding.found += fmt::format("{}{} ({})", finding.found.empty() ? "" : ", ", host_of(address), words_of(kind));
    finding.values["addresses"].push_back({{"address", host_of(address)}, {"kind", name_of(kind)}});
    is_public = is_public || kind == AddressKind::kPublic;
    is_reached = is_reached || kind == AddressKind::kPublic || kind == AddressKind::kPrivate;
  }
  if (!is_public) {
    finding.remedy =
        "if peers of other networks join: `lockstep coordinator --advertise HOST`, with a name or an address "
        "that reaches this machine from there, and its port forwarded";
    if (!is_reached) finding.grade = Grade::kWarning;
  }
  finding.found = "run tokens of a coordinator on this machine name " + finding.found;
  return finding;
}

Findings check_machine(const MachineFacts& machine) {
  Findings findings;
  for (const auto check : {check_build, check_processor, check_memory, check_descriptors, check_congestion_control,
                           check_receive_memory, check_send_memory, check_clock, check_addresses, check_advertised}) {
    findings.push_back(check(machine));
  }
  return findings;
}

}  // namespace lockstep::cli::doctor

#include "bindings/cli/doctor/machine_facts.h"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/utsname.h>

#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "transport/address.h"
#include "transport/clock.h"
#include "transport/congestion_control.h"
#include "transport/own_address.h"
#include "transport/whole_file.h"

namespace lockstep::cli::doctor {
namespace {

// Empty if the file cannot be read.
std::string text_of_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string first_word(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  return word;
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

MachineFacts::Descriptors descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return {limit.rlim_cur, limit.rlim_max};
}

MachineFacts::Congestion congestion() {
  MachineFacts::Congestion facts;
  facts.allowed = transport::allowed_controls();
  const transport::OpenFile stream(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!stream.ok()) return facts;
  facts.in_force = transport::congestion_control_of(stream.descriptor());
  constexpr std::string_view kBbr = "bbr";
  if (::setsockopt(stream.descriptor(), IPPROTO_TCP, TCP_CONGESTION, kBbr.data(), kBbr.size()) != 0) {
    facts.for_bbr = {errno, std::system_category()};
  }
  return facts;
}

MachineFacts::Clock clock() {
  MachineFacts::Clock facts;
  timex state{};  // modes 0: only reads
  const int result = ::adjtimex(&state);
  facts.known = result >= 0;
  facts.synchronised = facts.known && result != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  facts.largest_error_us = state.maxerror;
  constexpr int kReadings = 1000;
  Instant last = transport::now();
  for (int i = 0; i < kReadings; ++i) {
    const Instant next = transport::now();
    facts.monotonic = facts.monotonic && next >= last;
    last = next;
  }
  facts.source = first_word(text_of_file("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
  return facts;
}

// The limit of the control group that this process sees as the outermost one, as in a container.
std::optional<std::uint64_t> left_in_group() {
  const auto limit = number_of(first_word(text_of_file("/sys/fs/cgroup/memory.max")));
  const auto used = number_of(first_word(text_of_file("/sys/fs/cgroup/memory.current")));
  if (!limit || !used) return std::nullopt;
  return *limit > *used ? *limit - *used : 0;
}

std::vector<MachineFacts::OwnAddress> own_addresses() {
  std::vector<MachineFacts::OwnAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    asio::ip::tcp::endpoint endpoint;
    const std::size_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(endpoint.data(), each->ifa_addr, size);
    endpoint.resize(size);
    found.push_back({each->ifa_name, transport::to_address(endpoint)});
  }
  ::freeifaddrs(list);
  return found;
}

unsigned usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? static_cast<unsigned>(CPU_COUNT(&cores)) : 0;
}

}  // namespace

std::optional<MachineFacts::Tuning> tuning_of(const std::string& line) {
  std::istringstream words(line);
  MachineFacts::Tuning tuning;
  if (!(words >> tuning.least >> tuning.initial >> tuning.most)) return std::nullopt;
  return tuning;
}

MachineFacts::Memory memory_of(const std::string& meminfo) {
  MachineFacts::Memory memory;
  std::istringstream lines(meminfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (!(words >> name >> kib)) continue;
    if (name == "MemTotal:") memory.total = kib * 1024;
    if (name == "MemAvailable:") memory.available = kib * 1024;
  }
  return memory;
}

MachineFacts::Processor processor_of(const std::string& cpuinfo) {
  MachineFacts::Processor processor;
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;  // x86, ARM
    processor.known = true;
    std::istringstream words(line);
    for (std::string word; words >> word;) processor.has_aes = processor.has_aes || word == "aes";
    break;  // all cores have the same instructions
  }
  return processor;
}

MachineFacts gather_machine(std::string version) {
  MachineFacts facts;
  facts.version = std::move(version);
  utsname system{};
  if (::uname(&system) == 0) {
    facts.architecture = system.machine;
    facts.kernel = fmt::format("{} {}", system.sysname, system.release);
  }
  facts.compiler = compiler();
  facts.descriptors = descriptors();
  facts.congestion = congestion();
  facts.receive = tuning_of(text_of_file("/proc/sys/net/ipv4/tcp_rmem"));
  facts.send = tuning_of(text_of_file("/proc/sys/net/ipv4/tcp_wmem"));
  facts.clock = clock();
  facts.memory = memory_of(text_of_file("/proc/meminfo"));
  facts.memory.left_in_group = left_in_group();
  facts.addresses = own_addresses();
  io::Address everywhere;
  everywhere.family = io::Address::Family::kV6;
  facts.advertised = transport::reachable_at(everywhere);
  facts.processor = processor_of(text_of_file("/proc/cpuinfo"));
  facts.processor.cores = usable_cores();
  return facts;
}

}  // namespace lockstep::cli::doctor

// The judgement of `lockstep doctor` on a machine: what is healthy, and each broken set-up with its remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <system_error>

#include "bindings/cli/doctor/address_kind.h"
#include "bindings/cli/doctor/machine_checks.h"
#include "bindings/cli/doctor/machine_facts.h"
#include "bindings/cli/doctor/report.h"
#include "transport/address.h"

namespace lockstep::cli::doctor {
namespace {

using ::testing::HasSubstr;

MachineFacts healthy_machine() {
  MachineFacts machine;
  machine.version = "0.1";
  machine.compiler = "gcc 12.2.0";
  machine.architecture = "x86_64";
  machine.kernel = "Linux 6.1.0";
  machine.descriptors = {4096, 524'288};
  machine.congestion = {"cubic", "reno cubic bbr", {}};
  machine.receive = MachineFacts::Tuning{4096, 131'072, 6'291'456};
  machine.send = MachineFacts::Tuning{4096, 16'384, 4'194'304};
  machine.clock = {true, true, 1500, true, "tsc"};
  machine.memory = {std::uint64_t{8} << 30U, std::uint64_t{4} << 30U, std::nullopt};
  machine.addresses = {{"lo", transport::parse_literal("127.0.0.1", 0)},
                       {"eth0", transport::parse_literal("203.0.113.9", 0)}};
  machine.advertised = {transport::parse_literal("203.0.113.9", 0)};
  machine.processor = {true, true, 8};
  return machine;
}

Finding find_part(const MachineFacts& machine, const std::string& check) {
  const Findings findings = check_machine(machine);
  const auto found = std::ranges::find(findings, check, &Finding::check);
  EXPECT_NE(found, findings.end()) << check;
  return found == findings.end() ? Finding{} : *found;
}

TEST(DoctorMachine, AHealthyMachineIsOkInEveryCheck) {
  const Findings findings = check_machine(healthy_machine());
  EXPECT_EQ(findings.size(), 10U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.grade, Grade::kOk) << finding.check;
    EXPECT_FALSE(finding.found.empty()) << finding.check;
    EXPECT_EQ(finding.remedy, "") << finding.check;
  }
}

TEST(DoctorMachine, FindingsHaveTheirValues) {
  const MachineFacts machine = healthy_machine();
  EXPECT_EQ(find_part(machine, "build").found, "lockstep 0.1, built with gcc 12.2.0; x86_64, Linux 6.1.0");
  EXPECT_EQ(find_part(machine, "processor").found, "8 cores for this process, AES instructions for TLS");
  EXPECT_EQ(find_part(machine, "memory").found, "4 GiB free of 8 GiB");
  EXPECT_THAT(find_part(machine, "descriptors").found, HasSubstr("up to 4096 open files and streams"));
  EXPECT_EQ(find_part(machine, "congestion").found,
            "congestion control cubic; programs may set: reno cubic bbr; far streams get bbr");
  // 6 MiB / 2 / 100 ms, in bits
  EXPECT_THAT(find_part(machine, "receive").found,
              HasSubstr("tcp_rmem at most 6 MiB: one stream receives up to 252 Mbit/s"));
  EXPECT_THAT(find_part(machine, "send").found, HasSubstr("tcp_wmem at most 4 MiB: one stream sends up to 168 Mbit/s"));
  EXPECT_EQ(find_part(machine, "clock").found, "synchronised by NTP (largest error 1.5 ms), monotonic, source tsc");
  EXPECT_EQ(find_part(machine, "addresses").found, "203.0.113.9 on eth0 (public)");
  EXPECT_EQ(find_part(machine, "addresses").values["addresses"][0]["kind"], "public");
  EXPECT_EQ(find_part(machine, "clock").values["synchronised"], true);
  EXPECT_EQ(find_part(machine, "receive").values["most_bytes"], 6'291'456);
}

struct BrokenPart {
  const char* name;
  std::function<void(MachineFacts&)> breaks;
  const char* check;
  Grade grade;
  const char* found;
  const char* remedy;
};

class BrokenMachine : public ::testing::TestWithParam<BrokenPart> {};

TEST_P(BrokenMachine, IsNamedWithItsRemedy) {
  const BrokenPart& broken = GetParam();
  MachineFacts machine = healthy_machine();
  broken.breaks(machine);
  const Finding finding = find_part(machine, broken.check);
  EXPECT_EQ(finding.grade, broken.grade);
  EXPECT_THAT(finding.found, HasSubstr(broken.found));
  EXPECT_THAT(finding.remedy, HasSubstr(broken.remedy));
  for (const Finding& other : check_machine(machine)) {
    EXPECT_TRUE(other.check == broken.check || other.grade == Grade::kOk) << other.check;
  }
}

INSTANTIATE_TEST_SUITE_P(
    DoctorMachine, BrokenMachine,
    ::testing::Values(
        BrokenPart{"FewDescriptors",
                   [](auto& m) {
                     m.descriptors = {64, 4096};
                   },
                   "descriptors", Grade::kFailed, "up to 64 open files", "run `ulimit -n 4096` before the program"},
        BrokenPart{"DescriptorsForASmallRun",
                   [](auto& m) {
                     m.descriptors = {256, 4096};
                   },
                   "descriptors", Grade::kWarning, "up to 256 open files", "streams to many peers need more"},
        BrokenPart{"AHardLimitOfDescriptors",
                   [](auto& m) {
                     m.descriptors = {100, 100};
                   },
                   "descriptors", Grade::kFailed, "this user may set 100",
                   "root raises the limit of 100: `nofile` in /etc/security/limits.conf"},
        BrokenPart{"TinyReceiveMemory",
                   [](auto& m) {
                     m.receive = {4096, 16'384, 65'536};
                   },
                   "receive", Grade::kWarning, "tcp_rmem at most 64 KiB: one stream receives up to 2.6 Mbit/s",
                   "sysctl -w net.ipv4.tcp_rmem="},
        BrokenPart{"TinySendMemory",
                   [](auto& m) {
                     m.send = {4096, 16'384, 1'048'576};
                   },
                   "send", Grade::kWarning, "one stream sends up to 41.9 Mbit/s", "sysctl -w net.ipv4.tcp_wmem="},
        BrokenPart{"ClockWithoutNtp", [](auto& m) { m.clock.synchronised = false; }, "clock", Grade::kWarning,
                   "not synchronised by NTP", "timedatectl set-ntp true"},
        BrokenPart{"ClockThatGoesBack", [](auto& m) { m.clock.monotonic = false; }, "clock", Grade::kFailed,
                   "went back", "update the kernel"},
        BrokenPart{"SlowClock", [](auto& m) { m.clock.source = "hpet"; }, "clock", Grade::kWarning, "from hpet",
                   "clocksource=tsc"},
        BrokenPart{"BbrIsNotLoaded",
                   [](auto& m) {
                     m.congestion.for_bbr = {ENOENT, std::system_category()};
                   },
                   "congestion", Grade::kWarning, "congestion control cubic", "modprobe tcp_bbr"},
        BrokenPart{"BbrIsRestricted",
                   [](auto& m) {
                     m.congestion = {"cubic", "reno cubic", {EPERM, std::system_category()}};
                   },
                   "congestion", Grade::kWarning, "programs may set: reno cubic",
                   "tcp_allowed_congestion_control=\"reno cubic bbr\""},
        BrokenPart{"LittleMemory", [](auto& m) { m.memory.available = 100U << 20U; }, "memory", Grade::kWarning,
                   "100 MiB free", "keeps a copy of its input"},
        BrokenPart{"ASmallContainer", [](auto& m) { m.memory.left_in_group = 64U << 20U; }, "memory", Grade::kWarning,
                   "the limit of this container leaves 64 MiB", "raise the limit"},
        BrokenPart{"NoAesInstructions", [](auto& m) { m.processor.has_aes = false; }, "processor", Grade::kWarning,
                   "no AES instructions", "-cpu host"},
        BrokenPart{"OneCore", [](auto& m) { m.processor.cores = 1; }, "processor", Grade::kWarning, "1 core for",
                   "two cores or more"},
        BrokenPart{"LoopbackOnly", [](auto& m) { m.addresses.resize(1); }, "addresses", Grade::kWarning,
                   "loopback addresses only", "connect this machine to a network"},
        BrokenPart{"ABridgeOfContainersOnly",
                   [](auto& m) {
                     m.addresses = {{"docker0", transport::parse_literal("172.17.0.1", 0)}};
                   },
                   "addresses", Grade::kWarning,
                   "172.17.0.1 on docker0 (a bridge of container software: many machines have the same",
                   "connect this machine to a network"},
        BrokenPart{"TokensThatNameABridge", [](auto& m) { m.advertised = {transport::parse_literal("172.17.0.1", 0)}; },
                   "advertised", Grade::kWarning, "172.17.0.1 (a bridge", "--advertise HOST"}),
    [](const auto& broken) { return broken.param.name; });

// Of peers in one network only, a private address is right.
TEST(DoctorMachine, APrivateAddressIsOkAndExplained) {
  MachineFacts machine = healthy_machine();
  machine.advertised = {transport::parse_literal("10.1.2.3", 0)};
  const Finding finding = find_part(machine, "advertised");
  EXPECT_EQ(finding.grade, Grade::kOk);
  EXPECT_THAT(finding.found, HasSubstr("10.1.2.3 (private: machines of the same network only)"));
  EXPECT_THAT(finding.remedy, HasSubstr("--advertise HOST"));
}

TEST(DoctorMachine, WhatTheSystemDoesNotTellIsNoWarning) {
  MachineFacts machine = healthy_machine();
  machine.receive = machine.send = std::nullopt;
  machine.clock.known = machine.clock.synchronised = false;
  machine.memory = {};
  machine.processor = {false, false, 4};
  for (const Finding& finding : check_machine(machine)) EXPECT_EQ(finding.grade, Grade::kOk) << finding.check;
  EXPECT_TRUE(find_part(machine, "clock").values["synchronised"].is_null());
}

TEST(DoctorMachine, KindsOfAddresses) {
  const struct {
    const char* address;
    AddressKind kind;
  } cases[] = {
      {"127.0.0.1", AddressKind::kLoopback},    {"::1", AddressKind::kLoopback},
      {"169.254.7.7", AddressKind::kLinkLocal}, {"fe80::1", AddressKind::kLinkLocal},
      {"172.17.0.1", AddressKind::kBridge},     {"172.17.0.2", AddressKind::kPrivate},
      {"192.168.122.1", AddressKind::kBridge},  {"192.168.1.1", AddressKind::kPrivate},
      {"10.0.0.1", AddressKind::kPrivate},      {"172.31.255.255", AddressKind::kPrivate},
      {"172.32.0.1", AddressKind::kPublic},     {"fd00::1", AddressKind::kPrivate},
      {"100.64.0.1", AddressKind::kShared},     {"100.128.0.1", AddressKind::kPublic},
      {"8.8.8.8", AddressKind::kPublic},        {"2001:db8::1", AddressKind::kPublic},
  };
  for (const auto& [address, kind] : cases) {
    EXPECT_EQ(kind_of(transport::parse_literal(address, 0)), kind) << address;
  }
}

// ---- what the kernel writes ----

TEST(DoctorMachine, ReadsTheFilesOfTheKernel) {
  const auto tuning = tuning_of("4096\t131072\t33554432\n");
  ASSERT_TRUE(tuning.has_value());
  EXPECT_EQ(tuning->least, 4096U);
  EXPECT_EQ(tuning->initial, 131'072U);
  EXPECT_EQ(tuning->most, 33'554'432U);
  EXPECT_FALSE(tuning_of("").has_value());
  EXPECT_FALSE(tuning_of("4096 x").has_value());

  const auto memory = memory_of("MemTotal:  8 kB\nMemFree:  1 kB\nMemAvailable:  2 kB\n");
  EXPECT_EQ(memory.total, 8192U);
  EXPECT_EQ(memory.available, 2048U);
  EXPECT_EQ(memory_of("").total, 0U);

  EXPECT_TRUE(processor_of("processor\t: 0\nflags\t\t: fpu aes avx\n").has_aes);
  EXPECT_TRUE(processor_of("Features\t: fp asimd aes\n").has_aes);
  EXPECT_FALSE(processor_of("flags\t\t: fpu aesx\n").has_aes);
  EXPECT_TRUE(processor_of("flags\t\t: fpu\n").known);
  EXPECT_FALSE(processor_of("").known);
}

TEST(DoctorMachine, GathersThisMachine) {
  const MachineFacts machine = gather_machine("0.1");
  EXPECT_EQ(machine.version, "0.1");
  EXPECT_GT(machine.descriptors.soft, 0U);
  EXPECT_GT(machine.memory.total, machine.memory.available);
  EXPECT_GT(machine.processor.cores, 0U);
  EXPECT_TRUE(machine.clock.monotonic);
  EXPECT_FALSE(machine.advertised.empty());
  EXPECT_FALSE(machine.kernel.empty());
}

// ---- report ----

TEST(DoctorReport, ShowsGradesRemediesAndACount) {
  const Findings findings = {{Grade::kOk, "build", "lockstep 0.1", {}},
                             {Grade::kWarning, "clock", "late", "set it", {{"late", true}}},
                             {Grade::kFailed, "address", "none", "start it"}};
  EXPECT_EQ(text_of(findings),
            "ok       build        lockstep 0.1\n"
            "warning  clock        late\n"
            "                      -> set it\n"
            "failed   address      none\n"
            "                      -> start it\n"
            "1 ok, 1 warning, 1 failed\n");
  EXPECT_EQ(worst_of(findings), Grade::kFailed);
  EXPECT_EQ(worst_of({}), Grade::kOk);
  const auto json = json_of(findings);
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["grade"], "failed");
  EXPECT_EQ(json["findings"].size(), 3U);
  EXPECT_FALSE(json["findings"][0].contains("remedy"));
  EXPECT_EQ(json["findings"][1]["remedy"], "set it");
  EXPECT_EQ(json["findings"][1]["values"]["late"], true);
}

TEST(DoctorReport, ShowsNoRunToken) {
  const std::string secret = "lks1_" + std::string(80, 'a');
  const Findings findings = {{Grade::kFailed, "name", "cannot resolve " + secret, "not " + secret}};
  EXPECT_EQ(text_of(findings).find(secret), std::string::npos);
  EXPECT_EQ(json_of(findings).dump().find(secret), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli::doctor
